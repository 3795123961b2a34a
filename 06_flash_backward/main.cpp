// Lesson 06: where the gradients of attention come from, and how to compute them without its
// weights.
#include "06_flash_backward/src/sections.hpp"

int main(int argc, char** argv) {
  const auto backends = fa::backward::backends();
  fa::cli::Program program("06_flash_backward",
                           "Lesson 06: the backward pass: derivation, kernels and training.");
  fa::backward::add_derivation(program);
  fa::backward::add_kernels(program, backends);
  fa::backward::add_training(program, backends);
  return program.run(argc, argv);
}
