// The section of lesson 06 that ./learn run does not compile.
#include "05_flash_forward/src/functor_section.hpp"
#include "06_flash_backward/src/functors.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "common/cli/kernels.hpp"

namespace {

using namespace fa;
using namespace fa::backward;

void show_functors(cli::Program& program, const cli::KernelOptions& options) {
  const std::vector<functors::Backend> all = functors::backends();
  const functors::Backend& backend = *find_backend(all, program.on_gpu() ? "gpu" : "lab");
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  flash::functors::check_functors<functors::FunctorChecker>(program, backend,
                                                            functors::functor_inputs);
  if (!cli::can_time(program, options)) return;
  const std::vector<Backend> ladders = backends();
  const Backend& ladder = *find_backend(ladders, "gpu");
  flash::functors::time_functors(options, backend, ladder, "06_flash_backward", 5, true,
                                 [&](Problem problem) {
                                   // Of no functor: times do not depend on O and LSE.
                                   problem.causal = true;
                                   return backward::timed_inputs(ladder, problem);
                                 });
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("06_flash_backward",
                       "Lesson 06: gradients of masks and scores by functors.");
  const cli::KernelBackends<Backend> backends(program, backward::backends());
  cli::KernelOptions options;
  cli::add_record_options(program, options, "section functors");
  program.section_apart("functors", "Gradients of masks and scores by functors",
                        [&] { show_functors(program, options); });
  return program.run(argc, argv);
}
