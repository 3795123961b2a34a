// The sections of lesson 05 that ./learn run does not compile.
#include "05_flash_forward/src/decode.hpp"
#include "05_flash_forward/src/functors.hpp"
#include "05_flash_forward/src/sections.hpp"

int main(int argc, char** argv) {
  using namespace fa;
  cli::Program program("05_flash_forward", "Lesson 05: decode kernels and functors.");
  const cli::KernelBackends<flash::Backend> backends(program, flash::backends());
  cli::KernelOptions options;
  program.option("--kernel", options.kernel,
                 "section decode: only kernels whose name contains this text");
  cli::add_record_options(program, options, "sections decode and functors");
  program.section_apart("decode", "Decode kernels: few queries, many keys",
                        [&] { flash::decode::show_decode(program, options); });
  program.section_apart("functors", "Masks and scores by functors",
                        [&] { flash::functors::show_functors(program, options); });
  return program.run(argc, argv);
}
