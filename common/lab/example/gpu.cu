// Runs the same kernels on a GPU. Exit status: 0 right, 1 not, 2 a kernel could not be run.
#include <exception>

#include <fmt/format.h>

#include "common/lab/example/kernels.cuh"

int main() {
  try {
    const bool right = fa::on_gpu::run_example();
    fmt::print("{}\n", right ? "right" : "wrong results");
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 2;
  }
}
