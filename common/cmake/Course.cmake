# What every lesson and the whole build share: language, warnings, options, packages, the functions
# fa_lesson() and fa_tests(). Included by the root and by each lesson, so that a lesson also builds
# alone.
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
option(FA_UNITY "Compile the files of a library as a few large ones" ON)
option(FA_NATIVE "Use all instructions of this machine (faster; last digits may differ)" OFF)
set(FA_GPU AUTO CACHE STRING
    "AUTO: use an NVIDIA GPU where there is one; OFF; REQUIRED: fail without one; \
COMPILE: compile for GPUs although none is here")
set_property(CACHE FA_GPU PROPERTY STRINGS AUTO OFF REQUIRED COMPILE)
option(BUILD_TESTING "Build the tests" ON)
enable_testing()

# Warnings and flags for our own targets only; packages are SYSTEM includes.
add_library(fa_flags INTERFACE)
set(fa_warnings -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor)
# -ffp-contract=off: the same digits on every machine. #pragma unroll, in kernels, is meant for
# nvcc.
target_compile_options(fa_flags INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wno-pass-failed>"
  "$<$<COMPILE_LANGUAGE:CXX>:${fa_warnings};-ffp-contract=off;-Wno-unknown-pragmas>"
  # 20012: Eigen annotates defaulted functions.
  "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--expt-relaxed-constexpr;-diag-suppress=20012>")
if(FA_WERROR)
  # nvcc's own -Werror would forbid spills as well. They are reported only: a kernel may gain from a
  # few.
  target_compile_options(fa_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcudafe=--promote_warnings;-Xcompiler=-Wall,-Wextra,-Werror>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-warn-spills>")
endif()
if(FA_NATIVE)
  target_compile_options(fa_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-march=native>")
endif()
if(FA_SANITIZE)
  # -g1: what they report names functions and lines; with more, compiling takes a quarter longer.
  target_compile_options(fa_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize-recover=all>"
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer;-g1>")
  target_link_options(fa_flags INTERFACE -fsanitize=address,undefined)
endif()
target_include_directories(fa_flags INTERFACE "${FA_ROOT}")

if(NOT FA_GPU MATCHES "^(AUTO|OFF|REQUIRED|COMPILE)$")
  message(FATAL_ERROR "FA_GPU is '${FA_GPU}'; allowed are AUTO, OFF, REQUIRED and COMPILE.")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/Gpu.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/Packages.cmake")

# For code that needs little speed, which is all but the host code of the lessons: half the time to
# build.
set(FA_QUICK_TO_BUILD $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)

# Tests keep their temporary files in the build, where no other build's tests and no other program
# have theirs.
set(FA_TEST_ENVIRONMENT "TMPDIR=${CMAKE_BINARY_DIR}/Testing/tmp")
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/Testing/tmp")

# fa_tests(TARGET LABEL SOURCES... [LINK library...] [COST cost]): a doctest executable; each
# TEST_CASE is one ctest test. Those with the highest cost begin first, so that no long one is left
# for the end, when other cores have nothing to do.
function(fa_tests TARGET LABEL)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "COST" "LINK")
  if(NOT arg_COST)
    set(arg_COST 0)
  endif()
  add_executable(${TARGET} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${TARGET} PRIVATE ${arg_LINK} fa_testing)
  target_compile_options(${TARGET} PRIVATE ${FA_QUICK_TO_BUILD})
  target_precompile_headers(${TARGET} REUSE_FROM fa_testing)
  doctest_discover_tests(${TARGET} TEST_PREFIX "${LABEL}."
                         PROPERTIES LABELS ${LABEL} SKIP_RETURN_CODE 77
                                    # A test that fails is not skipped.
                                    SKIP_REGULAR_EXPRESSION "MESSAGE: skipped: .*Status: SUCCESS"
                                    TIMEOUT 1200 COST ${arg_COST}
                                    ENVIRONMENT "${FA_TEST_ENVIRONMENT}")
endfunction()

# What makes a kernel watched: the compiler calls the watcher before each load and store. The other
# flags keep it from merging and reordering what the kernel says, as far as that changes what is
# counted.
# -gdwarf-4: the addr2line of Debian 12 takes the first file of version 5 for another one.
# -fsanitize-coverage: it also calls the watcher at the beginning of each piece of code without a
# branch.
# -g1: lines and functions, but no variables.
# -U_FORTIFY_SOURCE: kernel_watched.hpp has its own memcpy().
# -fno-stack-protector, which Ubuntu turns on: its check in a landing pad gives the pad to the line of
# a call, which then counts as a line that was never reached.
set(FA_WATCH_OPTIONS -fsanitize=thread -fsanitize-coverage=trace-pc -O1 -g1 -gdwarf-4
    -U_FORTIFY_SOURCE -fno-stack-protector)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND FA_WATCH_OPTIONS -fno-tree-vectorize -fno-tree-slp-vectorize -fno-tree-sra
       "SHELL:--param tsan-instrument-func-entry-exit=0"
       "SHELL:--param tsan-distinguish-volatile=1")
else()
  # Older ones call memset() where a loop writes zeros, unseen by the watcher.
  list(APPEND FA_WATCH_OPTIONS -fno-vectorize -fno-slp-vectorize -fno-builtin-memset
       "SHELL:-mllvm -tsan-instrument-func-entry-exit=0"
       "SHELL:-mllvm -tsan-instrument-read-before-write=1"
       "SHELL:-mllvm -tsan-distinguish-volatile=1")
endif()
# A local variable that was never set is neither 0 nor what it was before.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-ftrivial-auto-var-init=pattern FA_CXX_FILLS_LOCALS)
# What they include before everything else.
set(FA_WATCH_INCLUDE "${FA_ROOT}/common/gpu/kernel_watched.hpp")

# fa_watch(TARGET [PRECOMPILED] [KNOWN]): its kernels are watched. PRECOMPILED: its precompiled
# header includes FA_WATCH_INCLUDE. KNOWN: they set all local variables, as those of the lessons do;
# to fill these with a pattern takes nearly twice as long.
function(fa_watch TARGET)
  target_compile_definitions(${TARGET} PRIVATE FA_LAB_WATCHED)
  target_compile_options(${TARGET} PRIVATE ${FA_WATCH_OPTIONS})
  if(NOT "PRECOMPILED" IN_LIST ARGN)
    target_compile_options(${TARGET} PRIVATE "SHELL:-include \"${FA_WATCH_INCLUDE}\"")
    # A header that was compiled without these options does not fit.
    set_target_properties(${TARGET} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  endif()
  if(FA_CXX_FILLS_LOCALS AND NOT "KNOWN" IN_LIST ARGN)
    target_compile_options(${TARGET} PRIVATE -ftrivial-auto-var-init=pattern)
  endif()
  target_link_libraries(${TARGET} PRIVATE fa_watched_lab)
endfunction()

# Sources and headers that CMake writes. Those of a ladder are included as "steps/NAME.cuh".
set(FA_WRITTEN "${CMAKE_BINARY_DIR}/written")
target_include_directories(fa_flags INTERFACE "${FA_WRITTEN}")
set(FA_TEMPLATES "${CMAKE_CURRENT_LIST_DIR}")
set(FA_INCLUDES "// Written by CMake.\n@INCLUDES@\n")

# fa_steps(NAME FOLDER [WITH file...]): writes "steps/NAME.cuh", in small letters, which includes the
# numbered files of this lesson's FOLDER, and further ones, and says how many steps there are.
function(fa_steps NAME FOLDER)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "WITH")
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${FOLDER}/[0-9]*.cuh")
  list(LENGTH files COUNT)
  list(TRANSFORM arg_WITH PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/${FOLDER}/")
  set(INCLUDES "")
  foreach(file IN LISTS files arg_WITH)
    file(RELATIVE_PATH file "${FA_ROOT}" "${file}")
    string(APPEND INCLUDES "#include \"${file}\"\n")
  endforeach()
  string(TOLOWER "${NAME}" name)
  configure_file("${FA_TEMPLATES}/steps.cuh.in" "${FA_WRITTEN}/steps/${name}.cuh" @ONLY)
endfunction()

# fa_kernel_parts(TARGET HEADERS... [USES library...] PARTS part...): libraries with the launch functions
# that HEADERS list, TARGET for GPUs and TARGET_lab: common/gpu/parts.hpp. For GPUs each part is a
# source of its own, so that compilers run side by side, and a program takes the parts that it needs.
# What includes one of HEADERS links TARGET, which is empty where no kernels are compiled for GPUs, or
# TARGET_lab, or both. USES: those of earlier lessons.
function(fa_kernel_parts TARGET)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;PARTS")
  list(TRANSFORM arg_PARTS PREPEND FA_PART_ OUTPUT_VARIABLE parts)
  list(TRANSFORM parts APPEND "=" OUTPUT_VARIABLE defined)
  list(TRANSFORM parts APPEND "=extern" OUTPUT_VARIABLE declared)
  list(TRANSFORM arg_UNPARSED_ARGUMENTS REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE INCLUDES)
  list(JOIN INCLUDES "" INCLUDES)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_lab.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "${FA_INCLUDES}" @ONLY)
  add_library(${TARGET}_lab STATIC "${source}")
  target_compile_options(${TARGET}_lab PRIVATE ${FA_QUICK_TO_BUILD})
  target_compile_definitions(${TARGET}_lab
    PRIVATE FA_IN_PARTS ${defined}
    INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:FA_IN_PARTS;${declared}>")
  target_link_libraries(${TARGET}_lab PUBLIC fa_lab)
  set(libraries ${TARGET}_lab)
  if(FA_CUDA)
    set(sources "")
    foreach(part IN LISTS arg_PARTS)
      set(source "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_${part}.cu")
      configure_file("${FA_TEMPLATES}/part.cu.in" "${source}" @ONLY)
      list(APPEND sources "${source}")
    endforeach()
    add_library(${TARGET} STATIC ${sources})
    target_compile_definitions(${TARGET} PUBLIC
                               "$<$<COMPILE_LANGUAGE:CUDA>:FA_IN_PARTS;${declared}>")
    target_link_libraries(${TARGET} PUBLIC fa_common ${arg_USES})
    list(APPEND libraries ${TARGET})
  else()
    add_library(${TARGET} INTERFACE)
  endif()
  if(arg_USES)
    list(TRANSFORM arg_USES APPEND _lab)
    target_link_libraries(${TARGET}_lab PUBLIC ${arg_USES})
  endif()
  # A C interface has them, too.
  set_target_properties(${libraries} PROPERTIES POSITION_INDEPENDENT_CODE ON
                                                CUDA_VISIBILITY_PRESET hidden
                                                VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# fa_backends(LIST NAMESPACE HEADER [KINDS lab|watched|gpu|stamped...] [PARTS library]): sets LIST to
# sources that
# compile HEADER, for example a lesson's src/backend.cuh, for the lab, for the watched lab and for
# GPUs, as far as this build has them and KINDS names them, and that define NAMESPACE::backends().
# HEADER defines a static `backend(kind)` in namespace fa::FA_TARGET; beside it stands a .hpp of the same
# name, or backend.hpp for stamped.cuh, that defines NAMESPACE::Backend. PARTS: what fa_kernel_parts() has made of its kernels.
function(fa_backends LIST NAMESPACE HEADER)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "PARTS" "KINDS")
  if(NOT arg_KINDS)
    set(arg_KINDS lab watched gpu)
  endif()
  get_filename_component(name "${HEADER}" NAME_WE)
  string(REGEX REPLACE "\\.cuh$" ".hpp" declaring "${HEADER}")
  string(REPLACE "stamped.hpp" "backend.hpp" declaring "${declaring}")
  set(sources "")
  set(declarations "")
  set(calls "")
  foreach(kind IN LISTS arg_KINDS)
    if((kind MATCHES "gpu|stamped" AND NOT FA_CUDA) OR (kind STREQUAL "watched" AND NOT TARGET
       fa_watched_lab))
      continue()
    endif()
    set(where ${kind})
    set(suffix cpp)
    if(kind STREQUAL "watched")
      set(where watched_lab)
    elseif(kind STREQUAL "gpu")
      set(suffix cu)
    elseif(kind STREQUAL "stamped")
      set(where stamped_gpu)
      set(suffix cu)
    endif()
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}_${kind}.${suffix}")
    configure_file("${FA_TEMPLATES}/backend.in" "${source}" @ONLY)
    if(kind STREQUAL "lab")
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${FA_QUICK_TO_BUILD}"
                                                         SKIP_UNITY_BUILD_INCLUSION ON)
    else()
      add_library(${LIST}_${kind} OBJECT "${source}")
      target_link_libraries(${LIST}_${kind} PRIVATE fa_common)
      if(kind STREQUAL "gpu")
        target_link_libraries(${LIST}_gpu PRIVATE ${arg_PARTS})
      elseif(kind STREQUAL "watched")
        fa_watch(${LIST}_watched KNOWN)
      elseif(kind STREQUAL "stamped")
        target_compile_definitions(${LIST}_stamped PRIVATE FA_STAMPS)
      endif()
      set(source $<TARGET_OBJECTS:${LIST}_${kind}>)
    endif()
    list(APPEND sources "${source}")
    string(APPEND declarations "Backend ${kind}_backend();\n")
    string(APPEND calls "${kind}_backend(), ")
  endforeach()
  set(all "${CMAKE_CURRENT_BINARY_DIR}/${name}_all.cpp")
  configure_file("${FA_TEMPLATES}/backends.cpp.in" "${all}" @ONLY)
  set(${LIST} ${sources} "${all}" PARENT_SCOPE)
endfunction()

# fa_stamped(NAME NAMESPACE LIBRARY): the program NAME_stamped, for ./learn bench and for nothing
# else: the Hopper kernels in src/stamped.cuh, compiled with stamps (common/gpu/stamps.hpp) and
# without. It prints the stamps of the drawn problem, for section timeline.
function(fa_stamped NAME NAMESPACE LIBRARY)
  if(NOT FA_CUDA OR FA_LIBRARY_ONLY)
    return()
  endif()
  fa_backends(${LIBRARY}_stamps ${NAMESPACE}::stamped ${NAME}/src/stamped.cuh KINDS gpu stamped)
  foreach(kind gpu stamped)
    set_target_properties(${LIBRARY}_stamps_${kind} PROPERTIES EXCLUDE_FROM_ALL ON)
  endforeach()
  set(main "${CMAKE_CURRENT_BINARY_DIR}/stamped_main.cpp")
  configure_file("${FA_TEMPLATES}/stamped_main.cpp.in" "${main}" @ONLY)
  add_executable(${NAME}_stamped EXCLUDE_FROM_ALL "${main}" ${${LIBRARY}_stamps})
  target_link_libraries(${NAME}_stamped PRIVATE ${LIBRARY} fa_program)
endfunction()

# fa_kernel_tests(TARGET LABEL FILES...): the tests in kernel files, compiled for the lab and, where
# kernels are compiled for GPUs, for those as well. Without a GPU the latter are skipped.
function(fa_kernel_tests TARGET LABEL)
  set(sources "")
  foreach(file IN LISTS ARGN)
    get_filename_component(name "${file}" NAME_WE)
    set(INCLUDES "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${file}\"")
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_${name}")
    file(CONFIGURE OUTPUT "${source}_lab.cpp" CONTENT "${FA_INCLUDES}" @ONLY)
    if(FA_CUDA)
      file(CONFIGURE OUTPUT "${source}_gpu.cu" CONTENT "${FA_INCLUDES}" @ONLY)
    endif()
    list(APPEND sources "${source}")
  endforeach()
  set(on_lab ${sources})
  list(TRANSFORM on_lab APPEND _lab.cpp)
  fa_tests(${TARGET}_lab ${LABEL}.lab ${on_lab} LINK fa_lab)
  if(FA_CUDA)
    list(TRANSFORM sources APPEND _gpu.cu)
    fa_tests(${TARGET}_gpu ${LABEL}.gpu ${sources} "${FA_ROOT}/common/testing/gpu_main.cu")
  endif()
endfunction()

# fa_interface(NAME LABEL [EXAMPLE argument...] [ENVIRONMENT NAME=value...]): the C interface in interface/NAME.cu as the
# library NAME, for GPUs where kernels are compiled for those, else for the CPU, where the same
# kernels run in the lab. The tests need the latter in any case: fa::NAME_on_lab. They are those in
# tests/interface*_test.cuh, whether interface/NAME.h is C, and interface/example.py, which is given
# that library and further arguments, and tests/operators_test.py, which has it in FA_LIBRARY. Other
# lessons get the libraries only.
function(fa_interface NAME LABEL)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "EXAMPLE;ENVIRONMENT")
  set(on_lab ${NAME})
  set(libraries ${NAME})
  if(FA_CUDA)
    set(on_lab ${NAME}_lab)
    list(APPEND libraries ${on_lab})
    add_library(${NAME} SHARED interface/${NAME}.cu)
  endif()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${NAME}_lab.cpp")
  set(INCLUDES "#include \"${CMAKE_CURRENT_SOURCE_DIR}/interface/${NAME}.cu\"")
  file(CONFIGURE OUTPUT "${source}" CONTENT "${FA_INCLUDES}" @ONLY)
  add_library(${on_lab} SHARED "${source}")
  target_compile_options(${on_lab} PRIVATE ${FA_QUICK_TO_BUILD})
  target_link_libraries(${on_lab} PRIVATE fa_lab)
  add_library(fa::${NAME}_on_lab ALIAS ${on_lab})
  foreach(library IN LISTS libraries)
    set(kernels ${LABEL}_kernels ${LABEL}_functor_kernels)
    if(library STREQUAL "${on_lab}")
      list(TRANSFORM kernels APPEND _lab)
    endif()
    target_link_libraries(${library} PRIVATE ${kernels})
    set_target_properties(${library} PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                CUDA_VISIBILITY_PRESET hidden
                                                VISIBILITY_INLINES_HIDDEN ON)
    if(CMAKE_SYSTEM_NAME STREQUAL "Linux")  # names of the libraries within, too
      set(map "${CMAKE_CURRENT_BINARY_DIR}/exported.map")
      file(CONFIGURE OUTPUT "${map}" CONTENT "{ global: fa_*; local: *; };\n")
      target_link_options(${library} PRIVATE "LINKER:--version-script=${map}")
      set_property(TARGET ${library} PROPERTY LINK_DEPENDS "${map}")
    endif()
  endforeach()
  if(FA_LIBRARY_ONLY OR NOT BUILD_TESTING)
    return()
  endif()
  set(tests ${LABEL}_interface_tests)
  file(GLOB files RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS
       tests/interface*_test.cuh)
  fa_kernel_tests(${tests} ${LABEL}.interface ${files})
  target_link_libraries(${tests}_lab PRIVATE ${LABEL}_apart ${on_lab})
  target_compile_definitions(${tests}_lab PRIVATE FA_INTERFACE_LIBRARY="$<TARGET_FILE:${on_lab}>"
                             FA_RESULTS="${FA_ROOT}/docs/results")
  if(FA_CUDA)
    target_link_libraries(${tests}_gpu PRIVATE ${LABEL}_apart ${NAME})
    target_compile_definitions(${tests}_gpu PRIVATE FA_INTERFACE_LIBRARY="$<TARGET_FILE:${NAME}>"
                               FA_RESULTS="${FA_ROOT}/docs/results")
  endif()
  add_test(NAME ${LABEL}.interface.is_c
           COMMAND "${CMAKE_CXX_COMPILER}" -x c -std=c99 -Wall -Wextra -pedantic-errors -Werror
                   -fsyntax-only
                   -I "${FA_ROOT}" "${CMAKE_CURRENT_SOURCE_DIR}/interface/${NAME}.h")
  set_tests_properties(${LABEL}.interface.is_c PROPERTIES LABELS ${LABEL})
  if(Python3_Interpreter_FOUND AND NOT FA_SANITIZE)  # Python would need the sanitizers, too
    get_filename_component(lesson "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
    add_test(NAME ${LABEL}.interface.example
             COMMAND "${Python3_EXECUTABLE}" -B -m ${lesson}.interface.example
                     --library "$<TARGET_FILE:${on_lab}>" ${arg_EXAMPLE} --check
             WORKING_DIRECTORY "${FA_ROOT}")
    set_tests_properties(${LABEL}.interface.example PROPERTIES LABELS ${LABEL} TIMEOUT 600
                         SKIP_RETURN_CODE 77
                         ENVIRONMENT "${FA_TEST_ENVIRONMENT}")
    add_test(NAME ${LABEL}.interface.operators
             COMMAND "${Python3_EXECUTABLE}" -B -m unittest ${lesson}/tests/operators_test.py
             WORKING_DIRECTORY "${FA_ROOT}")
    set(environment "${FA_TEST_ENVIRONMENT}" "FA_LIBRARY=$<TARGET_FILE:${on_lab}>"
                    ${arg_ENVIRONMENT})
    set_tests_properties(${LABEL}.interface.operators PROPERTIES LABELS ${LABEL} TIMEOUT 600
                         SKIP_REGULAR_EXPRESSION "OK .skipped="
                         ENVIRONMENT "${environment}")
  endif()
endfunction()

# fa_lesson(NAME [USES lesson...] [SOURCES ...] [PROGRAM ...] [TESTS ...] [LINK ...]
#           [APART_SOURCES ...] [APART ...] [APART_LINK ...])
#   NAME     the directory, for example 03_online_softmax; the executable has the same name
#   USES     earlier lessons this one builds on
#   SOURCES  the lesson's library lessonNN; with none it is header-only
#   PROGRAM  further sources of the executable beside main.cpp
#   TESTS    sources of the test executable lessonNN_tests
#   LINK     further libraries
#   APART_*  the same of lessonNN_apart and NAME_apart, which ./learn run does not need: see
#            cli::Program::sections_in_apart()
function(fa_lesson NAME)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" ""
                        "USES;SOURCES;PROGRAM;TESTS;LINK;APART_SOURCES;APART;APART_LINK")
  string(SUBSTRING ${NAME} 0 2 number)
  set(library lesson${number})
  set(libraries fa_common ${arg_LINK})
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
  if(arg_APART_SOURCES)
    add_library(${library}_apart STATIC ${arg_APART_SOURCES})
    target_link_libraries(${library}_apart PUBLIC ${library} ${arg_APART_LINK})
  endif()
  if(FA_LIBRARY_ONLY)
    return()
  endif()
  add_executable(${NAME} main.cpp ${arg_PROGRAM})
  target_link_libraries(${NAME} PRIVATE ${library} fa_program)
  target_compile_options(${NAME} PRIVATE ${FA_QUICK_TO_BUILD})
  if(arg_APART)
    add_executable(${NAME}_apart ${arg_APART})
    target_link_libraries(${NAME}_apart PRIVATE ${library}_apart fa_program)
    target_compile_options(${NAME}_apart PRIVATE ${FA_QUICK_TO_BUILD})
    add_dependencies(${NAME}_apart ${NAME})  # which starts it
  endif()
  # ./learn run starts the program as soon as this has been done.
  add_custom_target(ready_${NAME} DEPENDS ${NAME} COMMAND "${CMAKE_COMMAND}" -E touch
                    "${CMAKE_BINARY_DIR}/run/ready/${NAME}" VERBATIM)
  set(cost 0)
  if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/kernels")
    # As in common/CMakeLists.txt; kernels stay in files of their own.
    foreach(target IN ITEMS ${library} ${library}_apart ${NAME} ${NAME}_apart)
      if(TARGET ${target})
        set_target_properties(${target} PROPERTIES UNITY_BUILD ${FA_UNITY})
      endif()
    endforeach()
    set(cost 100)  # all steps in the watched lab
  endif()
  if(arg_TESTS AND BUILD_TESTING)
    fa_tests(${library}_tests ${library} ${arg_TESTS} LINK ${library} fa_program COST ${cost})
    add_dependencies(${library}_tests ${NAME})  # some tests run the program itself
    if(arg_APART)
      add_dependencies(${library}_tests ${NAME}_apart)
    endif()
    set(program "$<TARGET_FILE:${NAME}>")
    if(CMAKE_CROSSCOMPILING_EMULATOR)
      set(program "${CMAKE_CURRENT_BINARY_DIR}/emulated")
      file(GENERATE OUTPUT "${program}"
           CONTENT
           "#!/bin/sh\nexec ${CMAKE_CROSSCOMPILING_EMULATOR} '$<TARGET_FILE:${NAME}>' \"$@\"\n"
           FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
    endif()
    target_compile_definitions(${library}_tests PRIVATE FA_PROGRAM="${program}")
  endif()
endfunction()

add_subdirectory("${FA_ROOT}/common" "${CMAKE_BINARY_DIR}/common")
