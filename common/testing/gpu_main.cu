// The main function of test executables that need a GPU; without one they are skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <cstring>

#include <doctest/doctest.h>

#include "common/gpu/launch.cuh"

int main(int argc, char** argv) {
  bool lists = false;  // the build lists the tests on any machine
  for (int i = 1; i < argc; ++i) {
    lists = lists || std::strstr(argv[i], "list") != nullptr;
  }
  if (!lists && !fa::on_gpu::device_available()) {
    std::puts("skipped: there is no NVIDIA GPU");
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
