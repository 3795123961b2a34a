/// @file
/// The ladder of decode kernels as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include <limits>
#include <numeric>
#include <random>

#include "05_flash_forward/src/decode.hpp"
#include "common/attention/host/step_row.cuh"
#include "steps/decode.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

using flash::decode::DecodeInputs;

// A cache on the device, [batch, kv_heads, length_k, head_dim]; NaN beyond each sequence's length,
// if the kernel is given lengths. With lengths of queries these are packed.
template <class T>
struct DecodeOnDevice {
  struct Tensors : DecodeAttention<T> {
    const int* lengths_k = nullptr;
    PagedKv pages{};
    ChunkSequences sequences{};  // with the same pages and lengths
  };

  DecodeOnDevice(const Problem& problem, const DecodeInputs& in)
      : DecodeOnDevice(problem, in, problem.shape_of_kv(), with_end(in.k, in.lengths_k),
                       with_end(in.v, in.lengths_k)) {}
  attention::Outputs result() const {
    attention::Outputs all{o.host(), lse.template tensor<float, 3>({shape[0], shape[1], shape[2]})};
    return lengths_q.empty() ? all : flash::decode::unpacked(all, lengths_q, length_q);
  }

  std::vector<std::int32_t> lengths_q;
  std::int64_t length_q;
  Shape<4> shape;              // of o
  DeviceTensor<T> q, k, v, o;  // in the problem's layout
  DeviceBuffer<float> lse;     // [batch, heads, length_q]
  DeviceBuffer<float> sinks;
  DeviceBuffer<std::uint32_t> tree;
  DeviceBuffer<int> lengths, cu_seqlens_q;
  Tensors a;

 protected:
  DecodeOnDevice(const Problem& problem, const DecodeInputs& in, const Shape<4>& of_cache,
                 const Tensor<float, 4>& k_cache, const Tensor<float, 4>& v_cache)
      : lengths_q(in.lengths_q),
        length_q(problem.shape.length_q),
        shape(rows_of(problem.shape_of_o())),
        q(lengths_q.empty() ? in.q : flash::decode::packed_rows(in.q, lengths_q),
          rows_of(problem.shape_of_q()), problem.layout),
        k(k_cache, of_cache, problem.layout),
        v(v_cache, of_cache, problem.layout),
        o(shape, problem.layout),
        lse(shape[0] * shape[1] * shape[2]),
        sinks(static_cast<std::int64_t>(in.sinks.size())),
        tree(static_cast<std::int64_t>(in.tree.size())),
        lengths(std::max<std::int64_t>(1, static_cast<std::int64_t>(in.lengths_k.size()))),
        cu_seqlens_q(problem.shape.batch + 1) {
    static_cast<Attention<T>&>(a) = attention_of<T>(problem);
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.k_strides = k.strides();
    a.v_strides = v.strides();
    a.window = in.window, a.part_keys = in.part_keys;
    a.causal = a.causal || a.window > 0;
    if (!in.sinks.empty()) sinks.upload(in.sinks.data()), a.sinks = sinks.data();
    if (!in.tree.empty()) tree.upload(in.tree.data()), a.tree = tree.data();
    a.sequences.count = a.batch;
    a.sequences.parts = in.parts;
    if (!in.lengths_k.empty()) {
      lengths.upload(in.lengths_k.data());
      a.sequences.lengths_k = a.lengths_k = lengths.data();
    }
    if (lengths_q.empty()) return;
    std::vector<std::int32_t> begins(lengths_q.size() + 1);
    std::partial_sum(lengths_q.begin(), lengths_q.end(), begins.begin() + 1);
    cu_seqlens_q.upload(begins.data());
    a.sequences.cu_seqlens_q = cu_seqlens_q.data();
    a.batch = 1;
    a.length_q = begins.back();
    a.q_strides = q.strides();
    a.o_strides = o.strides();
  }
  // The shape of Q or O, packed or not.
  Shape<4> rows_of(Shape<4> of_batch) const {
    if (lengths_q.empty()) return of_batch;
    return {1, of_batch[1], std::accumulate(lengths_q.begin(), lengths_q.end(), std::int64_t{0}),
            of_batch[3]};
  }
  static Tensor<float, 4> with_end(Tensor<float, 4> cache,
                                   const std::vector<std::int32_t>& lengths_k) {
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(lengths_k.size()); ++b) {
      const std::int64_t length = std::max(0, lengths_k[static_cast<std::size_t>(b)]);
      if (length >= cache.size(2)) continue;
      const auto beyond = cache.view().narrow(0, b, b + 1).narrow(2, length, cache.size(2));
      for_each_index(beyond.shape(), [&](const Shape<4>& at) {
        beyond[at] = std::numeric_limits<float>::quiet_NaN();
      });
    }
    return cache;
  }
};

// The same cache in pages, if they have a size, which lie in random order; NaN in two pages that no sequence has. Where
// one head of one sequence stands for all of them, its first page stands for all pages.
template <class T>
struct PagedOnDevice : DecodeOnDevice<T> {
  PagedOnDevice(const Problem& problem, const DecodeInputs& in)
      : PagedOnDevice(problem, in, pages_of(problem, in)) {}

 private:
  using Pages = std::vector<std::int32_t>;
  static std::int64_t most_pages(const Problem& problem, const DecodeInputs& in) {
    return ceil_div<std::int64_t>(problem.shape.length_k, in.page_size);
  }
  // The page of each sequence and place, [batch, most_pages].
  static Pages pages_of(const Problem& problem, const DecodeInputs& in) {
    if (in.page_size == 0) return {};
    Pages all(static_cast<std::size_t>(problem.shape.batch * most_pages(problem, in) + 2));
    std::iota(all.begin(), all.end(), 0);
    std::mt19937 random(7);
    for (std::size_t i = all.size() - 1; i > 0; --i) std::swap(all[i], all[random() % (i + 1)]);
    return all;
  }
  static Tensor<float, 4> paged(const Problem& problem, const DecodeInputs& in, const Pages& pages,
                                const Tensor<float, 4>& rows) {
    if (pages.empty()) return DecodeOnDevice<T>::with_end(rows, in.lengths_k);
    const std::int64_t most = most_pages(problem, in), batch = rows.size(0), heads = rows.size(1);
    const Shape<4> of_all = problem.shape_of_kv();
    const std::int64_t columns = of_all[3];
    if (batch * heads < of_all[0] * of_all[1]) {
      Tensor<float, 4> page({1, 1, in.page_size, columns});
      std::copy_n(rows.data(), page.count(), page.data());
      return page;
    }
    const auto count = static_cast<std::int64_t>(pages.size());
    Tensor<float, 4> cache({count, of_all[1], in.page_size, columns});
    std::fill_n(cache.data(), cache.count(), std::numeric_limits<float>::quiet_NaN());
    for_each_index(Shape<3>{of_all[0], of_all[1], of_all[2]}, [&](const Shape<3>& at) {
      const auto [b, h, j] = at;
      const auto length =
          in.lengths_k.empty() ? of_all[2] : in.lengths_k[static_cast<std::size_t>(b)];
      if (j >= length) return;
      const auto page = static_cast<std::size_t>(b * most + j / in.page_size);
      std::copy_n(&rows(b, h, j, 0), columns, &cache(pages[page], h, j % in.page_size, 0));
    });
    return cache;
  }
  PagedOnDevice(const Problem& problem, const DecodeInputs& in, const Pages& pages)
      : DecodeOnDevice<T>(
            problem, in,
            pages.empty() ? problem.shape_of_kv()
                          : Shape<4>{static_cast<std::int64_t>(pages.size()),
                                     problem.shape.kv_heads, in.page_size, problem.shape.head_dim},
            paged(problem, in, pages, in.k), paged(problem, in, pages, in.v)),
        table(std::max<std::int64_t>(1, static_cast<std::int64_t>(pages.size()))) {
    if (pages.empty()) return;
    table.upload(pages.data());
    this->a.pages = {table.data(), static_cast<int>(most_pages(problem, in)),
                     static_cast<int>(pages.size()), in.page_size};
    this->a.sequences.pages = this->a.pages;
  }

  DeviceBuffer<int> table;
};

struct DecodeRow : RowMaker<flash::decode::LadderStep, DecodeOnDevice> {
  // For a cache in pages.
  auto paged() const { return RowMaker<flash::decode::LadderStep, PagedOnDevice>{}; }
};

}  // namespace

/// A backend with the decode kernels.
static flash::decode::Backend backend(const std::string& kind) {
  return backend_with<flash::decode::Backend>(
      kind, ladder_of<kDecodeSteps>([](auto number) { return decode_step(number, DecodeRow{}); }));
}

}  // namespace fa::FA_TARGET
