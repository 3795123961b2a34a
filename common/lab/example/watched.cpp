// Runs the kernels in the watched lab and prints what it finds and counts. Exit status: 0 right and
// nothing found, 1 not, 2 a kernel could not be run.
#include <exception>

#include <fmt/format.h>

#include "common/lab/example/kernels.cuh"
#include "common/lab/watch.hpp"

//! [main]
int main() {
  try {
    const fa::lab::Watch watch;  // before the first buffer
    const bool right = fa::on_watched_lab::run_example();
    const fa::lab::Report report = watch.report();
    fmt::print("{}\n{}\n", report.text(), right ? "right" : "wrong results");
    return right && report.findings.empty() ? 0 : 1;
  } catch (const std::exception& error) {  // a deadlock, for example
    fmt::print("{}\n", error.what());
    return 2;
  }
}
//! [main]
