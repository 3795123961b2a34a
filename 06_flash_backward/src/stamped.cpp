// 06_flash_backward_stamped: prints the stamps of the Hopper rungs for the option --stamps of
// 06_flash_backward, section timeline.
#include "06_flash_backward/src/stamped.hpp"

#include "06_flash_backward/src/sections.hpp"

int main() {
  return fa::cli::print_stamps("06_flash_backward_stamped", fa::backward::stamped::backends,
                               fa::backward::drawn_problem, fa::backward::random_inputs);
}
