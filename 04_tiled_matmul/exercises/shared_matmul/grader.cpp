#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(matmul, [](const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  constexpr int tile = 16;
  return watched([&] {
    const auto on_a = on_device(a), on_b = on_device(b);
    DeviceBuffer<float> c(std::int64_t{m} * n);
    launch(matmul_at_b,
           {{static_cast<unsigned>(ceil_div(n, tile)), static_cast<unsigned>(ceil_div(m, tile))},
            {tile, tile}},
           on_a.data(), on_b.data(), c.data(), m, n, k);
    return from_device(c);
  });
});
#else  // the grader
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTile = 16;

const std::vector<Reason> kReasons = {
    {"barrier",
     "only some threads come to a barrier: threads outside of C must load and wait, too"},
    {"out of bounds", "it reads or writes beside a matrix: both loads and the store need a guard"},
    {"unwritten",
     "a tile is read where nothing was stored: store 0 where an element does not exist, and put a "
     "barrier before the multiplication"},
    own_elements(),
    {"race",
     "a tile is overwritten while other threads still multiply with it, or is read before it is "
     "there: two barriers for each step"}};

Launched multiply(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  return call<Launched>("matmul", a, b, m, n, k);
}

Seen run(int m, int n, int k) {
  return multiply(random_floats(k * m, 1), random_floats(k * n, 2), m, n, k).seen;
}

void grade(int m, int n, int k) {
  const MatmulSizes sizes{m, n, k, StoredA::kByColumns};
  const std::vector<float> a = random_floats(k * m, 1), b = random_floats(k * n, 2);
  const Launched c = multiply(a, b, m, n, k);
  check_matmul(
      c.seen, kReasons, c.out, matmul(a, b, sizes), 4e-6 * k, sizes,
      [=](const auto& of_a, const auto& of_b) { return multiply(of_a, of_b, m, n, k).out; },
      {{"nothing was written", std::vector<double>(c.out.size(), NAN)}});
}

}  // namespace

FA_STAGE(easy) {
  grade(16, 16, 16);
  grade(32, 32, 32);
}

FA_STAGE(odd) {
  grade(17, 31, 33);
  grade(5, 3, 20);
  grade(40, 16, 1);
  grade(1, 1, 70);
}

FA_STAGE(races) {
  for (const int size : {32, 19}) {
    require_no_races(run(size, 33, 40));
  }
}

FA_STAGE(traffic) {
  constexpr int size = 64;
  const Seen seen = run(size, size, size);
  needs_watching(seen);
  // Each of 16 blocks loads 4 tiles of A and of B; C is written once.
  const std::int64_t least = (16 * 4 * 2 * kTile * kTile + size * size) / 8;
  // Stores of a tile: 8 for each tile. Reads of a warp: one for A, one for B, 8 warps, 16 times.
  const std::int64_t rounds = 16 * 4 * (2 * 8 + 2 * 8 * 16);
  note("wavefronts of shared memory", seen.wavefronts);
  require(seen.wavefronts > 0, "shared memory was not used");
  budget("sectors of global memory", seen.sectors, least,
         "do neighbouring threads load neighbouring elements of A, once for each tile?", least);
  require(seen.wavefronts <= rounds + rounds / 4,
          fmt::format("bank conflicts: {} wavefronts of shared memory, and {} would do",
                      seen.wavefronts, rounds));
}
#endif
