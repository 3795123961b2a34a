# Is there an NVIDIA GPU, and a compiler for it? Sets FA_GPU_FOUND, and FA_CUDA when kernels are
# compiled for it.
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
    include("${CMAKE_CURRENT_LIST_DIR}/GpuArchitectures.cmake")
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
