// 05_flash_forward_stamped: prints the stamps of the Hopper rungs for the option --stamps of
// 05_flash_forward, section timeline.
#include "05_flash_forward/src/stamped.hpp"

#include "05_flash_forward/src/sections.hpp"

int main() {
  return fa::cli::print_stamps("05_flash_forward_stamped", fa::flash::stamped::backends,
                               fa::flash::drawn_problem, fa::flash::random_inputs);
}
