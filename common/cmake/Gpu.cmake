# Is there an NVIDIA GPU, and a compiler for it? Sets FA_GPU_FOUND, and FA_CUDA when kernels are
# compiled for it.

# Whether NVCC makes code for an ARCHITECTURE such as sm_90a.
function(fa_nvcc_knows RESULT NVCC ARCHITECTURE)
  execute_process(COMMAND "${NVCC}" --dryrun -E -x cu /dev/null -arch=${ARCHITECTURE}
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${RESULT} ON PARENT_SCOPE)
  else()
    set(${RESULT} OFF PARENT_SCOPE)
  endif()
endfunction()

# fa_gpu_architectures(RESULT NVCC SMI): the value of CMAKE_CUDA_ARCHITECTURES. An explicit one and
# that of the environment (CUDAARCHS) are kept. Otherwise it is what the GPUs need that SMI, an
# nvidia-smi, lists: 9.0 becomes 90a, since Hopper's instructions are in sm_90a only, and so do
# newer ones that have such a variant. A GPU that is newer than NVCC gets the newest PTX. Where no
# GPU is known it is 80 and 90a; 80 without a suffix is also PTX, from which drivers make code for
# newer GPUs. Empty when no GPU can be compiled for: a warning says why.
function(fa_gpu_architectures RESULT NVCC SMI)
  foreach(given "${CMAKE_CUDA_ARCHITECTURES}" "$ENV{CUDAARCHS}")
    if(NOT given STREQUAL "")
      set(${RESULT} "${given}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(capabilities "")
  if(SMI)
    execute_process(COMMAND "${SMI}" --query-gpu=compute_cap --format=csv,noheader
                    RESULT_VARIABLE status OUTPUT_VARIABLE capabilities ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "[ \r]*\n" ";" capabilities "${capabilities}")
    if(NOT status EQUAL 0 OR NOT "${capabilities}" MATCHES "^[0-9]+\\.[0-9](;[0-9]+\\.[0-9])*$")
      message(STATUS
              "This nvidia-smi does not tell compute capabilities: kernels are compiled for GPUs "
              "of all kinds. -DCMAKE_CUDA_ARCHITECTURES=... saves time.")
      set(capabilities 7.5 8.0 9.0)
    endif()
  else()
    set(capabilities 8.0 9.0)
  endif()
  list(REMOVE_DUPLICATES capabilities)
  list(SORT capabilities COMPARE NATURAL)

  execute_process(COMMAND "${NVCC}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  list(SORT known COMPARE NATURAL)
  set(architectures "")
  foreach(capability IN LISTS capabilities)
    string(REPLACE "." "" number "${capability}")
    set(chosen "")
    if(number LESS 75)
      message(WARNING
              "A GPU of compute capability ${capability} is not used: kernels need 7.5 or newer.")
      continue()
    endif()
    if(NOT number LESS 90)
      fa_nvcc_knows(has_variant "${NVCC}" sm_${number}a)
      if(has_variant)
        set(chosen ${number}a)
      endif()
    endif()
    if(NOT chosen)
      fa_nvcc_knows(is_known "${NVCC}" sm_${number})
      if(is_known)
        set(chosen ${number})
      endif()
    endif()
    if(NOT chosen)  # the newest that is older
      foreach(older IN LISTS known)
        if(older LESS number)
          set(chosen ${older}-virtual)
        endif()
      endforeach()
      if(chosen)
        message(STATUS
                "${NVCC} does not know compute capability ${capability}: "
                "the driver makes code of PTX for it.")
      endif()
    endif()
    if(chosen)
      list(APPEND architectures ${chosen})
    else()
      list(GET known 0 oldest)
      message(WARNING
              "A GPU of compute capability ${capability} is not used: ${NVCC} makes code for "
              "sm_${oldest} and newer. Set CUDA_HOME to an older CUDA Toolkit.")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES architectures)
  set(${RESULT} "${architectures}" PARENT_SCOPE)
endfunction()

set(FA_GPU_FOUND OFF)
set(FA_CUDA OFF)
set(fa_architectures "")
if(NOT FA_GPU STREQUAL "OFF")
  # Toolkits are often installed without being put on PATH. build/nvcc is what fetch_nvcc.sh makes.
  find_program(FA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
               "${FA_ROOT}/build/nvcc"
               PATH_SUFFIXES bin)
  find_program(FA_NVIDIA_SMI nvidia-smi)
  set(fa_gpu_names "")
  if(FA_NVIDIA_SMI)
    execute_process(COMMAND "${FA_NVIDIA_SMI}" -L OUTPUT_VARIABLE fa_gpu_names ERROR_QUIET)
  endif()
  if(FA_NVCC AND fa_gpu_names MATCHES "GPU 0")
    set(FA_GPU_FOUND ON)
  endif()
  if(FA_GPU MATCHES "REQUIRED|COMPILE" AND NOT FA_NVCC)
    message(FATAL_ERROR
            "FA_GPU=${FA_GPU}, but there is no nvcc: install the CUDA Toolkit, set CUDA_HOME "
                        "or run common/cmake/fetch_nvcc.sh.")
  endif()
  if(FA_GPU STREQUAL "REQUIRED" AND NOT FA_GPU_FOUND)
    message(FATAL_ERROR "FA_GPU=REQUIRED, but nvidia-smi -L lists no GPU on this machine.")
  endif()
  if(FA_GPU_FOUND OR FA_GPU STREQUAL "COMPILE")
    set(fa_smi "")
    if(FA_GPU_FOUND)
      set(fa_smi "${FA_NVIDIA_SMI}")
    endif()
    fa_gpu_architectures(fa_architectures "${FA_NVCC}" "${fa_smi}")
    if(fa_architectures)
      set(FA_CUDA ON)
    elseif(NOT FA_GPU STREQUAL "AUTO")
      message(FATAL_ERROR
              "FA_GPU=${FA_GPU}, but kernels cannot be compiled for any GPU of this machine; "
              "the warning above says why.")
    else()
      set(FA_GPU_FOUND OFF)
    endif()
  endif()
  if(FA_CUDA)
    message(STATUS "Kernels are compiled for the GPU architectures ${fa_architectures}")
    set(CMAKE_CUDA_ARCHITECTURES "${fa_architectures}")
    set(CMAKE_CUDA_COMPILER "${FA_NVCC}")
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    # The loader does not always know where the toolkit's libraries are.
    get_filename_component(fa_toolkit "${FA_NVCC}/../.." ABSOLUTE)
    list(APPEND CMAKE_BUILD_RPATH "${fa_toolkit}/lib64")
  endif()
endif()
# For ./learn doctor; empty: kernels run in the lab.
set(FA_CUDA_ARCHITECTURES "${fa_architectures}" CACHE INTERNAL "What kernels are compiled for")
