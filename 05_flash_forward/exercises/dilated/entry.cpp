#include "05_flash_forward/exercises/attention.hpp"
#include "05_flash_forward/exercises/tile_kinds.hpp"
#include "common/classroom/prelude_lab.hpp"
#include "student/dilated.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(pairs,
         [](const Mask& m) { return visible_pairs(m, Dilated(m.reach, m.length_k - m.length_q)); });
FA_ENTRY(kinds, [](const Mask& m) {
  if (Dilated::needs_map) fail("this mask needs no map: a rule says which tiles it skips");
  return tile_kinds(m, Dilated(m.reach, m.length_k - m.length_q));
});

// 32 queries in two warps and 16 keys.
FA_ENTRY(run, [](const Inputs& in, int reach) {
  using Tile = ForwardTile<32, 16, 2, 16>;
  return run<half>(in, [=](const Attention<half>& a) {
    const Dilated functor(reach, a.length_k - a.length_q);
    with_tile_kinds<Tile::block_m, Tile::block_n>(
        a, functor, nullptr, Stream{}, [&](const auto& with_kinds) {
          launch(flash_score_functor<Tile, half, std::decay_t<decltype(with_kinds)>>,
                 {grid_of(a, Tile::block_m), {Tile::threads}, pipeline_bytes<Tile, half>()}, a,
                 with_kinds);
        });
  });
});
