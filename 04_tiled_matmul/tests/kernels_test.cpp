// Every kernel on every backend of this build that can run here: ragged sizes, poisoned outputs.
#include <algorithm>

#include <doctest/doctest.h>

#include "04_tiled_matmul/src/backend.hpp"
#include "04_tiled_matmul/src/trace.hpp"
#include "common/check/acceptance.hpp"

using namespace fa;
using tiled::Backend;
using tiled::Group;

namespace {

void check_group(const Group& group, const Backend& backend, std::int64_t m, std::int64_t n,
                 std::int64_t k) {
  const tiled::Inputs in = group.inputs(m, n, k);
  const auto ref = group.reference(in);
  const auto plain = group.plain(in);
  const double magnitude = tiled::magnitude_of(group, in);
  for (const tiled::Kernel& kernel : group.kernels) {
    const tiled::Prepared prepared = kernel.prepare(in);
    prepared.launch();
    const Verdict verdict =
        accept(kernel.name, prepared.result(), ref, plain, kForwardFactor, magnitude);
    CAPTURE(backend.properties.name);
    CAPTURE(group.title);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
  }
}

const std::vector<Shape<3>> kSizes{{1, 1, 1},      {17, 19, 23},  {33, 65, 31}, {128, 128, 32},
                                   {130, 257, 75}, {5, 300, 129}, {200, 3, 7}};

// Checks a group on each backend. @param kernels how many it has in the lab, where all can run
void check_on_all_backends(const std::string& name, std::size_t kernels,
                           const std::vector<Shape<3>>& sizes = kSizes) {
  CAPTURE(name);
  for (const Backend& backend : tiled::backends()) {
    if (!backend.available || backend.kind == "watched") continue;
    const Group& group = tiled::group_of(backend, name);
    CHECK(group.kernels.size() + group.left_out.size() == kernels);
    if (backend.kind == "lab") CHECK(group.left_out.empty());
    for (const Shape<3>& size : sizes) {
      check_group(group, backend, size[0], size[1], size[2]);
    }
  }
}

}  // namespace

TEST_CASE("vector addition") {
  check_on_all_backends("add", 1);
}
TEST_CASE("transposes") {
  check_on_all_backends("transpose", 4);
}
TEST_CASE("softmax of rows") {
  check_on_all_backends("softmax", 2);
}
TEST_CASE("matmuls in float32") {
  for (const char* group : {"matmul", "matmul_bt"}) check_on_all_backends(group, 8);
}
TEST_CASE("matmuls on tensor cores") {
  for (const char* group : {"mma", "mma_bt"}) check_on_all_backends(group, 7);
}
TEST_CASE("matmuls on tensor cores that reuse their stages") {
  for (const char* group : {"mma", "mma_bt"}) {
    check_on_all_backends(group, 7, {{130, 260, 257}, {140, 20, 700}});
  }
}
TEST_CASE("two matmuls back to back") {
  check_on_all_backends("block", 1);
}

TEST_CASE("cuBLAS, where there is one, computes the same") {
  for (const Backend& backend : tiled::backends()) {
    if (!backend.available || backend.kind != "gpu") continue;
    for (Group group : backend.groups) {
      const auto peer = tiled::cublas(group.name);
      if (!peer) continue;
      group.kernels = {*peer};
      check_group(group, backend, 136, 264, 72);
    }
  }
}

TEST_CASE("wavefronts are those that ncu counts on an H200") {
  for (const Backend& backend : tiled::backends()) {
    if (backend.kind != "watched") continue;
    const Group& group = tiled::group_of(backend, "matmul");
    const auto kernel =
        std::find_if(group.kernels.begin(), group.kernels.end(),
                     [](const auto& rung) { return rung.name == "12_matmul_vector_loads"; });
    REQUIRE(kernel != group.kernels.end());
    const auto trace = tiled::trace(group, *kernel, {{128, 128, 128}});
    REQUIRE(trace.has_value());
    CHECK(trace->wavefronts == 12288 + 1024);  // loads and stores
  }
}

TEST_CASE("the watched lab finds nothing wrong in any kernel") {
  lab::Coverage coverage;
  for (const Backend& backend : tiled::backends()) {
    if (backend.kind != "watched") continue;
    for (const Group& group : backend.groups) {
      for (const tiled::Kernel& kernel : group.kernels) {
        const auto trace = tiled::trace(group, kernel, tiled::watched_sizes(kernel.tiles));
        REQUIRE(trace.has_value());
        CAPTURE(group.title);
        CAPTURE(trace->text);
        CHECK(trace->findings == 0);
        coverage.add(trace->coverage);
      }
    }
    CHECK(lab::unreached_text(coverage) == "Every line of the kernels was reached.\n");
  }
}
