/// @file
/// Broken kernels with tensor memory: see broken_hopper.cuh. Each mistake breaks a rule that the
/// check names: common/lab/tensor_check.hpp and common/lab/tensor_memory.hpp.
#pragma once

#include <vector>

#include "common/gpu/blackwell.cuh"
#include "common/gpu/tests/broken_hopper_base.cuh"

namespace fa::FA_TARGET {

/// What is wrong with through_tensor_memory().
// clang-format off
enum class Tensor {
  kRight, kNoWaitSt, kNoFenceBefore, kFenceBeforeWait, kNoFenceAfter, kNoBarrier, kNoProxyFence,
  kAddsToNothing, kBadDescriptor, kOtherMajor, kNoCommit, kCommitOfOther, kWrongCount, kNoWait,
  kNeverWaited, kNoFenceAfterWait, kWrongQuarter, kNoWaitLd, kLeftOverwritten, kSumsOverwritten,
  kTileOverwritten, kNextReads, kFreedEarly, kLeak, kFreedTwice, kUsedAfterFree, kTooMuch,
  kHundredColumns, kAllocatesAfterRelinquish,
  // In pairs: right and wrong.
  kAllocatesAsMany, kAllocatesMore, kRefilled, kNoFenceAfterRefill, kCopied, kNoFenceAfterCopy
};
// clang-format on

/// Shared memory of this kernel.
struct TensorShared {
  HopperTile right;
  Mbarrier done, full;
  std::uint32_t columns, second;
};

/// A warpgroup writes a left operand of ones to tensor memory, one thread multiplies it, and all
/// read the sums: two matmuls that add to the same accumulators.
__global__ inline void __launch_bounds__(kWarpgroup)
    through_tensor_memory(Tensor how, const __grid_constant__ TensorMap map, float* out) {
  TensorShared& shared = *dynamic_shared<TensorShared>();
  const unsigned warp = threadIdx.x / kWarp;
  for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarpgroup) {
    shared.right.data[i] = from_float<half>(1);  // fills
  }
  if (how != Tensor::kNoProxyFence) fence_async_proxy();
  if (warp == 0) {
    tcgen05_alloc(&shared.columns, how == Tensor::kHundredColumns ? 100 : 128);  // allocates
    if (how == Tensor::kAllocatesAfterRelinquish) tcgen05_relinquish_alloc_permit();
    if (how == Tensor::kTooMuch || how == Tensor::kAllocatesAfterRelinquish) {
      tcgen05_alloc(&shared.columns, how == Tensor::kTooMuch ? 512 : 32);  // allocates more
    }
    if (how == Tensor::kAllocatesAsMany || how == Tensor::kAllocatesMore) {
      const int more = how == Tensor::kAllocatesMore ? 256 : 128;
      tcgen05_alloc(&shared.second, more);  // allocates more than before
      __syncwarp();
      tcgen05_dealloc(shared.second, more);
    }
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    shared.done.init(how == Tensor::kWrongCount ? 2 : 1);
    shared.full.init(1);
    fence_barrier_init();
  }
  __syncthreads();
  const std::uint32_t d = shared.columns, left = d + 64;

  std::uint32_t ones[16];
  for (int i = 0; i < 16; ++i) ones[i] = pack2<half>(1.0f, 1.0f);
  tcgen05_st(tensor_quarter(left, 0), ones);  // stores
  if (how == Tensor::kFenceBeforeWait) tcgen05_fence_before();
  if (how != Tensor::kNoWaitSt) tcgen05_wait_st();
  if (how != Tensor::kNoFenceBefore && how != Tensor::kFenceBeforeWait) tcgen05_fence_before();
  if (how != Tensor::kNoBarrier) __syncthreads();

  if (how != Tensor::kNoFenceAfter) tcgen05_fence_after();
  if (how == Tensor::kRefilled || how == Tensor::kNoFenceAfterRefill) {
    for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarpgroup) {
      shared.right.data[i] = from_float<half>(1);  // refills
    }
    fence_async_proxy();
    __syncthreads();
    if (how == Tensor::kRefilled) tcgen05_fence_after();
  }
  if (threadIdx.x == 0) {
    if (how == Tensor::kCopied || how == Tensor::kNoFenceAfterCopy) {
      shared.full.arrive_and_expect(HopperTile::bytes);
      load_tile(shared.right, map, shared.full, 0, 0);  // copies
      shared.full.wait(0);
      if (how == Tensor::kCopied) tcgen05_fence_after();
    }
    const std::uint32_t right = tcgen05_descriptor<half>(
        64, Major::kK, how == Tensor::kOtherMajor ? Major::kK : Major::kMN);
    const std::uint32_t descriptor = how == Tensor::kBadDescriptor ? 0xffffffff : right;
    for (int k = 0; k < 2; ++k) {
      const auto rows = shared.right.by_columns(16 * k, 0);
      const bool adds = k > 0 || how == Tensor::kAddsToNothing;
      tcgen05_mma(d, left + 8 * k, rows, descriptor, adds);  // multiplies
    }
    if (how == Tensor::kNextReads) {
      // S, and then O = P V with S as P: another accumulator.
      const auto rows = shared.right.by_columns(0, 0);
      tcgen05_mma(left, d, rows, descriptor, false);  // multiplies the sums
    }
    if (how != Tensor::kCommitOfOther && how != Tensor::kNoCommit) tcgen05_commit(shared.done);
    if (how == Tensor::kNoCommit) shared.done.arrive();
  }
  if (how == Tensor::kCommitOfOther && threadIdx.x == kWarp) {
    tcgen05_commit(shared.done);  // commits
  }
  __syncthreads();  // so that mistakes below are made in this order

  if (how == Tensor::kLeftOverwritten) {
    tcgen05_st(tensor_quarter(left, 0), ones);  // overwrites the left operand
    tcgen05_wait_st();
  }
  if (how == Tensor::kTileOverwritten && threadIdx.x == 0) {
    shared.full.arrive_and_expect(HopperTile::bytes);
    load_tile(shared.right, map, shared.full, 0, 0);  // brings the next tile
    shared.full.wait(0);
  }
  if (how == Tensor::kSumsOverwritten) {
    tcgen05_st(tensor_quarter(d, 0), ones);  // overwrites the sums
    tcgen05_wait_st();
  }
  if (how != Tensor::kNoWait && how != Tensor::kNeverWaited) shared.done.wait(0);  // waits
  if (how != Tensor::kNoFenceAfterWait) tcgen05_fence_after();
  if (how == Tensor::kNeverWaited) return;
  float sum[16];
  const std::uint32_t other = how == Tensor::kWrongQuarter ? 32u << 16 : 0;
  tcgen05_ld(sum, tensor_quarter(d, 0) ^ other);  // loads
  if (how != Tensor::kNoWaitLd) tcgen05_wait_ld(sum);
  out[threadIdx.x] = sum[0];  // uses
  tcgen05_wait_ld(sum);
  tcgen05_fence_before();
  if (how == Tensor::kNoWait) shared.done.wait(0);
  if (how != Tensor::kFreedEarly) __syncthreads();
  if (how != Tensor::kLeak && warp == 0) {
    tcgen05_dealloc(d, 128);                                  // frees
    if (how == Tensor::kFreedTwice) tcgen05_dealloc(d, 128);  // frees again
    if (how == Tensor::kUsedAfterFree) {
      tcgen05_ld(sum, tensor_quarter(d, 0));  // loads what is freed
      tcgen05_wait_ld(sum);
    }
  }
}

/// All of this file.
inline std::vector<BrokenHopperKernel> broken_tcgen05() {
  using T = Tensor;
  const struct {
    Tensor how;
    const char *name, *wrong, *line, *other, *says, *kind = "tcgen05";
    Tensor right = T::kRight;
  } rows[] = {
      {T::kNoWaitSt, "no_wait_st", "A store has not ended when it is signalled.", "multiplies",
       "stores", "tcgen05_wait_st() is missing"},
      {T::kNoFenceBefore, "no_fence_before", "A warp signals without a fence.", "multiplies",
       "stores", "tcgen05_fence_before() is missing in warp"},
      {T::kFenceBeforeWait, "fence_before_wait", "The fence comes before the wait.", "multiplies",
       "stores", "tcgen05_fence_before() is missing in warp"},
      {T::kNoFenceAfter, "no_fence_after", "A thread multiplies without a fence.", "multiplies",
       "stores", "tcgen05_fence_after() is missing"},
      {T::kNoBarrier, "no_barrier", "No barrier orders stores and a matmul.", "multiplies", "",
       "which nothing has written", "unwritten"},
      {T::kNoProxyFence, "no_fence_before_mma", "A matmul does not see what was written.",
       "multiplies", "fills", "fence_async_proxy()", "proxy"},
      {T::kAddsToNothing, "adds_to_nothing", "A matmul adds to what nobody has set.", "multiplies",
       "", "which nothing has written", "unwritten"},
      {T::kBadDescriptor, "bad_descriptor", "An instruction descriptor is nonsense.", "multiplies",
       "", "0xffffffff has bits 0xe080604f that must be 0"},
      {T::kOtherMajor, "other_major", "The descriptor calls B transposed.", "multiplies", "",
       "says that B is K-major; it is MN-major"},
      {T::kNoCommit, "no_commit", "A matmul is signalled by an ordinary arrival.", "loads",
       "multiplies", "tcgen05_commit() behind"},
      {T::kCommitOfOther, "commit_of_other", "Another thread commits.", "commits", "",
       "has issued no tcgen05_mma()"},
      {T::kWrongCount, "wrong_count", "The barrier waits for a second arrival.", "waits", "",
       "1 of 2 arrivals have come", "deadlock"},
      {T::kNoWait, "no_wait_for_commit", "Sums are loaded before the matmul has ended.", "loads",
       "multiplies", "a wait for that mbarrier"},
      {T::kNeverWaited, "never_waited", "A block ends before its matmul.", "multiplies", "",
       "the block ends while this matmul may be in flight"},
      {T::kNoFenceAfterWait, "no_fence_after_wait", "Sums are loaded without a fence.", "loads",
       "multiplies", "tcgen05_fence_after() is missing"},
      {T::kWrongQuarter, "wrong_quarter", "A warp loads lanes of another one.", "loads", "",
       "quarter of tensor memory"},
      {T::kNoWaitLd, "no_wait_ld", "Registers are used before they are loaded.", "uses", "loads",
       "tcgen05_wait_ld() is probably missing"},
      {T::kLeftOverwritten, "left_overwritten", "A left operand is overwritten.",
       "overwrites the left operand", "multiplies", "a wait for that mbarrier"},
      {T::kSumsOverwritten, "sums_overwritten", "Sums in flight are overwritten.",
       "overwrites the sums", "multiplies", "a wait for that mbarrier"},
      {T::kNextReads, "next_reads", "A matmul reads the sums of the one before.",
       "multiplies the sums", "multiplies", "a wait for that mbarrier"},
      {T::kFreedEarly, "freed_early_columns", "Columns are freed while others load.", "frees",
       "loads", "nothing orders the two"},
      {T::kLeak, "leak", "Columns are never freed.", "allocates", "", "without tcgen05_dealloc()"},
      {T::kFreedTwice, "freed_twice", "Columns are freed twice.", "frees again", "frees",
       "has freed them"},
      {T::kUsedAfterFree, "used_after_free", "Columns are used after they are freed.",
       "loads what is freed", "frees", "has freed"},
      {T::kTooMuch, "too_much", "An allocation that never succeeds.", "allocates more", "",
       "128 of 512 already"},
      {T::kHundredColumns, "hundred_columns", "Columns that are no power of two.", "allocates", "",
       "allowed are 32, 64, 128, 256 and 512"},
      {T::kAllocatesAfterRelinquish, "alloc_after_relinquish",
       "A block allocates after it gave up the right.", "allocates more", "",
       "after tcgen05_relinquish_alloc_permit()"},
      {T::kAllocatesMore, "growing_allocation", "A block allocates more columns than before.",
       "allocates more than before", "allocates",
       "allocates 256 columns of tensor memory after 128", "tcgen05", T::kAllocatesAsMany},
      {T::kNoFenceAfterRefill, "no_fence_after_fill",
       "A thread multiplies what others have filled.", "multiplies", "refills",
       "tcgen05_fence_after() is missing", "tcgen05", T::kRefilled},
      {T::kNoFenceAfterCopy, "no_fence_after_copy", "A thread multiplies a copy without a fence.",
       "multiplies", "copies", "tcgen05_fence_after() is missing", "tcgen05", T::kCopied},
      {T::kTileOverwritten, "overwritten_stage", "A tile is overwritten while it is multiplied.",
       "brings the next tile", "multiplies", "mbarrier of a tcgen05_commit()", "race"},
  };
  std::vector<BrokenHopperKernel> kernels;
  for (const auto& row : rows) {
    kernels.push_back({{row.name, row.wrong, row.kind, row.line, row.other,
                        hopper(through_tensor_memory, row.how, kWarpgroup, 1, row.right)},
                       row.says});
  }
  return in_file("broken_tcgen05.cuh", std::move(kernels));
}

}  // namespace fa::FA_TARGET
