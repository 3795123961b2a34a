#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr std::int64_t kTokens = FA_TOKENS, kHeads = FA_HEADS, kHeadDim = FA_HEAD_DIM;

std::int64_t multiplications = 0, exponentials = 0;

// A number that counts what is done to it.
struct Counted {
  Counted(double x = 0) : value(x) {}
  double value;
};
Counted operator*(Counted a, Counted b) {
  ++multiplications;
  return {a.value * b.value};
}
Counted exp(Counted a) {
  ++exponentials;
  return {std::exp(a.value)};
}

template <int Rank>
double bytes(const fa::Tensor<float, Rank>& tensor) {
  return static_cast<double>(tensor.count() * sizeof(float));
}

// One head of naive attention up to the probabilities.
void count_one_head() {
  const fa::Tensor<Counted, 2> q({kTokens, kHeadDim}), k({kTokens, kHeadDim});
  for (std::int64_t i = 0; i < kTokens; ++i) {
    for (std::int64_t j = 0; j < kTokens; ++j) {
      Counted score;
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        score.value += (q(i, d) * k(j, d)).value;
      }
      exp(score);
    }
  }
}

}  // namespace

FA_QUESTIONS {
  count_one_head();
  const fa::Tensor<float, 3> q({kHeads, kTokens, kHeadDim}), s({kHeads, kTokens, kTokens});
  const double q_bytes = bytes(q), s_bytes = bytes(s);
  // The longest sequence whose scores take at most so many bytes.
  const auto longest_in = [](std::int64_t limit, std::int64_t bytes) {
    std::int64_t n = 1;
    while ((n + 1) * (n + 1) * bytes <= limit) ++n;
    return static_cast<double>(n);
  };
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  const std::string elements = "these are elements; a float32 has 4 bytes";
  const std::string all_heads = "these are all heads; the question asks for one";
  const auto products = static_cast<double>(multiplications),
             exps = static_cast<double>(exponentials);
  const double n = longest_in(kGiB, 4);
  return {
      exactly("q_bytes", q_bytes,
              {{q_bytes / 4, elements},
               {q_bytes / kHeads, fmt::format("this is one head; there are {}", kHeads)}}),
      exactly(
          "s_bytes", s_bytes,
          {{s_bytes / 4, elements},
           {s_bytes / kHeads, "this is one head; each head has its own scores"},
           {q_bytes, "this is as large as Q; S has a score for each pair of a query and a key"}}),
      exactly("multiplications", products,
              {{products / kHeadDim,
                fmt::format("these are the elements of S; each is a sum of {} products", kHeadDim)},
               {products * 2, "additions are counted, too; the question asks for multiplications"},
               {products * kHeads, all_heads}}),
      exactly(
          "exponentials", exps,
          {{exps / kTokens,
            "one for each query: that is the number of sums; each score needs its own exponential"},
           {exps * kHeads, all_heads},
           {exps * kHeadDim,
            fmt::format("the exponential is taken of the score, after the {} products were summed",
                        kHeadDim)}}),
      exactly("longest", n,
              {{longest_in(kGiB, 4 * kHeads), all_heads},
               {longest_in(1000000000, 4), "1 GiB is 2^30 bytes, not 10^9"},
               {n * n, "this is the number of scores, N^2; the question asks for N"}})};
}
