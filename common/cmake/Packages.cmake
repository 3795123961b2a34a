# Packages: the system's where installed (Debian and Ubuntu have all of them), else a pinned
# download. Of the downloads only Boost runs its own CMake code: three are headers, fmt is one
# source file.
include(FetchContent)
option(FA_DOWNLOAD "Fetch pinned sources of packages that the system lacks" ON)

# fa_fetch(NAME VERSION URL SHA256): sets <NAME>_SOURCE_DIR, lower case as FetchContent does.
macro(fa_fetch NAME VERSION URL SHA256)
  if(NOT FA_DOWNLOAD)
    message(FATAL_ERROR
            "${NAME} is not installed and FA_DOWNLOAD is OFF: install it with the system's "
                        "package manager (names for Debian and Ubuntu: common/cmake/packages.txt).")
  endif()
  message(STATUS "${NAME}: not installed, fetching ${VERSION} from ${URL}")
  # SOURCE_SUBDIR names no directory on purpose: unpack, run nothing.
  FetchContent_Declare(${NAME} URL ${URL} URL_HASH SHA256=${SHA256} SOURCE_SUBDIR no-cmake)
  FetchContent_MakeAvailable(${NAME})
endmacro()

function(fa_header_only TARGET DIRECTORY)
  add_library(fa_${TARGET} INTERFACE)
  target_include_directories(fa_${TARGET} SYSTEM INTERFACE "${DIRECTORY}")
endfunction()

find_package(Eigen3 3.4 QUIET NO_MODULE)
if(NOT Eigen3_FOUND)
  fa_fetch(eigen 3.4.0 https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.bz2
           b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626)
  fa_header_only(eigen "${eigen_SOURCE_DIR}")
  add_library(Eigen3::Eigen ALIAS fa_eigen)
endif()

find_package(CLI11 2.1 QUIET)
if(NOT CLI11_FOUND)
  fa_fetch(cli11 2.1.2 https://github.com/CLIUtils/CLI11/archive/v2.1.2.tar.gz
           26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb)
  fa_header_only(cli11 "${cli11_SOURCE_DIR}/include")
  add_library(CLI11::CLI11 ALIAS fa_cli11)
endif()

find_package(fmt 8 QUIET)
if(NOT fmt_FOUND)
  fa_fetch(fmt 9.1.0 https://github.com/fmtlib/fmt/archive/9.1.0.tar.gz
           5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
  add_library(fa_fmt STATIC "${fmt_SOURCE_DIR}/src/format.cc")
  # lesson 05 makes a shared library
  set_target_properties(fa_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(fa_fmt SYSTEM PUBLIC "${fmt_SOURCE_DIR}/include")
  add_library(fmt::fmt ALIAS fa_fmt)
endif()

if(BUILD_TESTING)
  find_package(doctest 2.4 QUIET)
  if(NOT doctest_FOUND)
    fa_fetch(doctest 2.4.9 https://github.com/doctest/doctest/archive/v2.4.9.tar.gz
             19b2df757f2f3703a5e63cee553d85596875f06d91a3333acd80a969ef210856)
    fa_header_only(doctest "${doctest_SOURCE_DIR}")
    add_library(doctest::doctest ALIAS fa_doctest)
    list(APPEND CMAKE_MODULE_PATH "${doctest_SOURCE_DIR}/scripts/cmake")
  endif()
  include(doctest)  # doctest_discover_tests
endif()

# Not by find_package(Boost): where the headers are installed and Boost.Context is not, that leaves
# targets behind, which the fetched one has as well.
find_package(boost_context 1.71 QUIET CONFIG HINTS "${Boost_DIR}/..")
if(TARGET Boost::context)
  get_target_property(fa_library Boost::context LOCATION)
  if(NOT EXISTS "${fa_library}")
    message(FATAL_ERROR
            "${boost_context_CONFIG} names ${fa_library}, which does not exist: Boost.Context is "
                        "installed in part. Install it whole (on Debian and Ubuntu: libboost-context-dev).")
  endif()
else()
  if(NOT FA_DOWNLOAD)
    message(FATAL_ERROR
            "Boost.Context is not installed and FA_DOWNLOAD is OFF: install it with the system's "
                        "package manager (names for Debian and Ubuntu: common/cmake/packages.txt).")
  endif()
  message(STATUS
          "boost: not installed, fetching 1.84.0 (Boost.Context) from github.com/boostorg/boost")
  set(BOOST_INCLUDE_LIBRARIES context)
  FetchContent_Declare(boost
    URL https://github.com/boostorg/boost/releases/download/boost-1.84.0/boost-1.84.0.tar.xz
    URL_HASH SHA256=2e64e5d79a738d0fa6fb546c6e5c2bd28f88d268a2a080546f74e5ff98f29d0e)
  set(fa_before ${CMAKE_POSITION_INDEPENDENT_CODE})
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # lesson 05 makes a shared library
  FetchContent_MakeAvailable(boost)
  set(CMAKE_POSITION_INDEPENDENT_CODE ${fa_before})
endif()

find_package(Threads REQUIRED)
# For the classroom, the pages and some tests, which are left out without it. Once for all: each
# call starts the interpreter several times.
find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
