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
if(NOT FA_NCCL_INCLUDE OR NOT FA_NCCL_LIBRARY)
  set(missing "NCCL is not found; install libnccl-dev, or set FA_NCCL to the folder nvidia/nccl of \
the Python package nvidia-nccl-cu13")
  if(FA_NCCL)
    message(FATAL_ERROR "FA_NCCL=${FA_NCCL}: ${missing}")
  endif()
  message(STATUS "${missing}. Ring attention between GPUs (lesson 06) is not built.")
  return()
endif()
message(STATUS "NCCL: ${FA_NCCL_INCLUDE}, ${FA_NCCL_LIBRARY}")

add_executable(ring_attention_nccl ring/nccl_main.cu)
target_include_directories(ring_attention_nccl SYSTEM PRIVATE "${FA_NCCL_INCLUDE}")
target_link_libraries(ring_attention_nccl PRIVATE lesson06_ring fa_program flash_attention
                      flash_attention_backward "${FA_NCCL_LIBRARY}")
if(BUILD_TESTING)
  add_test(NAME lesson06.ring_nccl COMMAND ring_attention_nccl --section check)
  set_tests_properties(lesson06.ring_nccl PROPERTIES
    LABELS lesson06 SKIP_RETURN_CODE 77 TIMEOUT 600 ENVIRONMENT "${FA_TEST_ENVIRONMENT}")
endif()
