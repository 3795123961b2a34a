/// @file
/// The paged cache of a model that generates text, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"
#include "05_flash_forward/src/generate.hpp"
#include "common/attention/host/device_tensor.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// clang-format off
// Elements lie as [layer, page, token of the page, head, column], in float16.
class PagedCacheOnDevice final : public flash::decode::PagedCache {
 public:
  explicit PagedCacheOnDevice(const flash::decode::CacheSize& size)
      : size_(size),
        k_(size.layers * pages() * size.page_size * width()), v_(k_.count()),
        table_(static_cast<std::size_t>(pages()), -1),
        lengths_(static_cast<std::size_t>(size.sequences), 0),
        device_table_(pages()), device_lengths_(size.sequences) {}

  //! [extend]
  void extend(int first, int sequences, int tokens) override {
    first_ = first, sequences_ = sequences, tokens_ = tokens;
    for (int b = first; b < first + sequences; ++b) {
      for (int i = 0; i < tokens; ++i) {
        const int place = lengths_.at(b)++;
        if (place >= size_.length) {
          throw std::invalid_argument(fmt::format(
              "a sequence of {} tokens in a cache for {}", place + 1,
              size_.length));
        }
        if (place % size_.page_size == 0) page_of(b, place) = next_page_++;
      }
    }
    device_table_.upload(table_.data());
    device_lengths_.upload(lengths_.data());
  }
  //! [extend]

  //! [attend]
  Matrix<float> attend(std::int64_t layer, const Matrix<float>& q,
                       const Matrix<float>& k,
                       const Matrix<float>& v) override {
    const auto k_rows = rounded(k), v_rows = rounded(v);
    half* const k_layer = k_.data() + layer * k_.count() / size_.layers;
    half* const v_layer = v_.data() + layer * v_.count() / size_.layers;
    for (int i = 0; i < sequences_ * tokens_; ++i) {
      const int b = first_ + i / tokens_;
      const int place = lengths_[b] - tokens_ + i % tokens_;
      const std::int64_t row = std::int64_t{page_of(b, place)} *
                                   size_.page_size + place % size_.page_size;
      for (const auto& [layer_of, rows] : {std::pair(k_layer, &k_rows),
                                           std::pair(v_layer, &v_rows)}) {
        device_copy(layer_of + row * width(), &(*rows)(i, 0),
                    sizeof(half) * static_cast<std::size_t>(width()),
                    CopyKind::kToDevice);
      }
    }
    const DeviceBuffer<half> queries(rounded(q));
    DeviceBuffer<half> o(q.size());
    DeviceBuffer<float> lse(q.rows() * size_.heads);
    attention::Problem problem = attention::problem_of(
        attention::Type::kFloat16,
        {sequences_, size_.heads, size_.heads, tokens_, size_.length,
         size_.head_dim}, true);
    problem.layout = attention::Layout::kLengthFirst;
    auto a = attention_of<half>(problem);
    a.q = queries.data(), a.k = k_layer, a.v = v_layer;
    a.o = o.data(), a.lse = lse.data();
    a.k_strides.batch = a.v_strides.batch = size_.page_size * width();
    const DecodeWorkspaceSize floats = even_tiles_workspace<kColumns>(a);
    DeviceBuffer<float> states(floats.states);
    DeviceBuffer<unsigned> counters(floats.counters);
    counters.zero();
    launch_paged_kv<kColumns>(
        a, device_lengths_.data() + first_,
        {device_table_.data() + first_ * size_.most_pages(),
         size_.most_pages(), pages(), size_.page_size},
        Stream::of(nullptr), {states.data(), counters.data()});
    const auto result =
        converted<float>(o.tensor<fa::half, 2>({q.rows(), q.cols()}));
    return as_matrix(result.view());
  }
  //! [attend]

  std::vector<int> pages_of(int sequence) const override {
    const auto first = table_.begin() + sequence * size_.most_pages();
    return {first, std::find(first, first + size_.most_pages(), -1)};
  }

 private:
  static constexpr int kColumns = 64;  // of the kernel's tiles, head_dim at least
  static Tensor<fa::half, 2> rounded(const Matrix<float>& rows) {
    return converted<fa::half>(View<const float, 2>(rows.data(), {rows.rows(), rows.cols()}));
  }
  int pages() const { return size_.sequences * size_.most_pages(); }
  std::int64_t width() const { return size_.heads * size_.head_dim; }
  int& page_of(int sequence, int place) {
    return table_[sequence * size_.most_pages() + place / size_.page_size];
  }

  flash::decode::CacheSize size_;
  DeviceBuffer<half> k_, v_;
  std::vector<int> table_, lengths_;  // [sequences, most pages]; [sequences]
  DeviceBuffer<int> device_table_, device_lengths_;
  int next_page_ = 0;                            // pages before it are taken
  int first_ = 0, sequences_ = 0, tokens_ = 0;  // of the last extend()
};
// clang-format on

}  // namespace
}  // namespace fa::FA_TARGET
