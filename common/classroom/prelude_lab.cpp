// Its command in compile_commands.json is how graders of kernels are compiled.
#include "common/classroom/prelude_lab.hpp"
