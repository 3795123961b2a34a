#include "06_flash_backward/exercises/plain.hpp"
#include "common/classroom/prelude_cpu.hpp"
#include "student/one_tile.hpp"

namespace plain = fa::backward::plain;
using M = fa::Matrix<double>;
using Numbers = std::vector<double>;

FA_ENTRY(recompute, [](const plain::Problem& x, const Numbers& lse, const Numbers& delta,
                       const std::vector<std::uint8_t>& keep, double factor,
                       const student::Range& queries, const student::Range& keys, const M& s,
                       const M& d_o_v) {
  const auto rows = [&](const Numbers& from, int length) {
    return fa::View<const double, 2>(from.data(), {length, x.head_dim});
  };
  const student::Head<double> head{
      rows(x.q, x.length_q),
      rows(x.k, x.length_k),
      rows(x.v, x.length_k),
      rows(x.d_o, x.length_q),
      fa::View<const double, 1>(lse.data(), {x.length_q}),
      fa::View<const double, 1>(delta.data(), {x.length_q}),
      keep.empty() ? fa::View<const std::uint8_t, 2>()
                   : fa::View<const std::uint8_t, 2>(keep.data(), {x.length_q, x.length_k}),
      x.scale,
      factor,
      x.causal};
  const auto tile = student::recompute<double>(head, queries, keys, s, d_o_v);
  return std::pair(M(tile.p_kept), M(tile.d_s));
});
