/// @file
/// For tests that depend on the device: skipped where it cannot run them; and properties of GPUs,
/// with the code that a build may have for them.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include "common/gpu/device.hpp"

namespace fa::gpus {

/// A GPU.
/// @param capability   90 for 9.0
/// @param shared_bytes of a block, at most
/// @param code         the architecture that the code was compiled for
/// @param specific     whether this is sm_90a
inline DeviceProperties gpu(const std::string& name, int capability, std::size_t shared_bytes,
                            int code, bool specific = false) {
  DeviceProperties result;
  result.name = name;
  result.compute_capability = capability;
  result.shared_bytes = shared_bytes;
  result.code_architecture = code;
  result.has_specific_code = specific;
  result.sm_count = 4;
  return result;
}

inline const DeviceProperties kT4 = gpu("T4", 75, 65536, 75);
inline const DeviceProperties kA100 = gpu("A100", 80, 166912, 80);
inline const DeviceProperties kA100With75 = gpu("A100", 80, 166912, 75);
inline const DeviceProperties kRtx4090 = gpu("RTX 4090", 89, 101376, 89);
inline const DeviceProperties kH100 = gpu("H100", 90, 232448, 90, true);
inline const DeviceProperties kH100With80 = gpu("H100", 90, 232448, 80);
inline const DeviceProperties kH100With90 = gpu("H100", 90, 232448, 90);
inline const DeviceProperties kB200 = gpu("B200", 100, 232448, 80);
inline const DeviceProperties kB200With100 = gpu("B200", 100, 232448, 100, true);

}  // namespace fa::gpus

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
