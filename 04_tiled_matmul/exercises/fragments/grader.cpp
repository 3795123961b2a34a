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

using namespace fa::classroom;

namespace {

Launched multiply(const std::vector<float>& a, const std::vector<float>& b, int k) {
  return call<Launched>("multiply", a, b, k);
}

void grade(int k) {
  const MatmulSizes sizes{16, 8, k, StoredA::kByColumns};
  const std::vector<float> a = whole_numbers(16 * k, 1), b = whole_numbers(8 * k, 2);
  const Launched c = multiply(a, b, k);
  check_matmul(
      c.seen,
      {{"out of bounds",
        "an element outside of A, B or C: rows of A are 0 to 15, columns of B and C are 0 to 7"}},
      c.out, matmul(a, b, sizes), 0, sizes,
      [=](const auto& of_a, const auto& of_b) { return multiply(of_a, of_b, k).out; },
      {{"C is 0: the fragments are empty", std::vector<double>(16 * 8, 0)},
       {"nothing was written", std::vector<double>(16 * 8, NAN)}});
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
  const Seen seen = multiply(whole_numbers(16 * 40, 1), whole_numbers(8 * 40, 2), 40).seen;
  require_no_races(seen);
  // Of 2 bytes each: A and B once. C has 4.
  const std::int64_t least = 2 * 40 * (16 + 8) + 4 * 16 * 8;
  budget("bytes of global memory", seen.bytes, least,
         "a warp's fragments hold each element once, and mma multiplies them", least);
}
#endif
