/// @file
/// What the entries of this lesson share: launches of attention.
#pragma once

#include <vector>

#include "05_flash_forward/exercises/problem.hpp"
#include "common/attention/attention.cuh"
#include "common/classroom/prelude_lab.hpp"

namespace fa::classroom {

/// Launches a kernel in the watched lab.
/// @tparam T  of its tensors
/// @param in  inputs
/// @param go  launches: go(Attention<T>)
template <class T, class Go>
Ran run(const Inputs& in, Go go) {
  using FA_TARGET::DeviceBuffer;
  const Sizes& s = in.sizes;
  Ran result;
  const auto upload = [](DeviceBuffer<T>& buffer,
                         const std::vector<float>& numbers) {
    std::vector<T> typed;
    for (const float x : numbers) typed.push_back(static_cast<T>(x));
    buffer.upload(typed.data());
  };
  result.seen = watch([&] {
    DeviceBuffer<T> q(static_cast<std::int64_t>(in.q.size())),
        k(static_cast<std::int64_t>(in.k.size())),
        v(static_cast<std::int64_t>(in.v.size())), o(q.count());
    DeviceBuffer<float> lse(std::int64_t{s.heads} * s.length_q);
    upload(q, in.q);
    upload(k, in.k);
    upload(v, in.v);
    const std::int64_t d = s.head_dim;
    const FA_TARGET::RowStrides of_q{s.heads * s.length_q * d, s.length_q * d,
                                     d},
        of_k{s.kv_heads * s.length_k * d, s.length_k * d, d};
    FA_TARGET::Attention<T> a = {};
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.q_strides = a.o_strides = of_q;
    a.k_strides = a.v_strides = of_k;
    a.batch = 1;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.length_q = s.length_q;
    a.length_k = s.length_k;
    a.head_dim = s.head_dim;
    a.scale = in.scale;
    a.causal = s.causal;
    go(a);
    std::vector<T> typed(static_cast<std::size_t>(o.count()));
    o.download(typed.data());
    for (const T x : typed) {
      result.rows.o.push_back(static_cast<double>(static_cast<float>(x)));
    }
    result.rows.lse = from_device(lse);
  });
  return result;
}

}  // namespace fa::classroom
