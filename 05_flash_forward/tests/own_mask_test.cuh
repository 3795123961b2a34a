// A mask that is not in the list of functors, as chapter 9 writes it: its rule for tiles against
// its definition, and the kernel with it against plain loops. Compiled for the lab and for the GPU.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/kernels/functors/01_score_functor.cuh"
#include "common/tensor/random.hpp"

namespace fa::FA_TARGET {
namespace {

// clang-format off
//! [first_and_window]
/// The first tokens, and a window that ends at the query's place.
struct FirstAndWindow : PlainScores {
  int first, window, shift;

  FirstAndWindow(int the_first, int the_window, int the_shift)
      : first(the_first), window(the_window), shift(the_shift) {}
  __host__ __device__ bool visible(int, int, int query, int key) const {
    const int place = query + shift;
    return key <= place && (key < first || place - key < window);
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    const int place0 = t.first_query + shift, place1 = t.last_query + shift;
    const bool later = t.first_key > place1;
    const bool left_behind = place0 - t.last_key >= window;
    if (later || (t.first_key >= first && left_behind)) {
      return TileKind::kSkipped;
    }
    const bool in_window = place1 - t.first_key < window;
    return t.last_key <= place0 && (t.last_key < first || in_window)
               ? TileKind::kWhole
               : TileKind::kPartial;
  }
};
//! [first_and_window]
// clang-format on

// The mask in other words.
bool sees(const FirstAndWindow& f, int query, int key) {
  const int place = query + f.shift;
  return key <= place && (key < f.first || key > place - f.window);
}

struct Lengths {
  int q, k;
};
constexpr Lengths kLengths[] = {{200, 200}, {130, 257}, {257, 130}, {1, 90}};

// O and LSE of one head by the formulas.
void check_attention(const FirstAndWindow& f, const Lengths& lengths) {
  constexpr int d = 64;
  const auto values = [](int rows, std::uint64_t seed) {
    std::vector<half> result;
    for (int i = 0; i < rows * d; ++i) {
      result.push_back(
          half(static_cast<float>(random_normal(seed, static_cast<std::uint64_t>(i)))));
    }
    return result;
  };
  const auto q = values(lengths.q, 1), k = values(lengths.k, 2), v = values(lengths.k, 3);
  const auto copied = [](const std::vector<half>& from) {
    DeviceBuffer<half> to(static_cast<std::int64_t>(from.size()));
    to.upload(from.data());
    return to;
  };
  const auto q_buffer = copied(q), k_buffer = copied(k), v_buffer = copied(v);
  DeviceBuffer<half> o_buffer(q_buffer.count());
  DeviceBuffer<float> lse_buffer(lengths.q);
  Attention<half> a{};
  a.q = q_buffer.data();
  a.k = k_buffer.data();
  a.v = v_buffer.data();
  a.o = o_buffer.data();
  a.lse = lse_buffer.data();
  a.q_strides = a.k_strides = a.v_strides = a.o_strides = {0, 0, d};
  a.batch = a.heads = a.kv_heads = 1;
  a.length_q = lengths.q;
  a.length_k = lengths.k;
  a.head_dim = a.head_dim_v = d;
  a.scale = 0.125f;
  launch_score_functor<d>(a, f, Stream{}, nullptr);
  std::vector<half> o(q.size());
  std::vector<float> lse(static_cast<std::size_t>(lengths.q));
  o_buffer.download(o.data());
  lse_buffer.download(lse.data());
  const auto at = [](const std::vector<half>& x, int row, int e) {
    return static_cast<double>(static_cast<float>(x[static_cast<std::size_t>(row * d + e)]));
  };
  for (int i = 0; i < lengths.q; ++i) {
    double l = 0;
    std::vector<double> expected(d);
    for (int j = 0; j < lengths.k; ++j) {
      if (!sees(f, i, j)) continue;
      double s = 0;
      for (int e = 0; e < d; ++e) s += at(q, i, e) * at(k, j, e);
      const double p = std::exp(0.125 * s);
      l += p;
      for (int e = 0; e < d; ++e) expected[e] += p * at(v, j, e);
    }
    double worst = 0;
    for (int e = 0; e < d; ++e) {
      worst = std::max(worst, std::abs(at(o, i, e) - (l == 0 ? 0 : expected[e] / l)));
    }
    CHECK(worst < 4e-3);
    if (l == 0) {
      CHECK(lse[i] == -INFINITY);
    } else {
      CHECK(static_cast<double>(lse[i]) == doctest::Approx(std::log(l)).epsilon(1e-4));
    }
  }
}

TEST_CASE("the rule of a mask of one's own agrees with its definition") {
  for (const Lengths& lengths : kLengths) {
    for (const auto& [first, window] : {std::pair{4, 40}, {0, 7}, {30, 1}, {70, 500}}) {
      const FirstAndWindow f(first, window, lengths.k - lengths.q);
      int differing = 0, lost = 0, shown = 0;
      for (const auto& [m, n] : {std::pair{16, 8}, {64, 48}, {5, 32}}) {
        for (int query0 = 0; query0 < lengths.q; query0 += m) {
          for (int key0 = 0; key0 < lengths.k; key0 += n) {
            const ScoreTile tile{0,      0,
                                 query0, std::min(query0 + m, lengths.q) - 1,
                                 key0,   std::min(key0 + n, lengths.k) - 1};
            const TileKind kind = f.tile_kind(tile);
            for (int i = tile.first_query; i <= tile.last_query; ++i) {
              for (int j = tile.first_key; j <= tile.last_key; ++j) {
                differing += f.visible(0, 0, i, j) != sees(f, i, j);
                lost += kind == TileKind::kSkipped && sees(f, i, j);
                shown += kind == TileKind::kWhole && !sees(f, i, j);
              }
            }
          }
        }
      }
      CHECK(differing == 0);
      CHECK(lost == 0);
      CHECK(shown == 0);
    }
  }
}

TEST_CASE("attention with a mask of one's own is that of plain loops") {
  for (const Lengths& lengths : kLengths) {
    check_attention(FirstAndWindow(4, 40, lengths.k - lengths.q), lengths);
  }
}

}  // namespace
}  // namespace fa::FA_TARGET
