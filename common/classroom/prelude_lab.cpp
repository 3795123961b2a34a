// Its command in compile_commands.json is how entries of kernels are compiled.
#include "common/classroom/prelude_lab.hpp"
