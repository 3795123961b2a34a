# An installation of Boost.Context in part ends the configuration with one message.
#   cmake -DSCRATCH=directory -P packages_test.cmake
cmake_minimum_required(VERSION 3.22...3.31)
set(config "${SCRATCH}/prefix/lib/cmake/boost_context-1.74.0/boost_context-config")
file(WRITE "${config}.cmake" "add_library(Boost::context SHARED IMPORTED)
set_target_properties(Boost::context PROPERTIES IMPORTED_LOCATION /nowhere/libboost_context.so)\n")
file(WRITE "${config}-version.cmake" "set(PACKAGE_VERSION 1.74.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
file(WRITE "${SCRATCH}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.22...3.31)
project(packages LANGUAGES CXX)
include(\"${CMAKE_CURRENT_LIST_DIR}/../Packages.cmake\")\n")
file(REMOVE_RECURSE "${SCRATCH}/build")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${SCRATCH}" -B "${SCRATCH}/build" -DBUILD_TESTING=OFF
                        "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix"
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
string(REGEX MATCHALL "CMake Error" errors "${output}")
list(LENGTH errors count)
if(status EQUAL 0 OR NOT count EQUAL 1 OR NOT output MATCHES
   "names /nowhere/libboost_context.so, which does not exist: Boost.Context is installed in part")
  message(FATAL_ERROR "Boost.Context in part: status ${status}, ${output}")
endif()
