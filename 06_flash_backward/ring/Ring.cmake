# Ring attention: a program of its own, whose ranks are threads; with MPI processes, too.
if(NOT CMAKE_CROSSCOMPILING)
  set(MPI_ASSUME_NO_BUILTIN_MPI ON)  # one compilation less than with compilers that bring MPI
  find_package(MPI QUIET COMPONENTS CXX)
endif()

# Checked by the references of lessons 05 and 06, without their kernels.
add_library(lesson06_ring STATIC ring/comm.cpp src/problem.cpp)
target_link_libraries(lesson06_ring PUBLIC lesson06_tiled fa_attention)
if(MPI_CXX_FOUND)
  target_link_libraries(lesson06_ring PRIVATE MPI::MPI_CXX)
  target_compile_definitions(lesson06_ring PRIVATE FA_MPI OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
else()
  message(STATUS "MPI: not installed; the ranks of ring attention (lesson 06) are threads only")
endif()
add_executable(ring_attention ring/main.cpp)
target_link_libraries(ring_attention PRIVATE lesson06_ring fa_program)

# ring_attention_nccl: ring attention between GPUs. NCCL comes from the packages libnccl2 and
# libnccl-dev, or from PyTorch's nvidia-nccl-cu13, whose folder nvidia/nccl is -DFA_NCCL=...; without
# it all else is built.
set(FA_NCCL "" CACHE PATH "Folder with NCCL's include/nccl.h and lib/; empty: where compilers look")
if(FA_CUDA)
  unset(FA_NCCL_INCLUDE CACHE)
  unset(FA_NCCL_LIBRARY CACHE)
  find_path(FA_NCCL_INCLUDE nccl.h HINTS "${FA_NCCL}/include" PATHS "${fa_toolkit}/include")
  find_library(FA_NCCL_LIBRARY NAMES nccl libnccl.so.2
               HINTS "${FA_NCCL_INCLUDE}/../lib" PATHS "${fa_toolkit}/lib64")
  mark_as_advanced(FA_NCCL_INCLUDE FA_NCCL_LIBRARY)
  if(FA_NCCL_INCLUDE AND FA_NCCL_LIBRARY)
    message(STATUS "NCCL: ${FA_NCCL_INCLUDE}, ${FA_NCCL_LIBRARY}")
    add_executable(ring_attention_nccl ring/nccl_main.cu)
    target_include_directories(ring_attention_nccl SYSTEM PRIVATE "${FA_NCCL_INCLUDE}")
    target_link_libraries(ring_attention_nccl PRIVATE lesson06_ring fa_program flash_attention
                          flash_attention_backward "${FA_NCCL_LIBRARY}")
  else()
    message(STATUS "NCCL is not found; install libnccl-dev, or set FA_NCCL to the folder nvidia/nccl \
of the Python package nvidia-nccl-cu13. Ring attention between GPUs (lesson 06) is not built.")
  endif()
endif()

if(NOT BUILD_TESTING)
  return()
endif()
if(TARGET ring_attention_nccl)
  add_test(NAME lesson06.ring_nccl COMMAND ring_attention_nccl)
  set_tests_properties(lesson06.ring_nccl PROPERTIES
    LABELS lesson06 SKIP_RETURN_CODE 77 TIMEOUT 600 ENVIRONMENT "${FA_TEST_ENVIRONMENT}")
endif()
fa_tests(lesson06_ring_tests lesson06 tests/ring_test.cpp LINK lesson06_ring)
add_dependencies(lesson06_ring_tests ring_attention)
fa_kernel_tests(lesson06_ring_device_tests lesson06.ring_device tests/ring_device_test.cuh)
target_link_libraries(lesson06_ring_device_tests_lab PRIVATE lesson06_ring
                      fa::flash_attention_on_lab fa::flash_attention_backward_on_lab)
if(FA_CUDA)
  target_link_libraries(lesson06_ring_device_tests_gpu PRIVATE lesson06_ring flash_attention
                        flash_attention_backward)
endif()
add_dependencies(lesson06_tests lesson06_ring_tests)  # ./learn test 06 builds all three

# The program on threads, and on processes where MPI is installed.
if(Python3_Interpreter_FOUND)
  add_test(NAME lesson06.ring.program
           COMMAND "${Python3_EXECUTABLE}" -B -m unittest 06_flash_backward/tests/ring_program_test.py
           WORKING_DIRECTORY "${FA_ROOT}")
  set(with_mpi "")
  if(MPI_CXX_FOUND)
    set(with_mpi ";MPIRUN=${MPIEXEC_EXECUTABLE}")
  endif()
  set_tests_properties(lesson06.ring.program PROPERTIES
    LABELS lesson06 TIMEOUT 600 COST 100
    ENVIRONMENT "${FA_TEST_ENVIRONMENT};FA_THREADS=1;RING_ATTENTION=$<TARGET_FILE:ring_attention>${with_mpi}")
endif()
