// 05_flash_forward_stamped: prints the stamps of the Hopper rungs for the option --stamps of
// 05_flash_forward, section timeline.
#include "05_flash_forward/src/stamped.hpp"

#include <exception>

#include "05_flash_forward/src/sections.hpp"

int main() {
  using namespace fa;
  try {
    const auto backends = flash::stamped::backends();
    return cli::print_stamps(
        backends.front(), backends.back(), flash::drawn_problem,
        [](const flash::Problem& problem) {
          return flash::make_inputs(problem, flash::Values::kNormal, 1);
        });
  } catch (const std::exception& error) {
    fmt::print(stderr, "05_flash_forward_stamped: {}\n", error.what());
    return 2;
  }
}
