#include "common/cli/program.hpp"
int main(int argc, char** argv) {
  fa::cli::Program program("01_naive_attention",
                           "Attention as the formulas read.");
  return program.run(argc, argv);
}
