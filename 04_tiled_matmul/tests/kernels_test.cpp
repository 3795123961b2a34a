// Every kernel on every machine of this build that can run here: ragged sizes, poisoned outputs.
#include <doctest/doctest.h>

#include "04_tiled_matmul/cublas.hpp"
#include "04_tiled_matmul/machine.hpp"
#include "04_tiled_matmul/trace.hpp"
#include "common/check/acceptance.hpp"

using namespace fa;
using tiled::Group;
using tiled::Machine;

namespace {

void check_group(const Group& group, const Machine& machine,
                 std::int64_t rows, std::int64_t cols, std::int64_t depth) {
  const tiled::Inputs in = group.inputs(rows, cols, depth);
  const auto ref = group.reference(in);
  const auto plain = group.plain(in);
  const double magnitude = tiled::magnitude_of(group, in);
  for (const tiled::Kernel& kernel : group.kernels) {
    const tiled::Prepared prepared = kernel.prepare(in);
    prepared.launch();
    const Verdict verdict = accept(kernel.name, prepared.result(), ref, plain,
                                   kForwardFactor, magnitude);
    CAPTURE(machine.properties.name);
    CAPTURE(group.title);
    CAPTURE(rows);
    CAPTURE(cols);
    CAPTURE(depth);
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
  }
}

const std::vector<Shape<3>> kSizes{
    {1, 1, 1},      {17, 19, 23},  {33, 65, 31}, {128, 128, 32},
    {130, 257, 75}, {5, 300, 129}, {200, 3, 7}};

void check_on_all_machines(const std::string& name,
                           const std::vector<Shape<3>>& sizes = kSizes) {
  for (const Machine& machine : tiled::machines()) {
    if (!machine.available || machine.kind == "watched") continue;
    for (const Group& group : machine.groups) {
      if (group.name != name) continue;
      for (const Shape<3>& size : sizes) {
        check_group(group, machine, size[0], size[1], size[2]);
      }
    }
  }
}

}  // namespace

TEST_CASE("vector addition") {
  check_on_all_machines("add");
}
TEST_CASE("transposes") {
  check_on_all_machines("transpose");
}
TEST_CASE("softmax of rows") {
  check_on_all_machines("softmax");
}
TEST_CASE("products A B in float32") {
  check_on_all_machines("matmul");
}
TEST_CASE("products A B^T in float32") {
  check_on_all_machines("matmul_bt");
}
TEST_CASE("products A B on tensor cores") {
  check_on_all_machines("mma");
}
TEST_CASE("products A B^T on tensor cores") {
  check_on_all_machines("mma_bt");
}
TEST_CASE("products on tensor cores whose stages are used again") {
  for (const char* group : {"mma", "mma_bt"}) {
    check_on_all_machines(group, {{130, 260, 257}, {140, 20, 700}});
  }
}
TEST_CASE("the block product") {
  check_on_all_machines("block");
}

TEST_CASE("cuBLAS, where there is one, computes the same products") {
  for (const Machine& machine : tiled::machines()) {
    if (!machine.available || machine.kind != "gpu") continue;
    for (Group group : machine.groups) {
      const auto peer = tiled::cublas(group.name);
      if (!peer) continue;
      group.kernels = {*peer};
      check_group(group, machine, 136, 264, 72);
    }
  }
}

TEST_CASE("wavefronts are those that ncu counts on an H200") {
  for (const Machine& machine : tiled::machines()) {
    if (machine.kind != "watched") continue;
    for (const Group& group : machine.groups) {
      if (group.name != "matmul") continue;
      for (const tiled::Kernel& kernel : group.kernels) {
        if (kernel.name != "12_matmul_vector_loads") continue;
        const auto trace =
            tiled::trace(group, kernel, group.inputs(128, 128, 128));
        REQUIRE(trace.has_value());
        CHECK(trace->wavefronts == 12288 + 1024);  // loads and stores
      }
    }
  }
}

TEST_CASE("the watched lab finds nothing in rungs whose stages come round") {
  for (const Machine& machine : tiled::machines()) {
    if (machine.kind != "watched") continue;
    for (const Group& group : machine.groups) {
      if (group.arithmetic != Arithmetic::kTensorCores16) continue;
      const tiled::Inputs in = group.inputs(130, 260, 330);
      for (const tiled::Kernel& kernel : group.kernels) {
        const auto trace = tiled::trace(group, kernel, in);
        REQUIRE(trace.has_value());
        CAPTURE(group.title);
        CAPTURE(trace->text);
        CHECK(trace->findings == 0);
      }
    }
  }
}

TEST_CASE("the watched lab finds nothing in blocks that persist") {
  for (const Machine& machine : tiled::machines()) {
    if (machine.kind != "watched") continue;
    for (const Group& group : machine.groups) {
      if (group.arithmetic != Arithmetic::kTensorCores16) continue;
      // At least three tiles of C for each of the two blocks.
      const tiled::Inputs in = group.inputs(260, 520, 70);
      for (const tiled::Kernel& kernel : group.kernels) {
        if (kernel.name < "21") continue;
        const auto trace = tiled::trace(group, kernel, in);
        REQUIRE(trace.has_value());
        CAPTURE(group.title);
        CAPTURE(trace->text);
        CHECK(trace->findings == 0);
      }
    }
  }
}

TEST_CASE("no kernel does anything that the watched lab finds wrong") {
  for (const Machine& machine : tiled::machines()) {
    if (machine.kind != "watched") continue;
    for (const Group& group : machine.groups) {
      const tiled::Inputs in = group.inputs(35, 41, 37);
      for (const tiled::Kernel& kernel : group.kernels) {
        const auto trace = tiled::trace(group, kernel, in);
        REQUIRE(trace.has_value());
        CAPTURE(group.title);
        CAPTURE(trace->text);
        CHECK(trace->findings == 0);
      }
    }
  }
}
