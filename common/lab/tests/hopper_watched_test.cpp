// The tests of what kernels for Hopper and Blackwell are written with, watched: nothing may be found in them.
#include <doctest/doctest.h>

#include "common/lab/watch.hpp"

namespace {

// Watches from here to the end of a test.
class CleanWatch {
 public:
  ~CleanWatch() {
    const fa::lab::Report report = watch_.report();
    CAPTURE(report.text());
    CHECK(report.findings.empty());
  }

 private:
  fa::lab::Watch watch_;
};

}  // namespace

#define FA_EACH_TEST const CleanWatch clean
#define FA_EACH_BLACKWELL_TEST FA_EACH_TEST

#include "common/gpu/tests/hopper_test.cuh"
#include "common/gpu/tests/tcgen05_test.cuh"
#include "common/gpu/tests/wgmma_test.cuh"
