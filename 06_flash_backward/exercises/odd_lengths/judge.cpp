#include "06_flash_backward/exercises/on_device.cuh"
#include "common/classroom/prelude_lab.hpp"
#include "student/odd_lengths.cuh"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using plain::Gradients;
using plain::Problem;
using plain::Slip;

namespace {

struct Case {
  Seen seen;
  Gradients out;
};

Case run(const Problem& x) {
  Case result;
  result.seen = watch([&] {
    const plain::OnDevice device(x);
    fa::FA_TARGET::launch(fa::FA_TARGET::student::backward_keys,
                          plain::tile_launch(x.length_k, 1), device.a);
    result.out = device.gradients();
  });
  return result;
}

// dV with the last keys' rows left as they were.
std::vector<double> without_tail(std::vector<double> gradient, int length,
                                 int head_dim) {
  for (int row = length / 32 * 32; row < length; ++row) {
    for (int c = 0; c < head_dim; ++c) gradient[row * head_dim + c] = NAN;
  }
  return gradient;
}

// dV when the tile of dO begins at the number of the first key.
std::vector<double> from_rows_of_keys(const Problem& x) {
  const plain::Forward y = plain::forward(x);
  std::vector<double> d_v(x.v.size());
  for (int row = 0; row < x.heads * x.length_q; ++row) {
    const int head = row / x.length_q, query = row % x.length_q;
    for (int j = 0; j < x.length_k; ++j) {
      const int taken = j / 32 * 32 + query % 32;
      if (!x.sees(query, j) || taken >= x.length_q) continue;
      const double p =
          std::exp(x.scale * plain::product(x, head, query, j) - y.lse[row]);
      for (int c = 0; c < x.head_dim; ++c) {
        d_v[j * x.head_dim + c] +=
            p * x.d_o[(head * x.length_q + taken) * x.head_dim + c];
      }
    }
  }
  return d_v;
}

void judge(const Problem& x) {
  const Case c = run(x);
  const Gradients right = plain::gradients(x);
  const std::string where = fmt::format(
      "{} heads share the keys, {} queries, {} keys, head_dim {}{}", x.heads,
      x.length_q, x.length_k, x.head_dim, x.causal ? ", causal" : "");
  const std::vector<Reason> reasons{
      {"barrier", "some threads never come to a barrier that others wait at"},
      {"out of bounds",
       "it writes beside the gradients: threads without a key have nothing "
       "to store"},
      {"unwritten", "a tile is read where nobody has written"},
      {"race",
       "a barrier is missing: one thread writes what another one reads"}};
  // float32 sums over queries of numbers of size 1.
  const double tolerance = 2e-5;
  if (c.seen.report.findings.empty() &&
      agree(c.out.d_v, right.d_v, tolerance) &&
      agree(c.out.d_k, right.d_k, tolerance)) {
    return;  // mistakes take time to compute
  }
  const auto by = [&](Slip slip) { return plain::gradients(x, slip); };
  const Gradients first = by(Slip::kFirstHeadOnly),
                  last = by(Slip::kLastHeadOnly),
                  unmasked = by(Slip::kMaskForgotten);
  Problem floored = x;  // without the queries of the ragged tile
  for (int head = 0; head < x.heads; ++head) {
    for (int i = x.length_q / 32 * 32; i < x.length_q; ++i) {
      for (int e = 0; e < x.head_dim; ++e) {
        floored.d_o[(head * x.length_q + i) * x.head_dim + e] = 0;
      }
    }
  }
  const Gradients whole = plain::gradients(floored);
  check_result(
      c.seen, reasons, {"dV", c.out.d_v, x.head_dim}, right.d_v, tolerance,
      {{"of the heads that share the keys only the first one goes by",
        first.d_v},
       {"of the heads that share the keys only the last one is left: the "
        "sums begin before the loop over heads",
        last.d_v},
       {"the queries of the last, ragged tile do not go by", whole.d_v},
       {"hidden keys have a weight", unmasked.d_v},
       {"the keys of the last, ragged tile have no gradient: their threads "
        "left before they stored it",
        c.seen.report.findings.empty()
            ? without_tail(right.d_v, x.length_k, x.head_dim)
            : std::vector<double>()},
       {"the rows of dO are those of the tile of keys; they belong to "
        "queries",
        from_rows_of_keys(x)},
       {"dV = P^T dO: here P was not turned",
        by(Slip::kWeightsNotTurned).d_v},
       {"dV has the scale of dK; no scale belongs to it",
        [&] {
          std::vector<double> scaled = right.d_v;
          for (double& number : scaled) number *= x.scale;
          return scaled;
        }()}},
      where);
  check_result(c.seen, reasons, {"dK", c.out.d_k, x.head_dim}, right.d_k,
               tolerance,
               {{"dK without the scale", by(Slip::kNoScaleInDk).d_k},
                {"the scale is in dK twice", by(Slip::kScaleTwiceInDk).d_k},
                {"dK from P in place of dS",
                 [&] {
                   // The scale apart this is dV with Q for dO.
                   Problem of_q = x;
                   of_q.d_o = x.q;
                   std::vector<double> d_k = plain::gradients(of_q).d_v;
                   for (double& number : d_k) number *= x.scale;
                   return d_k;
                 }()}},
               where);
}

}  // namespace

FA_STAGE(easy) {
  judge(plain::random_problem(1, 20, 32, 16));
  judge(plain::random_problem(1, 40, 32, 8));
}

FA_STAGE(odd) {
  judge(plain::random_problem(1, 33, 40, 24));
  judge(plain::random_problem(2, 7, 5, 8, true));
  judge(plain::random_problem(1, 1, 33, 8, true));
}

FA_STAGE(races) {
  const Case c = run(plain::random_problem(2, 40, 33, 16, true));
  needs_watching(c.seen);
  require_no_findings(c.seen);
}
