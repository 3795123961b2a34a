// broken_on_gpu NAME [--right]: runs a broken kernel, or its right twin, once on the GPU, for a
// tool that watches; broken_on_gpu --list prints the names. Exit status: 0 it ran, 1 the GPU
// reported an error, 2 could not do what was asked.
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "common/gpu/tests/broken.cuh"

int main(int argc, char** argv) {
  using namespace fa::on_gpu;
  const auto kernels = broken_kernels();
  std::string names;
  for (const BrokenKernel& kernel : kernels) names += kernel.name + "\n";
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--list" && argc == 2) {
    fmt::print("{}", names);
    return 0;
  }
  const bool right = argc == 3 && std::string(argv[2]) == "--right";
  for (const BrokenKernel& kernel : kernels) {
    if (kernel.name != name || (argc != 2 && !right)) continue;
    if (!device_available()) {
      fmt::print(stderr, "broken_on_gpu: there is no NVIDIA GPU here\n");
      return 2;
    }
    try {
      kernel.run(!right);
    } catch (const std::exception& error) {
      fmt::print(stderr, "broken_on_gpu: {}: {}\n", name, error.what());
      return 1;
    }
    return 0;
  }
  fmt::print(stderr, "usage: broken_on_gpu NAME [--right], or --list; NAME is one of\n{}", names);
  return 2;
}
