/// @file
/// The head dimension that a kernel is compiled for.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/gpu/target.hpp"

namespace fa::FA_TARGET {

/// Calls work(std::integral_constant<int, d>) with the smallest d, of least, 2 least, 4 least ...
/// most, that is not less than head_dim.
/// @param head_dim at most `most`
template <int least, int most, class Work>
auto with_head_dim(std::int64_t head_dim, Work work) {
  if constexpr (least < most) {
    if (head_dim > least) {
      return with_head_dim<2 * least, most>(head_dim, work);
    }
  }
  return work(std::integral_constant<int, least>{});
}

}  // namespace fa::FA_TARGET
