# ring_attention_nccl: ring attention between GPUs. NCCL comes from the packages libnccl2 and
# libnccl-dev, or from PyTorch's nvidia-nccl-cu13, whose folder nvidia/nccl is -DFA_NCCL=...; without
# it all else is built.
set(FA_NCCL "" CACHE PATH "Folder with NCCL's include/nccl.h and lib/; empty: where compilers look")
find_path(FA_NCCL_INCLUDE nccl.h HINTS "${FA_NCCL}/include" PATHS "${fa_toolkit}/include")
find_library(FA_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS "${FA_NCCL}/lib"
             PATHS "${fa_toolkit}/lib64")
mark_as_advanced(FA_NCCL_INCLUDE FA_NCCL_LIBRARY)
set(missing "")
if(NOT FA_NCCL_INCLUDE OR NOT FA_NCCL_LIBRARY)
  set(missing "not found; install libnccl-dev, or set FA_NCCL to the folder nvidia/nccl of the \
Python package nvidia-nccl-cu13")
else()
  file(STRINGS "${FA_NCCL_INCLUDE}/nccl.h" code REGEX "define NCCL_VERSION_CODE")
  string(REGEX REPLACE "[^0-9]" "" code "${code}")
  if(code LESS 21800)  # calls that do not block
    set(missing "${FA_NCCL_INCLUDE}/nccl.h has version code ${code}; 21800 (2.18) is needed")
  endif()
endif()
if(missing)
  if(FA_NCCL)
    message(FATAL_ERROR "FA_NCCL=${FA_NCCL}: NCCL ${missing}")
  endif()
  message(STATUS "NCCL: ${missing}. Ring attention between GPUs (lesson 06) is not built.")
  return()
endif()

add_executable(ring_attention_nccl ring/nccl_main.cu)
target_include_directories(ring_attention_nccl SYSTEM PRIVATE "${FA_NCCL_INCLUDE}")
target_link_libraries(ring_attention_nccl PRIVATE lesson06_ring_device flash_attention
                      flash_attention_backward "${FA_NCCL_LIBRARY}")
if(MPI_CXX_FOUND)
  target_sources(ring_attention_nccl PRIVATE ring/comm.cpp ring/mpi_group.cpp)
  target_link_libraries(ring_attention_nccl PRIVATE MPI::MPI_CXX)
  target_compile_definitions(ring_attention_nccl PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
else()
  target_sources(ring_attention_nccl PRIVATE ring/mpi_group_missing.cpp)
endif()
