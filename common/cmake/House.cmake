# What every lesson and the whole build share: language, warnings, options, packages, the functions
# fa_lesson() and fa_tests(). Included by the root and by each lesson, so that a lesson also builds alone.
include_guard(GLOBAL)

get_filename_component(FA_ROOT "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_STANDARD 17)  # nvcc under CMake 3.25 knows no later one
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(FA_WERROR "Treat compiler warnings as errors" OFF)
option(FA_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(FA_NATIVE "Use all instructions of this machine (faster; last digits may differ)" OFF)
set(FA_GPU AUTO CACHE STRING "AUTO: use an NVIDIA GPU where there is one; OFF; REQUIRED: fail without one")
set_property(CACHE FA_GPU PROPERTY STRINGS AUTO OFF REQUIRED)
option(BUILD_TESTING "Build the tests" ON)
enable_testing()

# Warnings and flags for our own targets only; packages are SYSTEM includes.
add_library(fa_flags INTERFACE)
target_compile_options(fa_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                       -Wnon-virtual-dtor -ffp-contract=off)  # off: the same digits on every machine
if(FA_WERROR)
  target_compile_options(fa_flags INTERFACE -Werror)
endif()
if(FA_NATIVE)
  target_compile_options(fa_flags INTERFACE -march=native)
endif()
if(FA_SANITIZE)
  target_compile_options(fa_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                         -fno-omit-frame-pointer -g)
  target_link_options(fa_flags INTERFACE -fsanitize=address,undefined)
endif()
target_include_directories(fa_flags INTERFACE "${FA_ROOT}")

if(NOT FA_GPU MATCHES "^(AUTO|OFF|REQUIRED)$")
  message(FATAL_ERROR "FA_GPU is '${FA_GPU}'; allowed are AUTO, OFF and REQUIRED.")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/Gpu.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/Packages.cmake")

# For code that needs no speed, which is all but the libraries of the lessons: half the time to build.
set(FA_QUICK_TO_BUILD $<$<CONFIG:Release>:-O1>)

# fa_tests(TARGET LABEL SOURCES... [LINK library...]): a doctest executable; each TEST_CASE is one ctest test.
function(fa_tests TARGET LABEL)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LINK")
  add_executable(${TARGET} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${TARGET} PRIVATE ${arg_LINK} fa_testing)
  target_compile_options(${TARGET} PRIVATE ${FA_QUICK_TO_BUILD})
  doctest_discover_tests(${TARGET} TEST_PREFIX "${LABEL}."
                         PROPERTIES LABELS ${LABEL} SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()

# fa_lesson(NAME [USES lesson...] [SOURCES ...] [PROGRAM ...] [TESTS ...])
#   NAME     the directory, for example 03_online_softmax; the executable has the same name
#   USES     earlier lessons this one builds on
#   SOURCES  the lesson's library lessonNN; with none it is header-only
#   PROGRAM  further sources of the executable beside main.cpp
#   TESTS    sources of the test executable lessonNN_tests
function(fa_lesson NAME)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;SOURCES;PROGRAM;TESTS")
  string(SUBSTRING ${NAME} 0 2 number)
  set(library lesson${number})
  set(libraries fa_common)
  foreach(used IN LISTS arg_USES)
    string(SUBSTRING ${used} 0 2 used_number)
    if(NOT TARGET lesson${used_number})  # standalone build: only the library of the earlier lesson
      set(FA_LIBRARY_ONLY ON)
      add_subdirectory("${FA_ROOT}/${used}" "${CMAKE_BINARY_DIR}/${used}")
      unset(FA_LIBRARY_ONLY)
    endif()
    list(APPEND libraries lesson${used_number})
  endforeach()
  if(arg_SOURCES)
    add_library(${library} STATIC ${arg_SOURCES})
    target_link_libraries(${library} PUBLIC ${libraries})
  else()
    add_library(${library} INTERFACE)
    target_link_libraries(${library} INTERFACE ${libraries})
  endif()
  if(FA_LIBRARY_ONLY)
    return()
  endif()
  add_executable(${NAME} main.cpp ${arg_PROGRAM})
  target_link_libraries(${NAME} PRIVATE ${library} fa_program)
  target_compile_options(${NAME} PRIVATE ${FA_QUICK_TO_BUILD})
  if(arg_TESTS AND BUILD_TESTING)
    fa_tests(${library}_tests ${library} ${arg_TESTS} LINK ${library} fa_program)
    add_dependencies(${library}_tests ${NAME})  # some tests run the program itself
    target_compile_definitions(${library}_tests PRIVATE FA_PROGRAM="$<TARGET_FILE:${NAME}>")
  endif()
endfunction()

add_subdirectory("${FA_ROOT}/common" "${CMAKE_BINARY_DIR}/common")
