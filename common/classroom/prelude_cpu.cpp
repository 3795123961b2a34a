// Its command in compile_commands.json is how graders, and entries without kernels, are compiled.
#include "common/classroom/prelude_cpu.hpp"
