// The kernel that fa_decode() takes on an H200, beside the times of all kernels in its record.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/interface/decode_choice.cuh"
#include "common/gpu/tests/gpus.hpp"

namespace fa::FA_TARGET {
namespace {

// What stands behind a name in a row of a record; empty without it.
std::string field(const std::string& row, const std::string& name) {
  const std::string start = '"' + name + "\": ";
  const std::size_t at = row.find(start);
  if (at == std::string::npos) return {};
  std::string value = row.substr(at + start.size());
  value.resize(std::min(value.find_first_of(",}"), value.size()));
  return value[0] == '"' ? value.substr(1, value.size() - 2) : value;
}

// Of a point: a row with its sizes, and milliseconds by fa_decode_kernel.
struct TimedPoint {
  std::string row;
  std::map<int, double> milliseconds;
};

// Points with the same number of queries in each sequence.
std::map<std::string, TimedPoint> points_of_record(const std::string& path) {
  const std::map<std::string, int> kernels = {{"forward", FA_DECODE_FORWARD},
                                              {"even", FA_DECODE_EVEN_TILES},
                                              {"paged", FA_DECODE_PAGED_KV},
                                              {"wgmma", FA_DECODE_WGMMA},
                                              {"chunked", FA_DECODE_CHUNKED_PREFILL}};
  std::map<std::string, TimedPoint> points;
  std::ifstream file(path);
  for (std::string row; std::getline(file, row);) {
    const auto kernel = kernels.find(field(row, "backend"));
    if (kernel == kernels.end() || field(row, "what") != "time") continue;
    if (field(row, "prompts") != "0") continue;
    TimedPoint& point = points[field(row, "group")];
    point.row = row;
    point.milliseconds[kernel->second] = std::stod(field(row, "milliseconds"));
  }
  return points;
}

int chosen(const std::string& row, const DeviceProperties& gpu) {
  const auto size = [&](const char* name) { return std::stoi(field(row, name)); };
  constexpr int d = 128;
  REQUIRE(size("head_dim") == d);
  DecodeAttention<bfloat16> a{};
  a.batch = size("batch"), a.heads = size("heads"), a.kv_heads = size("kv_heads");
  a.length_q = size("length_q"), a.length_k = size("length_k"), a.head_dim = d;
  a.causal = field(row, "causal") == "true";
  const int page_size = size("page_size");
  const std::int64_t of_row = std::int64_t{a.kv_heads} * d;
  a.q_strides =
      a.o_strides = {a.length_q * std::int64_t{a.heads} * d, std::int64_t{a.length_q} * d, d};
  a.k_strides = a.v_strides = {(page_size > 0 ? page_size : a.length_k) * of_row, d, of_row};
  const int number = 0;  // is not read
  ChunkSequences of{
      a.batch, nullptr, field(row, "lengths_given") == "true" ? &number : nullptr, {}};
  if (page_size > 0) {
    const int most = ceil_div(a.length_k, page_size);
    of.pages = {&number, most, a.batch * most, page_size};
  }
  return decode_kernel<d>(a, of, FA_DECODE_FASTEST, gpu);
}

TEST_CASE("on an H200 fa_decode() takes a kernel within 10 % of the fastest, mostly within 5 %") {
  if (device_properties().compute_capability != 0) return;  // the lab's SMs are set below
  DeviceProperties gpu = gpus::kH100;
  gpu.sm_count = 132, gpu.clock_hz = 1.98e9, gpu.memory_bandwidth = 4.8e12;
  setenv("FA_THREADS", "132", 1);
  REQUIRE(device_properties().sm_count == gpu.sm_count);
  const auto points = points_of_record(FA_RESULTS "/h200_05_serving.json");
  REQUIRE(points.size() >= 60);
  std::size_t close = 0;
  for (const auto& named : points) {
    const TimedPoint& point = named.second;
    const int kernel = chosen(point.row, gpu);
    double least = std::numeric_limits<double>::infinity();
    for (const auto& timed : point.milliseconds) least = std::min(least, timed.second);
    CAPTURE(point.row);
    CAPTURE(kernel);
    REQUIRE(point.milliseconds.count(kernel) == 1);
    const double longer = point.milliseconds.at(kernel) / least;
    CHECK(longer <= 1.10);
    close += longer <= 1.05 ? 1 : 0;
  }
  unsetenv("FA_THREADS");
  CHECK(100 * close >= 95 * points.size());
}

}  // namespace
}  // namespace fa::FA_TARGET
