// What runs kernels, and what they are written with but tensor cores. Compiled for the lab and for
// the GPU: where both pass, both agree.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "common/gpu/philox.cuh"
#include "common/gpu/tests/surface.cuh"

namespace fa::FA_TARGET {
namespace {

__global__ void count_visits(int* visits, float* all, Size size) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= size.x || y >= size.y || z >= size.z) return;
  atomicAdd(&visits[(z * size.y + y) * size.x + x], 1);
  atomicAdd(all, 1.0f);
}

TEST_CASE("every thread of a ragged grid runs once, and atomics of all blocks add up") {
  const Size size(37, 11, 5), block(8, 4, 2);
  DeviceBuffer<int> visits(size.count());
  DeviceBuffer<float> all(1);
  visits.zero();
  all.zero();
  launch(count_visits,
         {{ceil_div(size.x, block.x), ceil_div(size.y, block.y), ceil_div(size.z, block.z)}, block},
         visits.data(), all.data(), size);
  for (const int count : values(visits)) CHECK(count == 1);
  CHECK(values(all)[0] == static_cast<float>(size.count()));
}

constexpr int kShuffles = 9;

__global__ void all_shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int value = 100 + lane;
  int* const mine = out + threadIdx.x * kShuffles;
  mine[0] = __shfl_xor_sync(kAllLanes, value, 5);
  mine[1] = __shfl_xor_sync(kAllLanes, value, 2, 8);
  mine[2] = __shfl_down_sync(kAllLanes, value, 3);
  mine[3] = __shfl_up_sync(kAllLanes, value, 3);
  mine[4] = __shfl_sync(kAllLanes, value, 7);
  mine[5] = __shfl_sync(kAllLanes, value, 1, 4);
  mine[6] = static_cast<int>(__ballot_sync(kAllLanes, lane % 3 == 0));
  mine[7] = __any_sync(kAllLanes, lane == 31) + 2 * __all_sync(kAllLanes, lane < 31);
  mine[8] = __shfl_down_sync(kAllLanes, value, 1, 16);
}

TEST_CASE("shuffles and votes return what CUDA defines") {
  const auto result = output_of<int>(all_shuffles, 64, 64 * kShuffles);
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int* mine = result.data() + static_cast<std::ptrdiff_t>(thread) * kShuffles;
    CAPTURE(thread);
    CHECK(mine[0] == 100 + (lane ^ 5));
    CHECK(mine[1] == 100 + (lane ^ 2));
    CHECK(mine[2] == 100 + (lane + 3 < 32 ? lane + 3 : lane));
    CHECK(mine[3] == 100 + (lane >= 3 ? lane - 3 : lane));
    CHECK(mine[4] == 107);
    CHECK(mine[5] == 100 + lane / 4 * 4 + 1);
    CHECK(mine[6] == 0x49249249);
    CHECK(mine[7] == 1);
    CHECK(mine[8] == 100 + (lane % 16 < 15 ? lane + 1 : lane));
  }
}

__global__ void halves_apart(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  int value = lane;
  if (lane < 16) {
    for (int i = 0; i < 3; ++i) value = __shfl_xor_sync(0x0000ffffu, value, 1);
  } else {
    value = __shfl_xor_sync(0xffff0000u, value, 2);
  }
  __syncwarp();
  out[lane] = __shfl_xor_sync(kAllLanes, value, 16);
}

TEST_CASE("halves of a warp can shuffle separately and then together") {
  const auto result = output_of<int>(halves_apart, 32, 32);
  for (int lane = 0; lane < 32; ++lane) {
    const int other = lane ^ 16;
    CHECK(result[static_cast<std::size_t>(lane)] == (other < 16 ? other ^ 1 : other ^ 2));
  }
}

// A number rounded to T, and as parts of a word.
template <class T>
__global__ void through_words(const half* in, float* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const float x = to_float(in[i]);
  T parts[4];
  if constexpr (sizeof(T) == 1) {
    const std::uint32_t four = pack4<T>(x, -x, x / 3, x * 3);
    memcpy(parts, &four, sizeof parts);
  } else {
    const std::uint32_t pairs[2] = {pack2<T>(x, -x), pack2<T>(x / 3, x * 3)};
    memcpy(parts, pairs, sizeof parts);
  }
  out[5 * i] = to_float(from_float<T>(x));
  for (int j = 0; j < 4; ++j) out[5 * i + 1 + j] = to_float(parts[j]);
}

template <class T, class Host>
void check_rounding() {
  const auto host = [](float x) { return static_cast<float>(static_cast<Host>(x)); };
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  };
  Tensor<fa::half, 1> in({1 << 16});
  for (int i = 0; i < in.count(); ++i) {
    in(i) = Eigen::numext::bit_cast<fa::half>(static_cast<std::uint16_t>(i));
  }
  const DeviceBuffer<half> inputs(in);
  DeviceBuffer<float> out(5 * in.count());
  launch(through_words<T>, {{256}, {256}}, inputs.data(), out.data());
  const std::vector<float> result = values(out);
  int wrong = 0;
  for (int i = 0; i < in.count(); ++i) {
    const auto x = static_cast<float>(in(i));
    const float wanted[] = {host(x), host(x), host(-x), host(x / 3), host(x * 3)};
    for (int j = 0; j < 5; ++j) {
      wrong += !same(result[static_cast<std::size_t>(5 * i + j)], wanted[j]);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("kernels round to 16 and to 8 bits as the host does") {
  check_rounding<half, fa::half>();
  check_rounding<bfloat16, fa::bfloat16>();
  check_rounding<e4m3, fa::e4m3>();
  check_rounding<e5m2, fa::e5m2>();
}

// Codes 4 i to 4 i + 3, the two in the middle exchanged.
__global__ void unpack_codes(float* out) {
  const unsigned codes = threadIdx.x * 0x04040404 + 0x03020100;
  std::uint32_t pairs[2];
  unpack_e4m3(pairs, __byte_perm(codes, 0, 0x3120));
  half four[4];
  memcpy(four, pairs, sizeof four);
  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = to_float(four[i]);
}

TEST_CASE("every code of e4m3 becomes its float16") {
  const auto result = output_of<float>(unpack_codes, 64, 256);
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned code = i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i;
    const auto wanted = static_cast<float>(fa::e4m3::from_code(static_cast<std::uint8_t>(code)));
    CHECK((result[i] == wanted || (std::isnan(result[i]) && std::isnan(wanted))));
  }
}

__global__ void reduce_groups(const float* in, float* out) {
  const float value = in[threadIdx.x];
  out[4 * threadIdx.x + 0] = warp_max(value);
  out[4 * threadIdx.x + 1] = warp_sum(value);
  out[4 * threadIdx.x + 2] = warp_max<4>(value);
  out[4 * threadIdx.x + 3] = warp_sum<8>(value);
}

TEST_CASE("warp reductions, of whole warps and of groups of lanes") {
  Tensor<float, 1> in({64});
  fill_with(in.view(),
            [](std::uint64_t i) { return static_cast<double>(random_bits(1, i) % 1000) - 500; });
  const auto result = output_of<float>(reduce_groups, 64, 256, DeviceBuffer<float>(in));
  for (int i = 0; i < 64; ++i) {
    const auto over = [&](int width, bool sum) {
      const float* first = in.data() + i / width * width;
      return sum ? std::accumulate(first, first + width, 0.0f)
                 : *std::max_element(first, first + width);
    };
    const float* mine = result.data() + static_cast<std::ptrdiff_t>(i) * 4;
    CHECK(mine[0] == over(32, false));
    CHECK(mine[1] == over(32, true));  // whole numbers: any order is exact
    CHECK(mine[2] == over(4, false));
    CHECK(mine[3] == over(8, true));
  }
}

// A block leaves a number and raises a flag; another one waits for the flag and takes the number.
template <bool fenced>
__global__ void passed_on(float* part, unsigned* flag, float* out) {
  if (blockIdx.x == 0) {
    *part = 7;
    if (fenced) {
      __threadfence();
      atomicAdd(flag, 1u);
    } else {
      atomic_add_release(flag, 1);
    }
  } else {
    while (load_acquire(flag) == 0) continue;
    *out = *part;
  }
}

TEST_CASE("load_acquire() waits for what another block has written") {
  for (const auto kernel : {passed_on<true>, passed_on<false>}) {
    DeviceBuffer<float> part(1), out(1);
    DeviceBuffer<unsigned> flag(1);
    flag.zero();
    launch(kernel, {{2}, {1}}, part.data(), flag.data(), out.data());
    CHECK(values(out)[0] == 7);
    CHECK(values(flag)[0] == 1);
  }
}

// Two groups of copies in flight; the second one has a row that is filled with zeros.
__global__ void staged_copy(const float* in, float* out) {
  __shared__ __align__(16) float stage[2][32 * 4];
  const unsigned i = 4 * threadIdx.x;
  cp_async16(&stage[0][i], in + i);
  cp_async_commit();
  cp_async16(&stage[1][i], in + 128 + i, threadIdx.x != 5);
  cp_async_commit();
  cp_async_wait<1>();
  __syncthreads();
  store4(out + i, load4(&stage[0][124 - i]));
  cp_async_wait<0>();
  __syncthreads();
  store4(out + 128 + i, load4(&stage[1][124 - i]));
}

TEST_CASE("asynchronous copies arrive in the order of their groups") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsCpAsync);
  const auto in = normal_tensor<float, 1>({256}, 1);
  const auto result = output_of<float>(staged_copy, 32, 256, DeviceBuffer<float>(in));
  for (int i = 0; i < 128; ++i) {
    const int from = 124 - i / 4 * 4 + i % 4;
    CHECK(result[static_cast<std::size_t>(i)] == in(from));
    CHECK(result[static_cast<std::size_t>(128 + i)] == (from / 4 == 5 ? 0.0f : in(128 + from)));
  }
}

__global__ void nothing() {}

TEST_CASE("a launch with impossible sizes throws an error that names them") {
  const auto refusal = [](const auto& work) { return message_of<std::invalid_argument>(work); };
  const std::pair<Launch, const char*> launches[] = {
      {{{1}, {1025}}, "1025 x 1 x 1 threads"},
      {{{1}, {1, 1, 65}}, "64 in z"},
      {{{0}, {32}}, "0 x 1 x 1 blocks"},
      {{{1, 65536}, {32}}, "65535"},
      {{{1}, {32}, std::size_t{1} << 20}, "1048576 bytes of dynamic shared memory"}};
  for (const auto& one : launches) {
    CHECK(contains(refusal([&] { launch(nothing, one.first); }), one.second));
    const Stream stream;
    CHECK(contains(refusal([&] { launch(stream, nothing, one.first); }), one.second));
  }
  CHECK(contains(refusal([] { DeviceBuffer<float> b(-1); }), "-1 elements"));
  CHECK(contains(refusal([] {
                   (void)DeviceBuffer<float>(6).tensor<float, 2>({2, 4});
                 }),
                 "6 elements does not fill shape [2, 4]"));
  launch(nothing, {{1}, {32}});  // and then all is well
  device_synchronize();
}

TEST_CASE("an allocation that is too large throws, and later ones succeed") {
  using E = std::runtime_error;
  const std::int64_t count = std::int64_t{1} << 48;
  CHECK(contains(message_of<E>([&] { DeviceBuffer<float> b(count); }),
                 "1125899906842624 bytes of memory were asked for; "));
  CHECK(contains(message_of<E>([&] { DeviceBuffer<float> b(count << 14); }),
                 "a buffer of 4611686018427387904 elements: no memory"));
  CHECK(DeviceBuffer<float>(1000).count() == 1000);
}

__global__ void double_and_add(int* numbers, int what) {
  numbers[threadIdx.x] = 2 * numbers[threadIdx.x] + what;
}

TEST_CASE("launches on a stream run in order, independent of other streams") {
  DeviceBuffer<int> ones(64), twos(64);
  ones.zero();
  twos.zero();
  const Stream first, second;
  int expected = 0;  // for one more at each step
  for (int step = 0; step < 20; ++step) {
    launch(first, double_and_add, {{1}, {64}}, ones.data(), 1);
    launch(second, double_and_add, {{1}, {64}}, twos.data(), 2);
    expected = 2 * expected + 1;
  }
  first.synchronize();
  for (const int number : values(ones)) CHECK(number == expected);
  // A copy waits for streams by itself, and so does a launch on none.
  for (const int number : values(twos)) CHECK(number == 2 * expected);
  launch(first, double_and_add, {{1}, {64}}, ones.data(), 0);
  launch(double_and_add, {{1}, {64}}, ones.data(), 1);
  launch(second, double_and_add, {{1}, {64}}, ones.data(), 0);
  for (const int number : values(ones)) CHECK(number == 8 * expected + 2);
}

// Each number of `out` is one more than its mirror image in `in`, in another block.
__global__ void add_one_early(const int* in, int* out) {
  launch_dependents();  // the next launch may begin now
  grid_dependency_wait();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[gridDim.x * blockDim.x - 1 - i] + 1;
}

TEST_CASE("a dependent launch waits for the previous kernel") {
  constexpr unsigned blocks = 2000, threads = 64;
  DeviceBuffer<int> first(blocks * threads), second(blocks * threads);
  first.zero();
  const Stream stream;
  device_synchronize();
  Launch early{{blocks}, {threads}};
  early.with_pdl = true;
  constexpr int steps = 10;
  for (int step = 0; step < steps; ++step) {
    launch(stream, add_one_early, early, step % 2 == 0 ? first.data() : second.data(),
           step % 2 == 0 ? second.data() : first.data());
  }
  stream.synchronize();
  for (const int number : values(first)) REQUIRE(number == steps);
}

TEST_CASE("make_dropout() turns a probability into a threshold of 32 bits") {
  CHECK(make_dropout(0, 7).threshold == 0);
  CHECK(make_dropout(0, 7).factor == 1);
  CHECK(make_dropout(0.25, 7).threshold == 1u << 30);
  CHECK(make_dropout(std::nextafter(1.0, 0.0), 7).threshold == 0xffffffffu);
}

TEST_CASE("new buffers hold NaN, are counted, and move without a copy") {
  const std::int64_t before = taken_bytes();
  { const DeviceBuffer<double> gone(7); }
  DeviceBuffer<float> buffer(100);
  CHECK(taken_bytes() - before == 400 + 56);
  for (const float value : values(buffer)) CHECK(std::isnan(value));
  float* const data = buffer.data();
  const DeviceBuffer<float> moved(std::move(buffer));
  CHECK(moved.data() == data);
  CHECK(moved.count() == 100);
  CHECK(buffer.count() == 0);
}

}  // namespace
}  // namespace fa::FA_TARGET
