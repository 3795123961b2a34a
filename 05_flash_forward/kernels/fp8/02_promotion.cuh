/// @file
/// Promotion. The tensor cores add up products of 8 bits with about 14 bits, not with float32's 24:
/// over thousands of keys O loses what is cut off. Here P V of each tile of keys has sums of its own,
/// which are added to O in float32.
///
/// Source: DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.3.2.
#pragma once

#include "05_flash_forward/kernels/fp8/01_e4m3.cuh"

namespace fa::FA_TARGET {

FA_LAUNCH(fp8, launch_fp8<64, true>(const Fp8Attention&, const Stream&,
                                    unsigned*));
FA_LAUNCH(fp8, launch_fp8<128, true>(const Fp8Attention&, const Stream&,
                                     unsigned*));
FA_LAUNCH(fp8, launch_fp8<256, true>(const Fp8Attention&, const Stream&,
                                     unsigned*));

FA_STEP_ROW(fp8, 2) {
  return transposed_row<true>(
      row("02_promotion", "sums of P V in float32", bfloat16{}));
}

}  // namespace fa::FA_TARGET
