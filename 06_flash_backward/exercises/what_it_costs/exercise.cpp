#include <array>

#include "06_flash_backward/exercises/on_device.cuh"
#include "06_flash_backward/kernels/01_unfused.cuh"
#include "common/classroom/lab.hpp"
#include "common/classroom/launches.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using fa::FA_TARGET::DeviceBuffer;

namespace {

constexpr int kQueries = FA_QUERIES, kKeys = FA_KEYS, kHeadDim = 32;

// Tiles that a kernel reads: its requests of 16 bytes for each lane.
template <class Kernel>
double tiles(Kernel kernel, int length, bool causal) {
  const Seen seen = watch([&] {
    const plain::OnDevice device(plain::random_problem(1, kQueries, kKeys, kHeadDim, causal));
    fa::FA_TARGET::launch(kernel, plain::tile_launch(length, 1), device.a);
  });
  needs_watching(seen);
  std::int64_t bytes = 0;
  for (const fa::lab::LineTraffic& line : seen.report.traffic) {
    if (line.shared || line.write) continue;
    if (line.bytes == 16 * 32 * line.requests) bytes += line.bytes;
  }
  return static_cast<double>(bytes) / (32 * 32 * sizeof(float));
}

// Bytes that kernels were given beside inputs and gradients, and that they use without leaving
// them.
template <class Launch>
double bytes_of(std::int64_t count, Launch launch) {
  const Seen seen = watch([&] {
    plain::OnDevice device(plain::random_problem(1, kQueries, kKeys, kHeadDim));
    DeviceBuffer<float> workspace(count);
    launch(device.a, workspace.data());
    const std::vector<double> used = from_device(workspace);
    for (const double number : used) {
      require(!std::isnan(number), "a workspace that is not used");
    }
  });
  require_no_findings(seen);
  return static_cast<double>(count * sizeof(float));
}

// Matmuls of [rows, inner] and [inner, columns]: S and dP, O and dQ, dK and dV.
using Matmul = std::array<int, 3>;
constexpr Matmul kScores{kQueries, kHeadDim, kKeys}, kRows{kQueries, kKeys, kHeadDim},
    kColumns{kKeys, kQueries, kHeadDim};

double multiplications(const std::vector<Matmul>& matmuls) {
  double sum = 0;
  for (const auto& [rows, inner, columns] : matmuls) sum += double{1} * rows * inner * columns;
  return sum;
}

}  // namespace

FA_QUESTIONS {
  using namespace fa::FA_TARGET;
  const double stored =
      bytes_of(2 * kQueries * kKeys, [](const AttentionGradient<float>& a, float* scores) {
        const ::fa::Launch sizes{{kKeys / 32, kQueries / 32, 1}, {32, 32}};
        launch(unfused_backward_scores, sizes, a, scores);
        launch(unfused_prob_gradients, sizes, a, scores + kQueries * kKeys);
      });
  const double recomputed =
      bytes_of(2 * kQueries, [](AttentionGradient<float> a, float* workspace) {
        DeviceBuffer<float> o(kQueries * kHeadDim), lse(kQueries);
        const std::vector<float> ones(kQueries * kHeadDim, 1.0f);
        o.upload(ones.data());
        lse.upload(ones.data());
        a.o = o.data();
        a.lse = lse.data();
        a.delta = workspace;
        a.inv_row_sum = workspace + kQueries;
        launch(preprocess<32>, {{kQueries / 64}, {kPreprocessThreads}}, a);
        using Sums = RowSumTile<32>;
        launch(recomputed_row_sums<32>,
               {{kQueries / Sums::side}, {Sums::threads}, Sums::shared_bytes}, a);
      });
  const double of_keys = tiles(backward_keys<32>, kKeys, false),
               of_queries = tiles(backward_queries<32>, kQueries, false),
               masked = tiles(backward_keys<32>, kKeys, true);
  const double forward = multiplications({kScores, kRows});
  const double one_loop = multiplications({kScores, kScores, kColumns, kColumns, kRows}) / forward;
  const double two_loops =
      multiplications({kScores, kScores, kColumns, kColumns, kScores, kScores, kRows}) / forward;
  const std::string elements = "these are elements; a float32 has 4 bytes";
  const double q = kQueries / 32, k = kKeys / 32;
  return {
      exactly(
          "stored", stored,
          {{stored / 2, "this is one of the two; P and dS are both stored"},
           {stored / 4, elements},
           {2 * stored, "S becomes P and dP becomes dS where they lie: two matrices, not four"}}),
      exactly("recomputed", recomputed,
              {{recomputed / 2, "this is one of the two; delta and the row sums are both kept"},
               {recomputed / 4, elements}}),
      exactly(
          "keys_outside", of_keys,
          {{of_queries, "this is with queries outside"},
           {k * 2 * q, "the tiles of K and V that each block owns are read, too"},
           {2 * (q + k), "the queries are read once for each block of keys, not once for all"}}),
      exactly("queries_outside", of_queries,
              {{of_keys, "this is with keys outside"},
               {k * 2 * q, "the tiles of Q and dO that each block owns are read, too"}}),
      exactly("causal", masked,
              {{of_keys, "this is without a mask"},
               {of_keys / 2,
                "not simply one half: tiles on the diagonal are read as a whole, and the mask does "
                "not begin in a corner"}}),
      exactly("one_loop", one_loop,
              {{5, "these are its matmuls; the forward pass has two"},
               {2, "four matmuls: S is computed a second time, that makes five"}}),
      exactly("two_loops", two_loops,
              {{7, "these are its matmuls; the forward pass has two"},
               {one_loop, "each loop needs P and dS, and so computes S and dP for itself"}})};
}
