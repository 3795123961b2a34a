// The entry of every puzzle. Its kernel and the student's file are the compiler's options; see
// catalogue.py.
#include "common/classroom/prelude_lab.hpp"
#include FA_STUDENT

FA_ENTRY(run, [](const std::string& puzzle) {
  return fa::classroom::play(puzzle, fa::FA_TARGET::FA_KERNEL);
});
