// 06_flash_backward_stamped: prints the stamps of the Hopper rungs for the option --stamps of
// 06_flash_backward, section timeline.
#include "06_flash_backward/src/stamped.hpp"

#include <exception>

#include "06_flash_backward/src/timeline.hpp"

int main() {
  using namespace fa;
  try {
    const auto backends = backward::stamped::backends();
    return cli::print_stamps(
        backends.front(), backends.back(), backward::drawn_problem,
        [](const backward::Problem& problem) {
          return backward::make_inputs(problem, backward::Values::kNormal, 1);
        });
  } catch (const std::exception& error) {
    fmt::print(stderr, "06_flash_backward_stamped: {}\n", error.what());
    return 2;
  }
}
