// Asynchronous operations in the plain lab: without an observer, so a mistake must show in the
// numbers, or end the launch with a message.
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/gpu/tests/broken_hopper.cuh"
#include "common/lab/tests/reports.hpp"

namespace fa::on_lab {
namespace {

using namespace testing;

template <class T>
std::vector<T> values(const DeviceBuffer<T>& buffer) {
  std::vector<T> result(static_cast<std::size_t>(buffer.count()));
  buffer.download(result.data());
  return result;
}

// The sum of what the 128 threads of a broken kernel, or of its right twin, leave.
template <class How, class... Params>
float sum_of(void (*kernel)(How, Params...), How how) {
  HopperInput in;
  launch(kernel, {{1}, {128}, sizeof(HopperShared)}, how,
         in.argument<std::remove_const_t<Params>>()...);
  const auto numbers = values(in.sums);
  return std::accumulate(numbers.begin(), numbers.begin() + 128, 0.0f);
}
// Whether the first element of what it copies is NaN.
bool copies_nan(OneTile how) {
  HopperInput in;
  launch(one_tile, {{1}, {128}, sizeof(HopperShared)}, how, in.map(), in.out.data());
  return std::isnan(to_float(values(in.out)[0]));
}

TEST_CASE("what is not waited for is NaN, without an observer") {
  CHECK(sum_of(two_groups, Sums::kRight) == 128 * (17 + 17 * 16));
  CHECK(std::isnan(sum_of(two_groups, Sums::kNoWait)));
  // The scaled accumulator is overwritten when the wgmma ends.
  CHECK(sum_of(two_groups, Sums::kScaled) == 128 * (17 + 16));
  CHECK(sum_of(operand_not_there, false) == 0);
  CHECK(std::isnan(sum_of(operand_not_there, true)));
  CHECK(sum_of(refills, false) == 0);
  CHECK(std::isnan(sum_of(refills, true)));
  CHECK_FALSE(copies_nan(OneTile::kRight));
  CHECK(copies_nan(OneTile::kNoWait));
  CHECK(copies_nan(OneTile::kTooFew));
  CHECK(sum_of(through_tensor_memory, Tensor::kRight) == 128 * 32);
  for (const Tensor how :
       {Tensor::kNoWaitSt, Tensor::kNoWait, Tensor::kNoWaitLd, Tensor::kAddsToNothing}) {
    CHECK(std::isnan(sum_of(through_tensor_memory, how)));
  }
  const std::pair<void (*)(const float*, float*), bool> of_a_warp[] = {
      {shuffle_from_outside<false>, false},
      {shuffle_from_outside<true>, true},
      {waits_for<0>, false},
      {waits_for<1>, true},
      {waits_for<2>, true}};
  for (const auto& [kernel, is_broken] : of_a_warp) {
    const auto in = ones(256);
    DeviceBuffer<float> out(128);
    launch(kernel, {{1}, {kWarp}}, in.data(), out.data());
    CHECK(std::isnan(values(out)[0]) == is_broken);
  }
}

TEST_CASE("a store that no thread waits for does not arrive") {
  const auto in = ones(32);
  DeviceBuffer<float> out(32);
  for (const bool broken : {false, true}) {
    out.zero();
    launch(broken ? store_at_the_end<true> : store_at_the_end<false>, {{1}, {32}}, in.data(),
           out.data());
    CHECK(values(out)[5] == (broken ? 0 : 1));
  }
}

TEST_CASE("without an observer what PTX does not allow ends the launch, with its line") {
  int ended = 0;
  for (const BrokenHopperKernel& kernel : broken_hopper_kernels()) {
    static const std::set<std::string> others{"parity_below_zero", "shuffles_in_two_branches",
                                              "wrong_quarter",     "bad_descriptor",
                                              "other_major",       "freed_twice",
                                              "used_after_free",   "too_much",
                                              "hundred_columns",   "wrong_count"};
    if (kernel.kind != "misaligned" && others.count(kernel.name) == 0) continue;
    CAPTURE(kernel.name);
    kernel.run(false);
    if (kernel.name == "misaligned_vector") continue;  // if the CPU allows it
    const std::string message = message_of<std::runtime_error>([&] { kernel.run(true); });
    CAPTURE(message);
    CHECK(contains(in_one_line(message), kernel.says));
    CHECK(contains(message, place_of("common/gpu/tests/" + kernel.file, kernel.line)));
    ++ended;
  }
  CHECK(ended == 15);
}

// ---------------------------------------------------------------- refusals

// What a kernel that does something wrong can use.
struct Scene {
  TensorMap map;
  const float* global;
  Mbarrier &barrier, &other;  // `other` is not initialised
  float* row;                 // static shared memory, 32 elements
  char* shared;               // dynamic shared memory, as much as a HopperTile
  bool first = threadIdx.x == 0;

  void load(int offset, int col) {
    if (first) tma_load(shared + offset, map, barrier, col, 0, 0, 0, CacheHint::kEvictLast);
  }
};
using Mistake = void (*)(Scene&);

__global__ void does_wrong(const __grid_constant__ TensorMap map, const float* global,
                           Mistake mistake) {
  __shared__ Mbarrier barrier, other;
  __shared__ __align__(16) float row[32];
  Scene scene{map, global, barrier, other, row, dynamic_shared<char>()};
  if (scene.first) {
    barrier.init(1);
    fence_barrier_init();
  }
  __syncthreads();
  mistake(scene);
}

void multiply_beyond_the_end(Scene& s) {
  float sum[32] = {};
  const auto operand = matrix_descriptor<Major::kK>(s.shared + 4096, 0);
  wgmma_fence(sum);
  wgmma<half>(sum, operand, operand, false);
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
}

TEST_CASE("arguments that PTX does not allow end the launch with one sentence") {
  const std::pair<Mistake, const char*> mistakes[] = {
      {[](Scene& s) { s.other.wait(0); }, "an mbarrier that is not initialised yet"},
      {[](Scene& s) { s.other.init(0); }, "an mbarrier of 0 arrivals"},
      {[](Scene& s) {
         s.barrier.arrive_and_expect(16);
         s.barrier.arrive();
       },
       "more than the 1 arrivals of a phase"},
      {[](Scene&) { named_barrier_wait(16, 128); }, "named barrier 16; allowed are 0 to 15"},
      {[](Scene&) { named_barrier_wait(1, 100); }, "for 100 threads; allowed are multiples"},
      {[](Scene&) { named_barrier_arrive(1, threadIdx.x < 32 ? 64 : 128); },
       "threads, where others said"},
      {[](Scene&) { lab::set_registers(100, {}); }, "100 registers for a thread; allowed are"},
      {[](Scene&) { threadIdx.x < 128 ? setmaxnreg_dec<48>() : setmaxnreg_inc<240>(); },
       "take 67584 registers in all"},
      {[](Scene& s) { s.load(16, 0); }, "not a multiple of 128"},
      {[](Scene& s) { s.load(1024, 0); }, "a copy of 8192 bytes at byte 1024"},
      {[](Scene& s) { s.load(0, 3); }, "a box whose first column is 3; allowed are multiples"},
      {[](Scene& s) {
         if (s.first) tma_store(s.map, s.shared, 0, -5, 0, 0);
       },
       "a box is stored at the coordinates 0, -5, 0, 0"},
      {[](Scene& s) {
         if (s.first) bulk_load(s.row, s.global, 20, s.barrier);
       },
       "a copy of 20 bytes"},
      {multiply_beyond_the_end, "of the dynamic shared memory, which has 8192"},
      {[](Scene& s) { (void)matrix_descriptor<Major::kK>(s.row, 0); },
       "outside of dynamic shared memory"}};
  for (const auto& one : mistakes) {
    const HopperInput in;
    const DeviceBuffer<float> global(64);
    const std::string message = message_of<std::runtime_error>([&] {
      launch(does_wrong, {{1}, {384}, HopperTile::bytes}, in.map(), global.data(), one.first);
    });
    CAPTURE(one.second);
    CHECK(contains(message, one.second));
  }
}

using ClusterMistake = void (*)(const TensorMap&, HopperShared&);

__global__ void does_wrong_in_cluster(const __grid_constant__ TensorMap map,
                                      ClusterMistake mistake) {
  mistake(map, *dynamic_shared<HopperShared>());
}

// In block 1 all threads wait for an mbarrier at which no thread arrives.
void one_block_waits(const TensorMap&, HopperShared& shared) {
  if (cluster_rank() == 1) {
    __syncthreads();
    if (threadIdx.x == 0) shared.empty.init(1);
    __syncthreads();
    shared.empty.wait(0);
  }
  cluster_arrive();
  cluster_wait();
}

void use_static_memory_of_peer(const TensorMap&, HopperShared&) {
  __shared__ int fixed;
  (void)peer_shared(&fixed, 1);
}

TEST_CASE("cluster operations that PTX does not allow end the launch with one sentence") {
  const std::pair<ClusterMistake, const char*> mistakes[] = {
      {[](const TensorMap&, HopperShared&) {
         cluster_arrive();
         cluster_arrive();
       },
       "must alternate in a thread"},
      {[](const TensorMap&, HopperShared&) { cluster_wait(); }, "must alternate in a thread"},
      {[](const TensorMap&, HopperShared& shared) { (void)peer_shared(&shared, 2); },
       "block 2 of a cluster of 2"},
      {[](const TensorMap& map, HopperShared& shared) {
         shared.empty.init(1);
         tma_load_multicast(shared.tiles[0].data, map, shared.empty, 0, 0, 0, 0, 5);
       },
       "a copy to the blocks 0b101 of a cluster of 2"},
      {use_static_memory_of_peer, "shared memory of another block that is not dynamic"},
      {one_block_waits, "32 threads (first: 0) of block 1 of the cluster at an mbarrier"},
      {one_block_waits, "at cluster_wait"},
      {one_block_waits, "with 32 of 64 threads of the cluster there"}};
  for (const auto& one : mistakes) {
    const HopperInput in;
    const std::string message = message_of<std::runtime_error>([&] {
      launch(does_wrong_in_cluster, {{2}, {32}, sizeof(HopperShared), 0, false, 2}, in.map(),
             one.first);
    });
    CAPTURE(one.second);
    CHECK(contains(message, one.second));
  }
}

TEST_CASE("boxes of random tensors, sizes and swizzles go where TMA puts them, and back") {
  std::mt19937 random(1);
  const auto one_of = [&](int first, int last) {
    return std::uniform_int_distribution<int>(first, last)(random);
  };
  constexpr std::size_t room = 1 << 16;
  static_assert(lab::kBoxAlignment < 1024);
  const auto aligned = std::make_unique<std::byte[]>(room + 1024);
  auto* const shared =
      aligned.get() + 1024 - reinterpret_cast<std::uintptr_t>(aligned.get()) % 1024;
  for (int trial = 0; trial < 200; ++trial) {
    lab::BulkCopy copy;
    lab::TensorBox& box = copy.box;
    box.element_bytes = 1 << one_of(0, 3);
    box.swizzle_bytes = trial % 4 == 0 ? 0 : 16 << trial % 4;
    const int chunks = box.swizzle_bytes == 0 ? one_of(1, 12) : box.swizzle_bytes / 16;
    box.box = {one_of(1, 2), one_of(1, 2), one_of(1, 3), one_of(1, 9),
               16 * chunks / box.element_bytes};
    std::int64_t bytes = 0;
    for (std::size_t i = 5; i-- > 0;) {
      box.sizes[i] = one_of(1, i == 4 ? 2 * box.box[4] : 6);
      copy.at[i] = one_of(i == 4 ? 0 : -1, static_cast<int>(box.sizes[i]));
      if (i == 4) {
        copy.at[4] = copy.at[4] * box.element_bytes / 16 * 16 / box.element_bytes;
        bytes = (box.sizes[4] * box.element_bytes + 15) / 16 * 16;
      } else {
        box.strides[i] = bytes + 16 * one_of(0, 2);
        bytes = box.strides[i] * box.sizes[i];
      }
    }
    std::vector<std::byte> tensor(static_cast<std::size_t>(bytes)), back(tensor.size());
    for (std::byte& byte : tensor) byte = static_cast<std::byte>(one_of(1, 255));
    box.data = tensor.data();
    copy.kind = lab::BulkCopy::Kind::kLoadBox;
    copy.shared = shared;
    copy.size = box.bytes();
    std::memset(shared, 0xee, room);
    copy.perform();
    // Every byte of the box by its five indices; those outside of the tensor are 0.
    std::vector<std::byte> expected = back;
    std::size_t at = 0, wrong = 0;
    std::array<std::int64_t, 4> i{};
    for (i[0] = 0; i[0] < box.box[0]; ++i[0])
      for (i[1] = 0; i[1] < box.box[1]; ++i[1])
        for (i[2] = 0; i[2] < box.box[2]; ++i[2])
          for (i[3] = 0; i[3] < box.box[3]; ++i[3])
            for (int byte = 0; byte < box.row_bytes(); ++byte, ++at) {
              std::size_t address = static_cast<std::size_t>(copy.at[4] * box.element_bytes + byte);
              bool inside = copy.at[4] + byte / box.element_bytes < box.sizes[4];
              for (std::size_t k = 0; k < 4; ++k) {
                const std::int64_t index = copy.at[k] + i[k];
                inside = inside && index >= 0 && index < box.sizes[k];
                address += static_cast<std::size_t>(index * box.strides[k]);
              }
              const std::size_t row =
                  box.swizzle_bytes == 0
                      ? 0
                      : at / 128 % (static_cast<std::size_t>(box.swizzle_bytes) / 16);
              const std::byte found = shared[at ^ 16 * row];
              wrong += found != (inside ? tensor[address] : std::byte{0});
              if (inside) expected[address] = tensor[address];
            }
    CHECK(wrong == 0);
    CHECK(shared[at] == std::byte{0xee});
    copy.kind = lab::BulkCopy::Kind::kStoreBox;
    box.data = back.data();
    copy.perform();
    CHECK(back == expected);
  }
}

// Each field of an instruction descriptor.
TEST_CASE("an instruction descriptor is checked bit by bit") {
  lab::TensorMatmul matmul;
  matmul.mn_major_b = true;
  const std::uint32_t right = tcgen05_descriptor<bfloat16>(240, Major::kK, Major::kMN);
  for (int bit = 0; bit < 32; ++bit) {
    CAPTURE(bit);
    matmul.descriptor = right ^ 1u << bit;
    // Bits 18 to 21 are columns by 16; all other changes are wrong: 8 columns more, 256 more.
    const bool other_columns = bit >= 18 && bit <= 21;
    CHECK(lab::wrong_descriptor(matmul).empty() == other_columns);
  }
  matmul.descriptor = right;
  CHECK(lab::wrong_descriptor(matmul) == "");
}

}  // namespace
}  // namespace fa::on_lab
