/// @file
/// The rows of this lesson's tables of rungs: see common/attention/host/rung_row.cuh.
#pragma once

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/host/rung_row.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one backend include this

// The beginning of a row, for elements of types Ts.
template <class... Ts>
auto forward_rung(const char* name, const char* idea) {
  return rung_row<flash::Rung, DeviceAttention, Ts...>(name, idea);
}

}  // namespace
}  // namespace fa::FA_TARGET
