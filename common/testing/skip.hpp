/// @file
/// Tests that not every device can run.
#pragma once

#include <doctest/doctest.h>

#include "common/gpu/device.hpp"

/// Skips a test that a device cannot run, with the reason. ctest lists it as skipped: see
/// fa_tests().
#define FA_SKIP_WHERE_MISSING(device, needs)                     \
  do {                                                           \
    const std::string fa_missing = ::fa::missing(device, needs); \
    if (!fa_missing.empty()) {                                   \
      MESSAGE("skipped: it " << fa_missing);                     \
      return;                                                    \
    }                                                            \
  } while (false)
