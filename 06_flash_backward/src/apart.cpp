// The sections of lesson 06 that ./learn run does not compile.
#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/functors.hpp"

int main(int argc, char** argv) {
  using namespace fa;
  cli::Program program("06_flash_backward",
                       "Lesson 06: gradients of masks and scores by functors.");
  const cli::KernelBackends<backward::Backend> backends(program, backward::backends());
  cli::KernelOptions options;
  cli::add_record_options(program, options, "section functors");
  program.section_apart("functors", "Gradients of masks and scores by functors",
                        [&] { backward::functors::show_functors(program, options); });
  return program.run(argc, argv);
}
