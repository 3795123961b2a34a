// The watched lab: accesses outside of all memory, copies by memcpy(), stores of the same value,
// shuffles. A line is named by the comment at its end.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/gpu/tests/broken.cuh"
#include "common/lab/tests/reports.hpp"

namespace fa::on_watched_lab {
namespace {

using lab::Report;
using namespace testing;

std::string marked(const std::string& mark) {
  return place_of("common/lab/tests/memory_test.cpp", mark);
}

// ---------------------------------------------------------------- far from all memory

__global__ void stores_at(float* out, std::int64_t offset) {
  out[static_cast<std::int64_t>(threadIdx.x) + offset] = 1;  // far store
}
__global__ void loads_at(const float* in, float* out, std::int64_t offset) {
  out[threadIdx.x] = in[static_cast<std::int64_t>(threadIdx.x) + offset];  // far load
}
__global__ void shared_at(float* out, std::int64_t offset) {
  dynamic_shared<float>()[offset] = 1;  // far shared
  out[threadIdx.x] = 1;
}

TEST_CASE("an access far from its memory names the line, the memory and the distance") {
  const auto in = ones(5);
  DeviceBuffer<float> before(10), out(1000), after(10);
  const auto check = [&](const char* mark, const std::string& what, auto work) {
    std::string message;
    check_only(failed(work, &message), "out of bounds", marked(mark), what);
    CHECK(contains(message, marked(mark)));
    CHECK(contains(message, what));
  };
  // Up to the reach of an index of 32 bits.
  for (const std::int64_t offset : {5000LL, 100'000LL, -70'000LL, 2147483000LL, -2147483000LL}) {
    check("far store", fmt::format("byte {} of a buffer of 4000", 4 * offset), [&] {
      launch(stores_at, {{1}, {32}}, out.data(), offset);
    });
  }
  for (const std::int64_t offset : {4096LL, -1'000'000LL}) {
    check("far load", fmt::format("byte {} of a buffer of 20", 4 * offset), [&] {
      launch(loads_at, {{1}, {32}}, in.data(), out.data(), offset);
    });
  }
  for (const std::int64_t offset : {100'000LL, -100'000LL}) {
    check("far shared", fmt::format("byte {} of the dynamic shared memory of 256", 4 * offset),
          [&] {
            launch(shared_at, {{1}, {32}, 256}, out.data(), offset);
          });
  }
}

struct alignas(8) SixteenBytes {
  std::int64_t first, second;
};
__global__ void stores_of_two_sizes(char* out, int wide, int narrow) {
  if (threadIdx.x == 0) *reinterpret_cast<SixteenBytes*>(out + wide) = {1, 2};
  if (threadIdx.x == 32) out[narrow] = 3;  // narrow store
}

TEST_CASE("a store of one byte races with a wider one that has this byte, and with no other") {
  for (const int wide : {16, 496, 504, 1016}) {  // two of them on both sides of a page's end
    CAPTURE(wide);
    for (int narrow = wide - 2; narrow < wide + 18; ++narrow) {
      CAPTURE(narrow);
      const Report report = watched([&] {
        DeviceBuffer<char> out(2048);
        launch(stores_of_two_sizes, {{1}, {64}}, out.data(), wide, narrow);
      });
      if (narrow >= wide && narrow < wide + 16) {
        check_only(report, "race", marked("narrow store"), "writes what thread 0");
      } else {
        check_clean(report);
      }
    }
  }
}

TEST_CASE("a buffer that was freed is named") {
  DeviceBuffer<float> out(32);
  const float* freed = nullptr;
  {
    const auto in = ones(32);
    freed = in.data();
  }
  check_only(failed([&] {
               launch(loads_at, {{1}, {32}}, freed, out.data(), std::int64_t{0});
             }),
             "out of bounds", marked("far load"), "byte 0 of a buffer of 128 bytes that was freed");
}

TEST_CASE("findings before an error are in its message, in lines that programs print as lines") {
  const std::string message = message_of<std::runtime_error>([] {
    const lab::Watch watch;  // ends with the error
    DeviceBuffer<float> out(32);
    launch(stores_at, {{1}, {32}}, out.data(), std::int64_t{1});
    launch(stores_at, {{1}, {32}}, out.data(), std::int64_t{100'000});
  });
  CHECK(contains(message, "\n  out of bounds: " + marked("far store")));
  for (std::size_t at = 0; (at = message.find('\n', at)) != std::string::npos; ++at) {
    CHECK(message.compare(at, 3, "\n  ") == 0);
  }
}

// ---------------------------------------------------------------- local memory

__global__ void large_local_array(float* out, int count) {
  float values[100'000];  // 400 kB
  for (int i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  float sum = 0;
  for (int i = 0; i < count; i += 1000) sum += values[i];
  out[threadIdx.x] = sum;
}
__global__ void too_large_local_array(float* out, int at) {
  volatile char values[900 * 1024];
  values[at] = 1;
  out[threadIdx.x] = values[at];
}
__global__ void pointer_to_a_local(float* out) {
  __shared__ float* first;
  float own[4] = {1, 2, 3, static_cast<float>(threadIdx.x)};
  if (threadIdx.x == 0) first = own;
  __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = first[threadIdx.x];  // local of another
  __syncthreads();
}

TEST_CASE("a thread may have 400 kB of local arrays, and no more than 512 KiB") {
  DeviceBuffer<float> out(32);
  check_clean(watched([&] { launch(large_local_array, {{1}, {32}}, out.data(), 100'000); }));
  std::string message;
  failed([&] { launch(too_large_local_array, {{1}, {32}}, out.data(), 5); }, &message);
  CHECK(contains(message, "local arrays of a thread have 512 KiB in all"));
}

TEST_CASE("a pointer to a local variable of another thread is found") {
  DeviceBuffer<float> out(32);
  check_only(watched([&] {
               launch(pointer_to_a_local, {{1}, {32}}, out.data());
             }),
             "out of bounds", marked("local of another"),
             "of the local variables of thread 0 (warp 0, lane 0)");
}

__global__ void forgotten_sum(const float* in, float* out) {
  float sum;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
  for (int i = 0; i < 4; ++i) sum += in[i];
#pragma GCC diagnostic pop
  out[threadIdx.x] = sum;
}

TEST_CASE("a local variable that was never set is not 0") {
  const auto in = ones(4);
  DeviceBuffer<float> out(32);
  launch(forgotten_sum, {{1}, {32}}, in.data(), out.data());
  for (int lane = 0; lane < 32; ++lane) {
    const float sum = out.tensor<float, 1>({32})(lane);
    CHECK(!(std::abs(sum) < 1e6f));  // a large number, or NaN
  }
}

// ---------------------------------------------------------------- shared memory

__global__ void aligned_behind_shared(float* out) {
  __shared__ alignas(16) float four[4];
  __shared__ alignas(double) float two[2];
  if (threadIdx.x == 0) store4(four, {1, 2, 3, 4});
  if (threadIdx.x == 0) two[1] = 5;
  __syncthreads();
  out[threadIdx.x] = four[threadIdx.x % 4] + two[1];
}

TEST_CASE("alignas() may stand behind __shared__") {
  DeviceBuffer<float> out(32);
  check_clean(watched([&] { launch(aligned_behind_shared, {{1}, {32}}, out.data()); }));
  CHECK(out.tensor<float, 1>({32})(3) == 9);
}

template <int more>
__global__ void has_static_shared(float* out) {
  __shared__ float first[4096], rest[8192 + more];
  first[threadIdx.x] = rest[threadIdx.x] = 1;
  out[threadIdx.x] = first[threadIdx.x] + rest[threadIdx.x];
}

TEST_CASE("a kernel has at most 48 KiB of static shared memory") {
  DeviceBuffer<float> out(32);
  check_clean(watched([&] { launch(has_static_shared<0>, {{1}, {32}}, out.data()); }));
  std::string message;
  failed([&] { launch(has_static_shared<1>, {{1}, {32}}, out.data()); }, &message);
  for (const char* part : {"49156 bytes", "first has 16384", "rest has 32772", "allows 49152"}) {
    CHECK(contains(message, part));
  }
}

// ---------------------------------------------------------------- copies by the library

struct Row {
  float values[24];
};
enum class By { kMemcpy, kMemmove, kCopyN, kStruct };

template <By by, int size>
__global__ void copies(const Row* in, Row* out, int bytes) {
  if (threadIdx.x != 0) return;
  switch (by) {
    case By::kMemcpy:
      memcpy(out, in, static_cast<std::size_t>(size > 0 ? size : bytes));  // by memcpy
      break;
    case By::kMemmove:
      std::memmove(out, in, static_cast<std::size_t>(size > 0 ? size : bytes));  // by memmove
      break;
    case By::kCopyN:
      std::copy_n(in->values, (size > 0 ? size : bytes) / 4, out->values);  // by copy_n
      break;
    case By::kStruct:
      *out = *in;  // by assignment
      break;
  }
}

std::int64_t bytes_at(const Report& report, const std::string& mark, bool write) {
  std::int64_t bytes = 0;
  for (const lab::LineTraffic& line : report.traffic) {
    if (line.where == marked(mark) && line.write == write) bytes += line.bytes;
  }
  return bytes;
}

TEST_CASE("copies by memcpy(), memmove(), copy_n() and of structs are counted and checked") {
  using Kernel = void (*)(const Row*, Row*, int);
  const std::tuple<Kernel, const char*> kernels[] = {
      {copies<By::kMemcpy, 0>, "by memcpy"},     {copies<By::kMemcpy, 96>, "by memcpy"},
      {copies<By::kMemmove, 0>, "by memmove"},   {copies<By::kMemmove, 96>, "by memmove"},
      {copies<By::kCopyN, 0>, "by copy_n"},      {copies<By::kCopyN, 96>, "by copy_n"},
      {copies<By::kStruct, 96>, "by assignment"}};
  for (const auto& [kernel, name] : kernels) {
    const char* const mark = name;  // clang 14 captures no structured binding
    CAPTURE(mark);
    const auto run = [kernel = kernel](bool written, std::int64_t room) {
      return watched([&] {
        DeviceBuffer<float> in(24), out(room);
        if (written) in.zero();
        launch(kernel, {{1}, {32}}, reinterpret_cast<const Row*>(in.data()),
               reinterpret_cast<Row*>(out.data()), 96);
      });
    };
    const Report right = run(true, 24);
    check_clean(right);
    for (const bool write : {false, true}) CHECK(bytes_at(right, mark, write) == 96);
    check_only(run(false, 24), "unwritten", marked(mark), "which no thread has written");
    check_only(run(true, 23), "out of bounds", marked(mark), "at byte 92 of a buffer of 92 bytes");
  }
}

template <int size>
__global__ void fills(float* out, int bytes) {
  __shared__ float tile[32];
  if (threadIdx.x == 0) memset(tile, 0, static_cast<std::size_t>(size > 0 ? size : bytes));
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // after memset
}

TEST_CASE("what memset() has filled is written") {
  DeviceBuffer<float> out(32);
  check_clean(watched([&] { launch(fills<0>, {{1}, {32}}, out.data(), 128); }));
  check_clean(watched([&] { launch(fills<128>, {{1}, {32}}, out.data(), 0); }));
  const Report report = watched([&] { launch(fills<124>, {{1}, {32}}, out.data(), 0); });
  check_only(report, "unwritten", marked("after memset"), "thread 31 (warp 0, lane 31) reads");
}

// ---------------------------------------------------------------- the same value

__global__ void all_store(float* data) {
  *data = 1;  // all store
}
__global__ void all_store_their_own(float* data) {
  *data = static_cast<float>(threadIdx.x);  // each stores
}
__global__ void two_store_another(float* data) {
  *data = threadIdx.x < 30 ? 1.0f : 2.0f;  // some store
}

Report stored(void (*kernel)(float*)) {
  return watched([&] {
    DeviceBuffer<float> data(1);
    launch(kernel, {{1}, {32}}, data.data());
  });
}

TEST_CASE("stores of the same value are a kind of their own, which can be left out") {
  const Report report = stored(all_store);
  check_only(report, "same value", marked("all store"), "both write the same value");
  CHECK(report.findings[0].count == 31);
  check_only(stored(all_store_their_own), "race", marked("each stores"),
             "each thread needs an element of its own");
  const Report mixed = stored(two_store_another);
  CAPTURE(mixed.text());
  REQUIRE(mixed.findings.size() == 2);
  CHECK(mixed.findings[1].kind == "race");
  CHECK(mixed.findings[1].count == 1);
  check_clean(report.without("same value"));
  CHECK(mixed.without("same value").findings.size() == 1);
}

// ---------------------------------------------------------------- shuffles

template <class Take>
__global__ void takes(int* out, unsigned threads, Take take) {
  if (threadIdx.x >= threads) return;
  out[threadIdx.x] = take(static_cast<int>(threadIdx.x));
}
// What 32 threads get, of which the first ones take part.
template <class Take>
std::vector<int> taken(Take take, unsigned block = 32, unsigned threads = 32,
                       Report* report = nullptr) {
  const lab::Watch watch;
  DeviceBuffer<int> out(32);
  out.zero();
  launch(takes<Take>, {{1}, {block}}, out.data(), threads, take);
  std::vector<int> result(32);
  out.download(result.data());
  if (report != nullptr) *report = watch.report();
  return result;
}

TEST_CASE("the source of a shuffle counts modulo its width") {
  for (const int width : {32, 16, 8, 1}) {
    for (const int by : {1, -1, -5, 40, -33}) {
      const auto got =
          taken([=](int lane) { return __shfl_sync(kAllLanes, lane, lane % width + by, width); });
      for (int lane = 0; lane < 32; ++lane) {
        CHECK(got[static_cast<std::size_t>(lane)] ==
              lane / width * width + ((lane % width + by) & (width - 1)));
      }
    }
  }
}

TEST_CASE("a shuffle from a lane that does not exist or has returned is found") {
  const auto down = [](int lane) { return __shfl_down_sync(kAllLanes, lane, 16); };  // down
  const auto half = [](int lane) { return __shfl_xor_sync(0xffffu, lane, 8); };
  Report report;
  CHECK(taken(down, 17, 17, &report)[0] == 16);
  check_only(report, "warp", marked("down"), "takes the value of lane 17, which does not exist");
  CHECK(report.findings[0].count == 15);
  const auto got = taken(down, 32, 17, &report);
  check_only(report, "warp", marked("down"), "takes the value of lane 17, which has returned");
  CHECK(got[0] == 16);
  CHECK(got[1] == -1);  // all bits are 1
  taken(half, 17, 16, &report);
  check_clean(report);
}

}  // namespace
}  // namespace fa::on_watched_lab
