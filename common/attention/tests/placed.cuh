/// @file
/// What the tests of C interfaces share: tensors in memory of the device, in any layout, problems
/// as an interface gets them, and which problems those are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "common/attention/host/device_tensor.cuh"
#include "common/attention/packed.cuh"
#include "common/attention/tests/problems.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each test program includes this

// A tensor in memory of the device, in any layout.
template <class H>
struct Placed {
  Placed(const Shape<4>& of, attention::Layout layout, std::int64_t row_pitch)
      : shape(of),
        pitch(row_pitch),
        strides(strides_of(of, layout, pitch)),
        host({of[0] * of[1] * of[2] * pitch}),
        device(host.count()) {
    // What lies between rows is NaN, of inputs as well.
    std::memset(static_cast<void*>(host.data()), 0xff,
                sizeof(H) * static_cast<std::size_t>(host.count()));
  }
  View<H, 4> elements() {
    return {host.data(), shape, {strides.batch, strides.head, strides.row, 1}};
  }
  void write(const Tensor<float, 4>& values) {
    copy(values.view(), elements());
    device.upload(host.data());
  }
  Tensor<float, 4> read() {
    device.download(host.data());
    return converted<float>(elements());
  }
  // Whether the elements between rows, in what read() has got, are as they were: all bytes 0xff.
  // Only a byte of each is looked at, because arithmetic may change a NaN.
  bool gaps_are_poison() const {
    for (std::int64_t i = 0; i < host.count(); ++i) {
      std::uint8_t byte = 0;
      std::memcpy(&byte, host.data() + i, sizeof byte);
      if (i % pitch >= shape[3] && byte != 0xff) return false;
    }
    return true;
  }
  // Tells a C interface where it lies.
  template <class Pointer, class Strides>
  void give(Pointer& pointer, Strides& to) {
    pointer = device.data();
    to = {strides.batch, strides.head, strides.row};
  }
  Shape<4> shape;
  std::int64_t pitch;
  RowStrides strides;
  Tensor<H, 1> host;
  DeviceBuffer<H> device;
};

// Throws where a result is not what it must be.
inline void require(bool holds, const char* otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}
// What a call wrote; between rows it must have written nothing.
template <class H>
Tensor<float, 4> read(Placed<H>& placed) {
  Tensor<float, 4> values = placed.read();
  require(placed.gaps_are_poison(), "it wrote between rows");
  return values;
}
using Verdicts = std::vector<Verdict>;
inline void append(Verdicts& to, const Verdicts& more) {
  to.insert(to.end(), more.begin(), more.end());
}
// The type whose elements the host has as H.
template <class H>
attention::Type type_of() {
  return std::is_same_v<H, float>      ? attention::Type::kFloat32
         : std::is_same_v<H, fa::half> ? attention::Type::kFloat16
                                       : attention::Type::kBFloat16;
}

// Sizes, type and options of a problem for a C interface: all but pointers, strides and the stream.
template <class Given>
Given given_attention(const attention::Problem& problem) {
  const AttentionShape& s = problem.shape;
  Given a{};
  a.size = sizeof a;
  a.batch = s.batch;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.length_q = s.length_q;
  a.length_k = s.length_k;
  a.head_dim = s.head_dim;
  a.head_dim_v = problem.columns_v();
  a.type = static_cast<decltype(a.type)>(problem.type);  // the same numbers
  a.causal = problem.causal ? 1 : 0;
  a.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  a.dropout = problem.dropout;
  a.seed = problem.seed;
  return a;
}

// The same attention for kernels.
template <class T, class Given>
Attention<T> kernels_attention(const attention::Problem& problem, const Given& given) {
  const auto strides = [](const auto& s) { return RowStrides{s.batch, s.head, s.row}; };
  Attention<T> a = attention_of<T>(problem);
  a.q = static_cast<const T*>(given.q), a.q_strides = strides(given.q_strides);
  a.k = static_cast<const T*>(given.k), a.k_strides = strides(given.k_strides);
  a.v = static_cast<const T*>(given.v), a.v_strides = strides(given.v_strides);
  a.o = static_cast<T*>(given.o), a.o_strides = strides(given.o_strides);
  a.lse = given.lse;
  return a;
}

// A forward pass with its tensors in memory of the device: q, k, v, o and LSE. Each has a distance
// of its own between rows, and no kernel writes to what lies between rows of o.
template <class H, class Given>
struct PlacedForward {
  explicit PlacedForward(const attention::Problem& problem, std::int64_t gap = 8)
      : q(problem.shape_of_q(), problem.layout, problem.shape.head_dim + gap),
        k(problem.shape_of_kv(), problem.layout, problem.shape.head_dim + 2 * gap),
        v(problem.shape_of_v(), attention::Layout::kHeadsFirst, problem.columns_v() + gap),
        o(problem.shape_of_o(), problem.layout, problem.columns_v() + 3 * gap),
        lse(problem.shape.batch * problem.shape.heads * problem.shape.length_q),
        given(given_attention<Given>(problem)) {
    q.give(given.q, given.q_strides);
    k.give(given.k, given.k_strides);
    v.give(given.v, given.v_strides);
    o.give(given.o, given.o_strides);
    given.lse = lse.data();
  }
  void write(const attention::Inputs& in) {
    q.write(in.q);
    k.write(in.k);
    v.write(in.v);
  }
  attention::Outputs read() {
    return {FA_TARGET::read(o),
            lse.template tensor<float, 3>({o.shape[0], o.shape[1], o.shape[2]})};
  }
  Placed<H> q, k, v, o;
  DeviceBuffer<float> lse;
  Given given;
};

// Calls check(problem, gap), where `gap` elements lie between rows, for problems with the head
// dimensions of MLA: odd lengths, groups of heads, with and without dropout, in both layouts.
template <class Check>
void check_mla(Check check) {
#if defined(__CUDACC__)
  const AttentionShape shape{2, 4, 2, 67, 133, kMlaHeadDim};
#else
  const AttentionShape shape{1, 2, 1, 9, 19, kMlaHeadDim};
#endif
  for (const attention::Type type : attention::kTypes) {
    for (const bool causal : {false, true}) {
      attention::Problem problem = attention::problem_of(type, shape, causal);
      problem.head_dim_v = kMlaHeadDimV;
      check(problem, 0);
      problem.layout = attention::Layout::kLengthFirst;
      check(problem, 8);
      problem.dropout = 0.17;
      problem.seed = 7;
      check(problem, 0);
    }
  }
}

using Lengths = std::vector<std::int32_t>;

// Lengths of queries and of keys.
struct PackedLengths {
  Lengths q, k;
};

// Sequences that are empty, of one token, with other lengths of keys, around tiles' edges; the last
// one ends with a tile.
inline PackedLengths odd_lengths() {
  return {{70, 0, 1, 129, 3, 0, 128}, {70, 5, 1, 40, 0, 0, 200}};
}

inline Lengths running_sum(const Lengths& lengths) {
  Lengths sums{0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

// Tensors [1, heads, length, columns] of all sequences, one behind another: [tokens, heads,
// columns], with NaN between the rows.
template <class H>
struct PackedOf : Placed<H> {
  PackedOf(const Lengths& lengths, std::int64_t heads, std::int64_t columns)
      : Placed<H>({1, heads, std::max(1, running_sum(lengths).back()), columns},
                  attention::Layout::kLengthFirst, columns + 8),
        begins(running_sum(lengths)) {}
  // Those without elements become zeros.
  void write(const std::vector<Tensor<float, 4>>& sequences) {
    Tensor<float, 4> all(this->shape);
    std::fill_n(all.data(), all.count(), 0.0f);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (sequences[i].count() > 0) {
        copy(sequences[i].view(), all.view().narrow(2, begins[i], begins[i + 1]));
      }
    }
    Placed<H>::write(all);
  }
  Tensor<float, 4> sequence(const Tensor<float, 4>& all, std::size_t i) const {
    return converted<float>(all.view().narrow(2, begins[i], begins[i + 1]));
  }
  Lengths begins;
};

// What a call on packed sequences has beside its tensors.
template <class GivenPacked>
struct PackedList {
  PackedList(const AttentionShape& shape, bool causal, const PackedLengths& lengths,
             attention::Type type)
      : cu_q(static_cast<std::int64_t>(lengths.q.size()) + 1), cu_k(cu_q.count()) {
    for (std::size_t i = 0; i < lengths.q.size(); ++i) {
      AttentionShape own = shape;
      own.length_q = lengths.q[i], own.length_k = lengths.k[i];
      problems.push_back(attention::problem_of(type, own, causal));
    }
    set_cu_seqlens(running_sum(lengths.q), running_sum(lengths.k));
    packed.size = sizeof packed;
    packed.cu_seqlens_q = cu_q.data();
    packed.cu_seqlens_k = cu_k.data();
    packed.sequences = static_cast<std::int64_t>(problems.size());
  }
  void set_cu_seqlens(const Lengths& q, const Lengths& k) {
    cu_q.upload(q.data());
    cu_k.upload(k.data());
  }
  // All of them as one problem.
  attention::Problem all(std::int64_t tokens_q, std::int64_t tokens_k) const {
    attention::Problem result = problems.front();
    result.shape.length_q = tokens_q, result.shape.length_k = tokens_k;
    return result;
  }
  // For kernels.
  PackedSequences sequences(const attention::Problem& of) const {
    const auto count = static_cast<int>(problems.size());
    return {{cu_q.data(), count, static_cast<int>(of.shape.length_q)},
            {cu_k.data(), count, static_cast<int>(of.shape.length_k)}};
  }
  std::vector<attention::Problem> problems;
  GivenPacked packed{};
  DeviceBuffer<std::int32_t> cu_q, cu_k;
  std::size_t poisoned =
      std::numeric_limits<std::size_t>::max();  // the sequence that is not checked
};

// Writes cu_seqlens of three sequences, now these and now those.
[[maybe_unused]] __global__ void keep_changing(std::int32_t* cu_q, std::int32_t* cu_k, int tokens,
                                               int times) {
  for (int i = 0; i < times; ++i) {
    const int middle[2] = {i % 2 == 0 ? tokens / 2 : 10,
                           i % 2 == 0 ? tokens / 2 + 20 : tokens - 10};
    for (volatile std::int32_t* cu_seqlens : {cu_q, cu_k}) {
      cu_seqlens[1] = middle[0];
      cu_seqlens[2] = middle[1];
    }
    __threadfence();
  }
}
// Makes a call on three sequences again and again while their lengths change (in the lab, where
// kernels run one after the other, between calls), then once more, and checks that result.
template <class Call>
void check_while_lengths_change(Call& call) {
  const int tokens = static_cast<int>(call.whole().shape.length_q);
#if defined(__CUDACC__)
  const int changes = 200000, calls = 300;
#else
  const int changes = 1, calls = 1;
#endif
  const Stream stream;
  launch(stream, keep_changing, {{1}, {1}}, call.cu_q.data(), call.cu_k.data(), tokens, changes);
  for (int i = 0; i < calls; ++i) REQUIRE(call.says() == "");
  stream.synchronize();
  Lengths first{0};
  for (const auto& problem : call.problems) {
    first.push_back(first.back() + static_cast<int>(problem.shape.length_q));
  }
  call.set_cu_seqlens(first, first);
  REQUIRE(call.says() == "");
  call.check();
}
inline bool is_empty(const attention::Problem& problem) {
  return problem.shape.length_q == 0 || problem.shape.length_k == 0;
}

// Whether all elements of a tensor are a value.
template <int rank>
bool all_are(const Tensor<float, rank>& tensor, float value) {
  return std::all_of(tensor.data(), tensor.data() + tensor.count(),
                     [=](float x) { return x == value; });
}

}  // namespace
}  // namespace fa::FA_TARGET
