/// @file
/// Lesson 06, ring attention on GPUs: from whole tensors on the host to the rows of each rank, and
/// back.
#pragma once

#include <vector>

#include "06_flash_backward/ring/device_rank.cuh"
#include "06_flash_backward/ring/group.hpp"
#include "06_flash_backward/ring/layout.hpp"
#include "06_flash_backward/src/problem.hpp"
#include "common/tensor/random.hpp"

namespace fa::FA_TARGET {

/// What all ranks have computed.
struct RingResults {
  attention::Outputs outputs;
  backward::Gradients gradients;
};

/// The ring's problem as lessons 05 and 06 have it.
inline attention::Problem attention_problem(const ring::Problem& problem) {
  return attention::problem_of(attention::Type::kBFloat16, problem.shape, problem.causal);
}

/// Which rank of a problem a rank of a group is: all are the only one of a problem for one rank.
inline int rank_of(const ring::Problem& problem, const ring::Group& group) {
  return problem.ranks > 1 ? group.rank() : 0;
}

/// A rank's rows of a whole tensor in bfloat16, without gaps.
inline Tensor<fa::bfloat16, 4> own_rows(const Tensor<float, 4>& whole, const ring::Ranges& ranges) {
  Tensor<float, 4> own({whole.size(0), whole.size(1), ring::rows(ranges), whole.size(3)});
  ring::take_rows<float>(whole, ranges, own.view());
  return converted<fa::bfloat16>(own);
}

/// Copies a rank's rows to its device.
inline void upload(const ring::Problem& problem, const ring::Group& group,
                   const backward::Inputs& in, DeviceRank& rank) {
  const int r = rank_of(problem, group);
  const auto queries = queries_of(problem, r), keys = keys_of(problem, r);
  rank.q.upload(own_rows(in.forward.q, queries).data());
  rank.d_o.upload(own_rows(in.d_o, queries).data());
  const std::size_t bytes = sizeof(bfloat16) * static_cast<std::size_t>(rank.kv.count() / 2);
  device_copy(rank.kv.data(), own_rows(in.forward.k, keys).data(), bytes, CopyKind::kToDevice);
  device_copy(rank.kv.data() + rank.kv.count() / 2, own_rows(in.forward.v, keys).data(), bytes,
              CopyKind::kToDevice);
}

/// A whole tensor from the rows of all ranks, which lie in `own` from `from` on.
/// @param of_keys whether they are rows of keys
template <class T>
Tensor<float, 4> collected(ring::Group& group, const ring::Problem& problem,
                           const DeviceBuffer<T>& own, std::int64_t from, const Shape<4>& shape,
                           bool of_keys) {
  using H = std::conditional_t<std::is_same_v<T, float>, float, fa::bfloat16>;
  const auto ranges_of = [&](int r) {
    return of_keys ? keys_of(problem, r) : queries_of(problem, r);
  };
  const auto shape_of = [&](int r) {
    return Shape<4>{shape[0], shape[1], ring::rows(ranges_of(r)), shape[3]};
  };
  std::vector<std::int64_t> counts;
  for (int r = 0; r < problem.ranks; ++r) counts.push_back(element_count(shape_of(r)));
  Tensor<H, 1> all_own({own.count()});
  own.download(all_own.data());
  const auto count = counts[static_cast<std::size_t>(rank_of(problem, group))];
  std::vector<float> all(all_own.data() + from, all_own.data() + from + count);
  if (problem.ranks > 1) all = group.all_gather(all, counts, "the results of the other ranks");
  Tensor<float, 4> whole(shape);
  poison(whole.view());  // a position that no rank owns fails every check
  const float* next = all.data();
  for (int r = 0; r < problem.ranks; ++r) {
    ring::put_rows<float>(View<const float, 4>(next, shape_of(r)), ranges_of(r), whole.view());
    next += counts[static_cast<std::size_t>(r)];
  }
  return whole;
}

/// Computes a problem on all ranks; each gets the whole result.
/// @tparam Links as DeviceRank has them, and synchronize(stream)
template <class Links>
RingResults ring_results(ring::Group& group, Links& links, const ring::Problem& problem,
                         const backward::Inputs& in) {
  DeviceRank rank(problem, rank_of(problem, group));
  upload(problem, group, in, rank);
  const Stream stream;
  rank.forward(links, stream);
  rank.backward(links, stream);
  links.synchronize(stream);
  const AttentionShape& s = problem.shape;
  const Shape<4> of_q{s.batch, s.heads, s.length_q, s.head_dim},
      of_k{s.batch, s.kv_heads, s.length_k, s.head_dim};
  const auto of_queries = [&](const auto& own) {
    return collected(group, problem, own, 0, of_q, false);
  };
  const std::int64_t v = rank.d_kv.count() / 2;
  const auto lse = collected(group, problem, rank.lse, 0, {s.batch, s.heads, s.length_q, 1}, false);
  RingResults results{{of_queries(rank.o), Tensor<float, 3>({s.batch, s.heads, s.length_q})},
                      {of_queries(rank.d_q), collected(group, problem, rank.d_kv, 0, of_k, true),
                       collected(group, problem, rank.d_kv, v, of_k, true)}};
  std::copy_n(lse.data(), lse.count(), results.outputs.lse.data());
  return results;
}

}  // namespace fa::FA_TARGET
