#include "05_flash_forward/exercises/tile_kinds.hpp"
#include "06_flash_backward/exercises/plain.hpp"
#include "06_flash_backward/kernels/workspace.cuh"
#include "common/classroom/prelude_lab.hpp"
#include "student/score_functor.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

namespace {

CappedDilated dilated(const Mask& m) {
  return CappedDilated(1, m.reach, m.length_k - m.length_q);
}

DeviceBuffer<half> uploaded(const std::vector<double>& numbers) {
  std::vector<half> typed;
  for (const double x : numbers) typed.push_back(static_cast<half>(static_cast<float>(x)));
  DeviceBuffer<half> buffer(static_cast<std::int64_t>(typed.size()));
  buffer.upload(typed.data());
  return buffer;
}

std::vector<double> downloaded(const DeviceBuffer<half>& buffer) {
  std::vector<half> typed(static_cast<std::size_t>(buffer.count()));
  buffer.download(typed.data());
  std::vector<double> result;
  for (const half x : typed) result.push_back(static_cast<double>(static_cast<float>(x)));
  return result;
}

}  // namespace

FA_ENTRY(pairs, [](const Mask& m) { return visible_pairs(m, dilated(m)); });
FA_ENTRY(kinds, [](const Mask& m) {
  if (CappedDilated::needs_map) fail("this mask needs no map: a rule says which tiles it skips");
  return tile_kinds(m, dilated(m));
});
FA_ENTRY(changes_scores, [] { return bool{CappedDilated::changes_scores}; });
// The changed score and the derivative, in float64.
FA_ENTRY(score, [](double s, double cap) {
  const CappedDilated functor(static_cast<float>(cap), 1, 0);
  return std::pair(double{functor.score(s, 0, 0, 0, 0)}, double{functor.derivative(s, 0, 0, 0, 0)});
});

// Forward and then backward: O, LSE, dQ, dK, dV.
FA_ENTRY(run, [](const fa::backward::plain::Problem& x, double cap, int reach) {
  std::pair<Seen, std::vector<std::vector<double>>> result;
  result.first = watch([&] {
    const auto q = uploaded(x.q), k = uploaded(x.k), v = uploaded(x.v), d_o = uploaded(x.d_o);
    DeviceBuffer<half> o(q.count()), d_q(q.count()), d_k(k.count()), d_v(k.count());
    DeviceBuffer<float> lse(std::int64_t{x.heads} * x.length_q);
    const std::int64_t d = x.head_dim;
    AttentionGradient<half> a = {};
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.d_o = d_o.data();
    a.d_q = d_q.data();
    a.d_k = d_k.data();
    a.d_v = d_v.data();
    a.q_strides = {x.heads * x.length_q * d, x.length_q * d, d};
    a.k_strides = {x.length_k * d, x.length_k * d, d};
    a.v_strides = a.d_k_strides = a.d_v_strides = a.k_strides;
    a.o_strides = a.d_o_strides = a.d_q_strides = a.q_strides;
    a.batch = 1;
    a.heads = x.heads;
    a.kv_heads = 1;
    a.length_q = x.length_q;
    a.length_k = x.length_k;
    a.head_dim = a.head_dim_v = x.head_dim;
    a.scale = static_cast<float>(x.scale);
    const CappedDilated functor(static_cast<float>(cap), reach, x.length_k - x.length_q);
    using Tile = ForwardTile<32, 32, 2, 32>;
    launch(flash_score_functor<Tile, half, CappedDilated>,
           {grid_of(a, Tile::block_m), {Tile::threads}, pipeline_bytes<Tile, half>()},
           static_cast<const Attention<half>&>(a), functor);
    const Workspace workspace{64};
    DeviceBuffer<float> floats(workspace_floats(a, workspace));
    set_workspace(a, floats.data(), workspace);
    launch_backward_score_functor<64>(a, functor, Stream{}, nullptr);
    result.second = {downloaded(o), from_device(lse), downloaded(d_q), downloaded(d_k),
                     downloaded(d_v)};
  });
  return result;
});
