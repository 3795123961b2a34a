/// @file
/// What the entries of this lesson share: launches of attention.
#pragma once

#include <functional>
#include <vector>

#include "05_flash_forward/exercises/problem.hpp"
#include "common/attention/attention.cuh"
#include "common/classroom/launches.hpp"

namespace fa::classroom {

/// Launches a kernel in the watched lab.
/// @param go  launches it
template <class T>
Ran run(const Inputs& in, const std::function<void(const FA_TARGET::Attention<T>&)>& go) {
  using FA_TARGET::DeviceBuffer;
  const Sizes& s = in.sizes;
  Ran result;
  const std::int64_t d = s.head_dim;
  const auto strides = [&](int heads, int length, int gaps) {
    const std::int64_t row = d + gaps * in.gap;
    return FA_TARGET::RowStrides{heads * length * row, length * row, row};
  };
  // What lies between the rows is not a number.
  const auto upload = [&](const std::vector<float>& numbers, const FA_TARGET::RowStrides& to) {
    std::vector<T> typed(numbers.size() / d * to.row, static_cast<T>(NAN));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      typed[i / d * to.row + i % d] = static_cast<T>(numbers[i]);
    }
    DeviceBuffer<T> buffer(static_cast<std::int64_t>(typed.size()));
    buffer.upload(typed.data());
    return buffer;
  };
  result.seen = watch([&] {
    FA_TARGET::Attention<T> a = {};
    a.q_strides = strides(s.heads, s.length_q, 1);
    a.k_strides = strides(s.kv_heads, s.length_k, 2);
    a.v_strides = strides(s.kv_heads, s.length_k, 3);
    a.o_strides = strides(s.heads, s.length_q, 4);
    const auto q = upload(in.q, a.q_strides), k = upload(in.k, a.k_strides),
               v = upload(in.v, a.v_strides);
    DeviceBuffer<T> o(a.o_strides.batch);
    DeviceBuffer<float> lse(std::int64_t{s.heads} * s.length_q);
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.batch = 1;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.length_q = s.length_q;
    a.length_k = s.length_k;
    a.head_dim = a.head_dim_v = s.head_dim;
    a.scale = in.scale;
    a.causal = s.causal;
    go(a);
    std::vector<T> typed(static_cast<std::size_t>(o.count()));
    o.download(typed.data());
    for (std::size_t i = 0; i < in.q.size(); ++i) {
      const T x = typed[i / d * a.o_strides.row + i % d];
      result.rows.o.push_back(static_cast<double>(static_cast<float>(x)));
    }
    result.rows.lse = from_device(lse);
  });
  return result;
}

}  // namespace fa::classroom
