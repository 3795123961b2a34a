#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

namespace student {

constexpr int kStages = 2;

/// out = the sum of q^3 over the tiles, column by column.
/// Launched with one block of three warps.
/// @param q [tiles, 32]
__global__ void cubes(const float* q, float* out, int tiles) {
  __shared__ Mbarrier q_full[kStages], q_empty[kStages], p_full[kStages];
  __shared__ float q_smem[kStages][kWarp];
#ifdef FA_SOLUTION
  __shared__ float p_smem[kStages][kWarp];
#else
  __shared__ float p_smem[kWarp];
#endif
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      q_full[i].init(1);
      q_empty[i].init(2);  // warps 1 and 2
      p_full[i].init(1);
    }
    fence_barrier_init();
  }
  __syncthreads();
  PipelineState<kStages> at;
  float p = 0, sum = 0;
  for (int n = 0; n < tiles; ++n, at.advance()) {
    const int last = (at.stage + kStages - 1) % kStages;  // of tile n - 1
    if (warp == 0) {
      q_empty[at.stage].wait(at.parity ^ 1);
      q_smem[at.stage][lane] = q[n * kWarp + lane];
    } else if (warp == 1) {
      q_full[at.stage].wait(at.parity);
#ifdef FA_SOLUTION
      p_smem[at.stage][lane] = q_smem[at.stage][lane] * q_smem[at.stage][lane];
#else
      p_smem[lane] = q_smem[at.stage][lane] * q_smem[at.stage][lane];
#endif
    } else {
      if (n > 0) sum += p * q_smem[last][lane];
    }
    __syncwarp();
    if (lane == 0) {
      if (warp == 0) q_full[at.stage].arrive();
      if (warp == 1) p_full[at.stage].arrive();
      if (warp == 1) q_empty[at.stage].arrive();
      if (warp == 2 && n > 0) q_empty[last].arrive();
    }
    if (warp == 2) {
      q_full[at.stage].wait(at.parity);
      p_full[at.stage].wait(at.parity);
#ifdef FA_SOLUTION
      p = p_smem[at.stage][lane];
#else
      p = p_smem[lane];
#endif
    }
  }
  if (warp == 2 && tiles > 0) {
    const int last = (at.stage + kStages - 1) % kStages;
    out[lane] = sum + p * q_smem[last][lane];
  }
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<float>& q) {
  Launched result = watched([&] {
    const auto in = on_device(q);
    DeviceBuffer<float> out(kWarp);
    launch(fa::FA_TARGET::student::cubes, {{1}, {3 * kWarp}}, in.data(), out.data(),
           static_cast<int>(q.size()) / kWarp);
    return from_device(out);
  });
  result.out.push_back(rows_ahead(result.seen, 0, 1));
  result.out.push_back(rows_ahead(result.seen, 1, 2));
  return result;
});

FA_ENTRY(stages, [] { return fa::FA_TARGET::student::kStages; });
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kWarp = 32;

const std::vector<Reason> kReasons = {
    {"out of bounds", "it reads or writes beside an array"},
    {"unwritten", "a place is read before anything was written to it"},
    {"race",
     "a place is written while another warp may still read it, or read before it was written"},
    {"barrier",
     "an mbarrier gets more or fewer arrivals than it was initialised for, or a wait names the "
     "wrong phase"}};

struct Case {
  Seen seen;
  std::vector<double> out, right;
  double q_ahead, p_ahead;  // rows that are written when the first one is read
};

Case run(int tiles) {
  const auto q = random_floats(std::int64_t{tiles} * kWarp, 5);
  auto launched = call<Launched>("run", q);
  const double p_ahead = launched.out.back();
  launched.out.pop_back();
  const double q_ahead = launched.out.back();
  launched.out.pop_back();
  Case c{launched.seen, launched.out, {}, q_ahead, p_ahead};
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    double sum = 0;
    for (std::size_t at = lane; at < q.size(); at += kWarp) sum += std::pow(q[at], 3);
    c.right.push_back(sum);
  }
  return c;
}

void grade(int tiles) {
  const Case c = run(tiles);
  check_result(c.seen, kReasons, {"out", c.out, kWarp}, c.right, 1e-3, {},
               fmt::format("{} tiles", tiles));
}

}  // namespace

FA_STAGE(found) {
  require(names_both(evidence("the numbers of two lines that race"), {"p_smem[lane] = q_smem"},
                     {"p = p_smem[lane]"}),
          "not found: these are not two lines of the file as it was, of which one writes what the "
          "other still reads");
}

FA_STAGE(easy) {
  grade(1);
}

FA_STAGE(odd) {
  grade(2);
  grade(9);
}

FA_STAGE(races) {
  require(call<int>("stages") == 2, "the ring has two stages");
  for (const int tiles : {2, 3, 8}) {
    const Case c = run(tiles);
    require_no_races(c.seen, kReasons);
    const auto runs_ahead = [](double rows, const char* writer, const char* what) {
      require(rows >= 2,
              fmt::format("{} has written only {} of two rows of {} when the first is read: it "
                          "waits longer than it did",
                          writer, rows, what));
    };
    runs_ahead(c.q_ahead, "warp 0", "Q");
    runs_ahead(c.p_ahead, "warp 1", "P");
  }
}
#endif
/* Other answers, as changes of the solution
# evidence_q: the ring of Q is all right
@ found: not found
- // answer: 39, 53
+ // answer: 36, 41

# by_parity: the place is chosen by the parity
@ odd: written while another warp may still read it
- p_smem[at.stage][lane] = q_smem[at.stage][lane] * q_smem[at.stage][lane];
+       p_smem[at.parity][lane] = q_smem[at.stage][lane] * q_smem[at.stage][lane];
- p = p_smem[at.stage][lane];
+       p = p_smem[at.parity][lane];

# syncthreads_in_a_branch: only one warp comes
@ odd: at __syncthreads
- p = p_smem[at.stage][lane];
+       p = p_smem[at.stage][lane]; __syncthreads();

# waits_for_p: a barrier says that the only place of P is empty
@ races: warp 1 has written only 1 of two rows of P
- __shared__ Mbarrier q_full[kStages], q_empty[kStages], p_full[kStages];
+   __shared__ Mbarrier q_full[kStages], q_empty[kStages], p_full[kStages], p_empty;
- p_full[i].init(1);
+       p_full[i].init(1);
+       if (i == 0) p_empty.init(1);
- p_smem[at.stage][lane] = q_smem[at.stage][lane] * q_smem[at.stage][lane];
+       p_empty.wait((n + 1) % 2);
+       p_smem[0][lane] = q_smem[at.stage][lane] * q_smem[at.stage][lane];
- p = p_smem[at.stage][lane];
+       p = p_smem[0][lane];
+       __syncwarp();
+       if (lane == 0) p_empty.arrive();

# three_places: a ring of three for P
@ right
- __shared__ float p_smem[kStages][kWarp];
+  __shared__ float p_smem[3][kWarp];
- p_smem[at.stage][lane] = q_smem[at.stage][lane] * q_smem[at.stage][lane];
+      p_smem[n % 3][lane] = powf(q_smem[at.stage][lane], 2.0f);
- p = p_smem[at.stage][lane];
+      p = p_smem[n % 3][lane];
*/
