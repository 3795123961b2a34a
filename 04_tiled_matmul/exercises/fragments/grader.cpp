#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(multiply, [](const std::vector<float>& a, const std::vector<float>& b, int k) {
  return watched([&] {
    const auto on_a = on_device(std::vector<bfloat16>(a.begin(), a.end())),
               on_b = on_device(std::vector<bfloat16>(b.begin(), b.end()));
    DeviceBuffer<float> c(16 * 8);
    launch(mma_by_hand, {{1}, {32}}, on_a.data(), on_b.data(), c.data(), k);
    return from_device(c);
  });
});
#else  // the grader
#include "04_tiled_matmul/exercises/grading/matmul.hpp"
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

// Small whole numbers, whose sums are exact.
std::vector<float> whole(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(static_cast<float>(fa::random_bits(seed, static_cast<std::uint64_t>(i)) % 15) -
                     7);
  }
  return result;
}

struct Case : Launched {
  std::vector<float> a, b;
};

Case run(int k) {
  Case result;
  result.a = whole(16 * k, 1);
  result.b = whole(8 * k, 2);
  static_cast<Launched&>(result) = call<Launched>("multiply", result.a, result.b, k);
  return result;
}

using Place = std::function<std::pair<int, int>(int, int)>;

std::pair<int, int> same(int row, int col) {
  return {row, col};
}

// The matmul, where the instruction is given other elements of A and B, and C is stored elsewhere.
// Places are within 16 steps of k.
std::vector<double> matmul(const Case& c, int k, const Place& of_a, const Place& of_b,
                           const Place& of_c) {
  std::vector<double> sums(16 * 8), result(16 * 8, NAN);
  for (int l0 = 0; l0 < k; l0 += 16) {
    for (int row = 0; row < 16; ++row) {
      for (int col = 0; col < 8; ++col) {
        for (int l = 0; l < 16; ++l) {
          const auto [a_row, a_l] = of_a(row, l);
          const auto [b_l, b_col] = of_b(l, col);
          if (l0 + a_l >= k || l0 + b_l >= k) continue;
          sums[8 * row + col] += double{c.a[16 * (l0 + a_l) + a_row]} * c.b[8 * (l0 + b_l) + b_col];
        }
      }
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 8; ++col) {
      const auto [to_row, to_col] = of_c(row, col);
      result[8 * to_row + to_col] = sums[8 * row + col];
    }
  }
  return result;
}

std::vector<Mistake> mistakes(const Case& c, int k) {
  const auto multiplied = [&](const Place& of_a, const Place& of_b, const Place& of_c) {
    return matmul(c, k, of_a, of_b, of_c);
  };
  const Place quarters = [](int row, int l) {
    return std::pair(row % 8 + l / 8 * 8, l % 8 + row / 8 * 8);
  };
  const Place other_half = [](int l, int col) { return std::pair(l ^ 8, col); };
  const Place as_a_row = [](int row, int col) {
    // d[1] and d[2] are swapped: lane 4 g + t has (g, 2t) and its neighbours.
    const int half = row / 8, odd = col % 2;
    return std::pair(row % 8 + 8 * odd, col / 2 * 2 + half);
  };
  const Place in_order = [](int row, int col) {
    const int lane = 4 * (row % 8) + col / 2, i = row / 8 * 2 + col % 2;
    return std::pair((4 * lane + i) / 8, (4 * lane + i) % 8);
  };
  const Place pair_swapped = [](int row, int l) { return std::pair(row, l ^ 1); };
  const Place lanes_by_t = [](int row, int l) {
    // g and t were taken as lane % 8 and lane / 8.
    const int lane = row % 8 * 4 + l % 8 / 2;
    return std::pair(row / 8 * 8 + lane % 8, l / 8 * 8 + lane / 8 * 2 + l % 2);
  };
  return {
      {"C is 0: the fragments are empty", std::vector<double>(16 * 8, 0)},
      {"nothing was written", std::vector<double>(16 * 8, NAN)},
      {"A's registers 1 and 2 are swapped: register 1 has row g + 8, register 2 the columns 8 "
       "further",
       multiplied(quarters, same, same)},
      {"B's two registers are swapped", multiplied(same, other_half, same)},
      {"A's registers 1 and 2 are swapped, and d[1] and d[2] as well",
       multiplied(quarters, same, as_a_row)},
      {"d[1] and d[2] are swapped: d[1] is the next column, d[2] is row g + 8",
       multiplied(same, same, as_a_row)},
      {"the sums are right, but stored in the order of lanes: d[i] of a lane lies in rows g and g "
       "+ 8",
       multiplied(same, same, in_order)},
      {"the two elements of each register of A are swapped: the first one is pack2's first",
       multiplied(pair_swapped, same, same)},
      {"g is lane / 4 and t is lane % 4 for A as well", multiplied(lanes_by_t, same, same)}};
}

void grade(int k) {
  const Case c = run(k);
  const std::vector<double> right = matmul(c, k, same, same, same);
  if (unexplained(c.seen, {"C", c.out, 8}, right, 0, mistakes(c, k))) {
    explain_matmul(
        [=](const std::vector<float>& of_a, const std::vector<float>& of_b) {
          return call<Launched>("multiply", of_a, of_b, k).out;
        },
        16, 8, k, StoredA::kByColumns);
  }
  check_result(
      c.seen,
      {{"out of bounds",
        "an element outside of A, B or C: rows of A are 0 to 15, columns of B and C are 0 to 7"}},
      {"C", c.out, 8}, right, 0, mistakes(c, k), fmt::format("k {}", k));
}

}  // namespace

FA_STAGE(easy) {
  grade(16);
}

FA_STAGE(odd) {
  grade(48);
  grade(23);
  grade(1);
  grade(9);
}

FA_STAGE(races) {
  const Case c = run(40);
  require_no_races(c.seen);
  // Of 2 bytes each: A and B once. C has 4.
  const std::int64_t least = 2 * 40 * (16 + 8) + 4 * 16 * 8;
  budget("bytes of global memory", c.seen.bytes, least,
         "a warp's fragments hold each element once, and mma multiplies them", least);
}
#endif
