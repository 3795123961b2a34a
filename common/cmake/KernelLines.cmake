# cmake -DKERNELS=directory -DOUTPUT=file -P KernelLines.cmake: counts the lines of the kernel files
# as `wc -l` does, for C++. See fa_kernel_lines().
file(GLOB files "${KERNELS}/*.cuh")
set(entries "")
foreach(file IN LISTS files)
  file(READ "${file}" text)
  string(REGEX MATCHALL "\n" ends "${text}")
  list(LENGTH ends lines)
  get_filename_component(name "${file}" NAME_WE)
  string(APPEND entries "\n    {\"${name}\", ${lines}},")
endforeach()
file(WRITE "${OUTPUT}" "// Written by common/cmake/KernelLines.cmake.
#pragma once

#include \"common/cli/kernel_table.hpp\"

namespace fa {
inline const cli::KernelLines kKernelLines = {${entries}
};
}  // namespace fa
")
