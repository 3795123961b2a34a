/// @file
/// The order of operations of a kernel that multiplies: what each warp of a record does one after
/// the other, in words, without times.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/lab/record.hpp"

namespace fa::lab {

/// record() without the blocks that do not multiply: those of kernels before and after.
std::vector<BlockRecord> record_matmuls(const std::function<void()>& work);

/// The cycles that the matmuls of some blocks take, one block after the other on an SM, at the peak
/// of its tensor cores: 4096 FLOPs a cycle in 16 bits (NVIDIA's white paper on the H100).
double peak_cycles(const std::vector<BlockRecord>& blocks);

/// The steps of blocks in words, a line for each. What a warp does several times in a row stands
/// there once, below "4 times"; warps that do the same, and blocks that follow each other and do
/// the same, stand there together. Of a warp that does most of what the first one of its warpgroup
/// does only the difference is said.
///
/// An mbarrier has the name of what copies bring there most often ("K", "A, B"); or of what a
/// warp that waited there copies next ("room for K"); or its number in the block.
/// @param tensors names, by Step::tensor
std::string operations_text(const std::vector<BlockRecord>& blocks,
                            const std::vector<std::string>& tensors);

}  // namespace fa::lab
