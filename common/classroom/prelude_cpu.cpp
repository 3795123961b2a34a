// Its command in compile_commands.json is how judges without kernels are compiled.
#include "common/classroom/prelude_cpu.hpp"
