# Ring attention: a program of its own. Its ranks need MPI; without it all else is built, and the
# program and the tests say what is missing.
if(NOT CMAKE_CROSSCOMPILING)
  set(MPI_ASSUME_NO_BUILTIN_MPI ON)  # one compilation less than with compilers that bring MPI
  find_package(MPI QUIET COMPONENTS CXX)
endif()

add_library(lesson06_ring STATIC ring/layout.cpp ring/blocks.cpp ring/counts.cpp ring/model.cpp)
target_link_libraries(lesson06_ring PUBLIC lesson06_tiled)
set(sources ring/mpi_missing.cpp)
if(MPI_CXX_FOUND)
  set(sources ring/comm.cpp ring/ranks.cpp)
endif()
add_executable(ring_attention ring/main.cpp ${sources})
target_link_libraries(ring_attention PRIVATE lesson06_ring fa_program)
if(MPI_CXX_FOUND)
  target_link_libraries(ring_attention PRIVATE MPI::MPI_CXX)
  target_compile_definitions(ring_attention PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
else()
  message(STATUS "MPI: not installed; ring attention (lesson 06) is built without ranks")
endif()

# The same on GPUs, over NCCL, through the C interfaces of lessons 05 and 06. Checked by the
# references of both lessons, without their kernels.
add_library(lesson06_ring_device STATIC ring/group.cpp src/problem.cpp
            "${FA_ROOT}/05_flash_forward/src/checker.cpp")
target_link_libraries(lesson06_ring_device PUBLIC lesson06_ring fa_attention)
if(FA_CUDA)
  include(ring/Nccl.cmake)
endif()

if(NOT BUILD_TESTING)
  return()
endif()
fa_tests(lesson06_ring_tests lesson06 tests/ring_layout_test.cpp LINK lesson06_ring)
add_dependencies(lesson06_ring_tests ring_attention)
fa_kernel_tests(lesson06_ring_device_tests lesson06.ring_device tests/ring_device_test.cuh)
target_link_libraries(lesson06_ring_device_tests_lab PRIVATE lesson06_ring_device
                      fa::flash_attention_on_lab fa::flash_attention_backward_on_lab)
if(FA_CUDA)
  target_link_libraries(lesson06_ring_device_tests_gpu PRIVATE lesson06_ring_device
                        flash_attention flash_attention_backward)
endif()
add_dependencies(lesson06_tests lesson06_ring_tests)  # ./learn test 06 builds all three

# fa_ring_test(NAME RANKS argument...): all methods, types and masks against lesson 01.
function(fa_ring_test NAME RANKS)
  add_test(NAME lesson06.ring.${RANKS}_ranks_${NAME}
           COMMAND ring_attention --section ranks --ranks ${RANKS} --timeout 60 ${ARGN})
  set_tests_properties(lesson06.ring.${RANKS}_ranks_${NAME} PROPERTIES
    LABELS lesson06 SKIP_RETURN_CODE 77 TIMEOUT 120
    ENVIRONMENT "${FA_TEST_ENVIRONMENT};FA_THREADS=1;ASAN_OPTIONS=detect_leaks=0")
endfunction()
foreach(ranks RANGE 1 4)
  fa_ring_test(odd_gqa ${ranks} --length-q 61 --length-k 61 --batch 2 --heads 6 --kv-heads 3
               --head-dim 8)
  fa_ring_test(cross ${ranks} --length-q 19 --length-k 83 --heads 4 --kv-heads 1 --head-dim 5)
  fa_ring_test(more_queries ${ranks} --length-q 83 --length-k 19 --heads 2 --kv-heads 2
               --head-dim 16)
endforeach()
fa_ring_test(few_positions 4 --length-q 3 --length-k 2 --heads 2 --kv-heads 1 --head-dim 4)
fa_ring_test(one_query 4 --length-q 1 --length-k 29 --heads 2 --kv-heads 1 --head-dim 4)
fa_ring_test(one_key 3 --length-q 29 --length-k 1 --heads 2 --kv-heads 1 --head-dim 4)

if(Python3_Interpreter_FOUND)
  add_test(NAME lesson06.ring.beside
           COMMAND "${Python3_EXECUTABLE}" -B -m unittest 06_flash_backward/tests/ring_beside_test.py
           WORKING_DIRECTORY "${FA_ROOT}")
  set_tests_properties(lesson06.ring.beside PROPERTIES
    LABELS lesson06 TIMEOUT 60 ENVIRONMENT "${FA_TEST_ENVIRONMENT}")
  add_test(NAME lesson06.ring.faults
           COMMAND "${Python3_EXECUTABLE}" -B -m unittest 06_flash_backward/tests/ring_ranks_test.py
           WORKING_DIRECTORY "${FA_ROOT}")
  set_tests_properties(lesson06.ring.faults PROPERTIES
    LABELS lesson06 TIMEOUT 600 COST 100 SKIP_REGULAR_EXPRESSION "skipped="
    ENVIRONMENT "${FA_TEST_ENVIRONMENT};FA_THREADS=1;RING_ATTENTION=$<TARGET_FILE:ring_attention>")
endif()
