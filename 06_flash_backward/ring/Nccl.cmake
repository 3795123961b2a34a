# ring_attention_nccl: ring attention between GPUs. NCCL comes from the packages libnccl2 and
# libnccl-dev, or from PyTorch's nvidia-nccl-cu13, whose folder nvidia/nccl is -DFA_NCCL=...; without
# it all else is built.
set(FA_NCCL "" CACHE PATH "Folder with NCCL's include/nccl.h and lib/; empty: where compilers look")
unset(FA_NCCL_INCLUDE CACHE)
unset(FA_NCCL_LIBRARY CACHE)
if(FA_NCCL)
  find_path(FA_NCCL_INCLUDE nccl.h PATHS "${FA_NCCL}/include" NO_DEFAULT_PATH)
  find_library(FA_NCCL_LIBRARY NAMES nccl libnccl.so.2 PATHS "${FA_NCCL}/lib" NO_DEFAULT_PATH)
else()
  find_path(FA_NCCL_INCLUDE nccl.h PATHS "${fa_toolkit}/include")
  find_library(FA_NCCL_LIBRARY nccl HINTS "${FA_NCCL_INCLUDE}/../lib" PATHS "${fa_toolkit}/lib64")
endif()
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
message(STATUS "NCCL: ${FA_NCCL_INCLUDE}, ${FA_NCCL_LIBRARY}")

add_executable(ring_attention_nccl ring/nccl_main.cu)
target_include_directories(ring_attention_nccl SYSTEM PRIVATE "${FA_NCCL_INCLUDE}")
target_link_libraries(ring_attention_nccl PRIVATE lesson06_ring_device flash_attention
                      flash_attention_backward "${FA_NCCL_LIBRARY}")
if(MPI_CXX_FOUND)
  target_sources(ring_attention_nccl PRIVATE ring/comm.cpp ring/mpi_group.cpp)
  target_link_libraries(ring_attention_nccl PRIVATE MPI::MPI_CXX)
  target_compile_definitions(ring_attention_nccl PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
else()
  target_sources(ring_attention_nccl PRIVATE ring/mpi_missing.cpp)
endif()

if(NOT BUILD_TESTING)
  return()
endif()
foreach(section check long)
  add_test(NAME lesson06.ring_nccl.${section} COMMAND ring_attention_nccl --section ${section})
  set_tests_properties(lesson06.ring_nccl.${section} PROPERTIES
    LABELS lesson06 SKIP_RETURN_CODE 77 TIMEOUT 300 ENVIRONMENT "${FA_TEST_ENVIRONMENT}")
endforeach()
if(Python3_Interpreter_FOUND)
  add_test(NAME lesson06.ring_nccl.faults
           COMMAND "${Python3_EXECUTABLE}" -B -m unittest 06_flash_backward/tests/ring_nccl_test.py
           WORKING_DIRECTORY "${FA_ROOT}")
  set_tests_properties(lesson06.ring_nccl.faults PROPERTIES
    LABELS lesson06 TIMEOUT 300 SKIP_REGULAR_EXPRESSION "skipped="
    ENVIRONMENT "${FA_TEST_ENVIRONMENT};RING_ATTENTION_NCCL=$<TARGET_FILE:ring_attention_nccl>")
endif()
