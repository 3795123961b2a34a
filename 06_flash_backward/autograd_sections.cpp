// The section about the tape.
#include <fmt/format.h>

#include "06_flash_backward/sections.hpp"

namespace fa::backward {

void add_autograd(cli::Program& program) {
  program.section("autograd", "A tape", [] {});
}

}  // namespace fa::backward
