#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

namespace student {

constexpr int kColumns = 32;  // head_dim

/// Tensors of [length, heads, 32], and of [length, heads].
struct Packed {
  const float *q, *o, *d_o;  ///< [length_q, heads, 32]
  const float* k;            ///< [length_k, heads, 32]
  const float* lse;          ///< [length_q, heads]
  float* delta;              ///< [length_q, heads]
  float* d_v;                ///< [length_k, heads, 32]
  int heads, length_q, length_k;
  float scale;
  bool causal;
};

/// Launched with blocks of 32 x 4, grid of ceil(length_q / 4) x heads.
__global__ void row_delta(Packed a) {
#ifdef FA_SOLUTION
  const int query = blockIdx.x * blockDim.y + threadIdx.y, head = blockIdx.y;
  if (query >= a.length_q) return;  // the whole warp
  const std::int64_t row = std::int64_t{query} * a.heads + head;
  const std::int64_t at = row * kColumns + threadIdx.x;
  const float sum = warp_sum(a.o[at] * a.d_o[at]);
  if (threadIdx.x == 0) a.delta[row] = sum;
#else
  (void)a;  // TODO
#endif
}

/// Launched with blocks of 32 x 8, grid of ceil(length_k / 32) x heads.
__global__ void value_gradients(Packed a) {
#ifdef FA_SOLUTION
  constexpr int side = 32, warps = 8, padded = side + 1;
  __shared__ float k_smem[side][padded], q_smem[side][padded];
  __shared__ float d_o_smem[side][padded], p_smem[side][padded];
  const int x = threadIdx.x, y = threadIdx.y, head = blockIdx.y;
  const int key0 = blockIdx.x * side, shift = a.length_k - a.length_q;
  const auto at = [&](int row) { return (std::int64_t{row} * a.heads + head) * kColumns + x; };
  for (int row = y; row < side; row += warps) {
    k_smem[row][x] = key0 + row < a.length_k ? a.k[at(key0 + row)] : 0.0f;
  }
  float d_v[side / warps] = {};
  const int first = a.causal && key0 > shift ? (key0 - shift) / side * side : 0;
  for (int query0 = first; query0 < a.length_q; query0 += side) {
    for (int row = y; row < side; row += warps) {
      const bool inside = query0 + row < a.length_q;
      q_smem[row][x] = inside ? a.q[at(query0 + row)] : 0.0f;
      d_o_smem[row][x] = inside ? a.d_o[at(query0 + row)] : 0.0f;
    }
    __syncthreads();  // the tiles have arrived
    const int query = query0 + x;
    const float lse = query < a.length_q ? a.lse[std::int64_t{query} * a.heads + head] : 0;
    for (int key = y; key < side; key += warps) {
      float s = 0;
      for (int e = 0; e < kColumns; ++e) s += k_smem[key][e] * q_smem[x][e];
      const bool seen = query < a.length_q && (!a.causal || key0 + key <= query + shift);
      p_smem[key][x] = seen ? expf(a.scale * s - lse) : 0.0f;
    }
    __syncthreads();  // P is complete
    for (int i = 0; i < side / warps; ++i) {
      for (int j = 0; j < side; ++j) {
        d_v[i] += p_smem[y + warps * i][j] * d_o_smem[j][x];
      }
    }
    __syncthreads();  // no warp reads the tiles any longer
  }
  for (int i = 0; i < side / warps; ++i) {
    const int key = key0 + y + warps * i;
    if (key < a.length_k) a.d_v[at(key)] = d_v[i];
  }
#else
  (void)a;  // TODO
#endif
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "06_flash_backward/exercises/plain.hpp"

using fa::backward::plain::PackedInputs;

// Launches row_delta or value_gradients for rows from `first` on: those before do not exist, and
// with many of them an index of 32 bits overflows. An LSE that does not count is in the host's
// memory, whose reads the lab does not count.
FA_ENTRY(run, [](const PackedInputs& in, bool of_delta, bool lse_counts, int first) {
  using namespace fa::FA_TARGET::student;
  const auto go = [&] {
    const auto q = on_device(in.q), o = on_device(in.o), d_o = on_device(in.d_o),
               k = on_device(in.k), lse = on_device(in.lse);
    DeviceBuffer<float> delta(std::int64_t{in.length_q} * in.heads),
        d_v(std::int64_t{in.length_k} * in.heads * 32);
    Packed a{q.data(),   o.data(), d_o.data(),  k.data(),    lse.data(), delta.data(),
             d_v.data(), in.heads, in.length_q, in.length_k, in.scale,   in.causal};
    if (!lse_counts) a.lse = in.lse.data();
    const unsigned heads = static_cast<unsigned>(in.heads);
    const int rows = of_delta ? 4 : 32;  // of a block
    const auto blocks = static_cast<unsigned>(ceil_div(of_delta ? in.length_q : in.length_k, rows));
    const fa::Size begin(static_cast<unsigned>(first / rows), 0), grid(begin.x + blocks, heads);
    const std::int64_t before = std::int64_t{first} * 32;
    if (of_delta) {
      a.o -= before;
      a.d_o -= before;
      a.delta -= first;
      a.length_q += first;
      launch(far_blocks<row_delta, Packed>, {{blocks, heads}, {32, 4}}, begin, grid, a);
      return from_device(delta);
    }
    a.k -= before;
    a.d_v -= before;
    a.length_k += first;
    launch(far_blocks<value_gradients, Packed>, {{blocks, heads}, {32, 8}}, begin, grid, a);
    return from_device(d_v);
  };
  return first == 0 ? watched(go) : Launched{Seen(), go()};
});
#elif defined(FA_GRADER)
#include "06_flash_backward/exercises/grading/mistakes.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using plain::MistakeKind;

namespace {

constexpr int kColumns = 32;

const std::vector<Reason> kReasons = {
    {"barrier", "some threads never come to a barrier"},
    {"out of bounds",
     "it reads or writes beside the tensors: queries and keys end inside of a tile, and rows of a "
     "head are heads * 32 elements apart"},
    {"unwritten",
     "shared memory is read before it was written: a barrier is missing, or a part of the last "
     "tile is not written"},
    own_elements(),
    {"race",
     "two threads use the same element and nothing orders them: is a tile overwritten while other "
     "warps read it, or does P come too early?"}};

// The heads are problems of their own.
struct Case {
  std::vector<plain::Problem> heads;
  plain::PackedInputs in;
};

// [head][row, col] as [row, head, col].
template <class Of>
auto packed(const Case& c, int rows, int cols, Of of) {
  std::vector<double> result;
  for (int row = 0; row < rows; ++row) {
    for (std::size_t head = 0; head < c.heads.size(); ++head) {
      for (int col = 0; col < cols; ++col) {
        result.push_back(of(head, row * cols + col));
      }
    }
  }
  return result;
}

Case made(int heads, int length_q, int length_k, bool causal, double level = 0) {
  Case c;
  for (int head = 0; head < heads; ++head) {
    c.heads.push_back(plain::random_problem(1, length_q, length_k, kColumns, causal, 0,
                                            static_cast<std::uint64_t>(10 * head + 1)));
    plain::Problem& x = c.heads.back();
    if (level != 0) {
      // One column of Q and of K makes all scores about this large; products stay exact.
      x.scale = 0.25;
      for (auto* numbers : {&x.q, &x.k}) {
        for (double& number : *numbers) number = std::round(8 * number) / 8;
      }
      for (int i = 0; i < length_q; ++i) x.q[i * kColumns] = level / 4;
      for (int j = 0; j < length_k; ++j) x.k[j * kColumns] = 16;
    }
  }
  const auto of = [&](int rows, int cols, auto part) {
    std::vector<std::vector<double>> of_heads;
    for (const plain::Problem& x : c.heads) of_heads.push_back(part(x));
    const auto all = packed(c, rows, cols, [&](std::size_t head, int at) {
      return of_heads[head][static_cast<std::size_t>(at)];
    });
    return std::vector<float>(all.begin(), all.end());
  };
  using plain::Problem;
  c.in = {heads,
          length_q,
          length_k,
          static_cast<float>(c.heads[0].scale),
          causal,
          of(length_q, kColumns, [](const Problem& x) { return x.q; }),
          of(length_q, kColumns, [](const Problem& x) { return plain::forward(x).o; }),
          of(length_q, kColumns, [](const Problem& x) { return x.d_o; }),
          of(length_k, kColumns, [](const Problem& x) { return x.k; }),
          of(length_q, 1, [](const Problem& x) { return plain::forward(x).lse; })};
  return c;
}

Launched row_delta(const Case& c) {
  return call<Launched>("run", c.in, true, true, 0);
}
Launched value_gradients(const Case& c, bool lse_counts = true) {
  return call<Launched>("run", c.in, false, lse_counts, 0);
}

std::string words(const Case& c) {
  return fmt::format("{} queries, {} keys, {} {}{}", c.in.length_q, c.in.length_k, c.in.heads,
                     c.in.heads == 1 ? "head" : "heads", c.in.causal ? ", causal" : "");
}

void grade_delta(int heads, int length_q) {
  const Case c = made(heads, length_q, 8, false);
  const auto launched = row_delta(c);
  const auto right = packed(c, length_q, 1, [&](std::size_t head, int row) {
    const plain::Problem& x = c.heads[head];
    return plain::row_delta(x, plain::forward(x), row);
  });
  check_result(launched.seen, kReasons, {"delta", launched.out, heads}, right, 1e-4, {}, words(c));
}

void grade(int heads, int length_q, int length_k, bool causal) {
  const Case c = made(heads, length_q, length_k, causal);
  const auto launched = value_gradients(c);
  const auto with = [&](MistakeKind kind) {
    std::vector<plain::Gradients> gradients;
    for (const plain::Problem& x : c.heads) {
      gradients.push_back(plain::gradients(x, kind));
    }
    return packed(c, length_k, kColumns, [&](std::size_t head, int at) {
      return gradients[head].d_v[static_cast<std::size_t>(at)];
    });
  };
  const auto right = with(MistakeKind::kNone);
  std::vector<Mistake> mistakes = {
      {"the LSE is a natural logarithm: it goes with expf()", with(MistakeKind::kLseInBaseTwo)},
      {"this is P dO; dV is P^T dO", with(MistakeKind::kProbsNotTransposed)}};
  if (causal) {
    mistakes.push_back(
        {"masked keys have a probability above 0", with(MistakeKind::kMaskForgotten)});
    mistakes.push_back({"the mask is aligned to the first key: the last query sees the last key",
                        with(MistakeKind::kMaskTopLeft)});
  }
  if (found(launched.seen, "unwritten")) {
    require_no_findings(launched.seen, kReasons);
  }
  // A row of the table is a key, with its heads side by side.
  check_result(launched.seen, kReasons, {"dV", launched.out, heads * kColumns}, right, 1e-4,
               mistakes, words(c) + ", dV[key][32 * head + column]");
}

// A case of before with all scores around a level, and another scale.
void grade_level(double level) {
  Case c = made(1, 40, 33, false, level);
  const auto launched = value_gradients(c);
  const plain::Gradients right = plain::gradients(c.heads[0]);
  require(agree(launched.out, right.d_v, 2e-2),
          fmt::format("wrong with a scale of {} and scores around {}: is the scale that of the "
                      "parameters, and the exponential one of S - LSE?",
                      c.in.scale, level));
}

// Rows whose elements have offsets beyond 32 bits; only these rows exist.
void grade_far() {
  const std::string message =
      "wrong in a tensor with more than 2^31 elements: an offset does not fit into 32 bits, and "
      "int * int is a product of 32 bits";
  const Case c = made(1, 8, 32, false);
  for (const bool of_delta : {true, false}) {
    const auto far = call_or<Launched>(message, "run", c.in, of_delta, true, 1 << 27);
    require(agree(far.out, (of_delta ? row_delta(c) : value_gradients(c)).out, 0), message);
  }
}

}  // namespace

FA_STAGE(delta) {
  grade_delta(1, 8);
  grade_delta(3, 13);
}

FA_STAGE(easy) {
  grade(1, 32, 32, false);
}

FA_STAGE(odd) {
  grade(1, 40, 33, false);
  grade(2, 45, 70, true);
  grade(3, 37, 20, true);
  grade(1, 1, 1, true);
  grade_level(-2000);
  grade_level(2000);
  grade_far();
}

FA_STAGE(races) {
  const Case c = made(2, 70, 40, true);
  const auto launched = value_gradients(c);
  require_no_races(launched.seen, kReasons);
  require_no_findings(row_delta(c).seen, kReasons);
}

FA_STAGE(traffic) {
  const Case c = made(2, 96, 96, true);
  const auto launched = value_gradients(c, false);
  needs_watching(launched.seen);
  // Two heads: 3 tiles of K and of dV, 3 + 2 + 1 tiles of Q and dO.
  const std::int64_t tile = 4 * 32 * 32, tiles = 3 + 3 + 2 * 6, bytes = 2 * tiles * tile;
  require(launched.seen.atomics == 0,
          fmt::format("{} atomic requests: each block owns its rows of dV", launched.seen.atomics));
  budget("bytes of K, Q, dO and dV", launched.seen.bytes, bytes,
         "is each tile loaded once for a block, and left out where it is masked? What all "
         "lanes of a warp load from one address counts for each lane",
         bytes);
}
#endif
/* Other answers, as changes of the solution
# delta_unguarded: the last block
@ delta: beside the tensors
- if (query >= a.length_q) return;  // the whole warp
+

# no_barrier_for_tiles: too early
@ easy: a barrier is missing
- __syncthreads();  // the tiles have arrived
+

# no_mask: all keys
@ odd: masked keys have a probability
- const bool seen = query < a.length_q && (!a.causal || key0 + key <= query + shift);
+       const bool seen = query < a.length_q;
- const int first = a.causal && key0 > shift ? (key0 - shift) / side * side : 0;
+   const int first = 0;

# top_left: query i sees the keys up to i
@ odd: aligned to the first key
- const bool seen = query < a.length_q && (!a.causal || key0 + key <= query + shift);
+       const bool seen = query < a.length_q && (!a.causal || key0 + key <= query);

# q_of_each_key: Q is not kept on the chip
@ traffic: is each tile loaded once for a block
- for (int e = 0; e < kColumns; ++e) s += k_smem[key][e] * q_smem[x][e];
+       for (int e = 0; e < kColumns; ++e) s += k_smem[key][e] * (query < a.length_q ? a.q[at(query) - x + e] : 0.0f);

# lse_where_used: LSE is read for each key
@ right
- const float lse = query < a.length_q ? a.lse[std::int64_t{query} * a.heads + head] : 0;
+
- p_smem[key][x] = seen ? expf(a.scale * s - lse) : 0.0f;
+       p_smem[key][x] = seen ? expf(a.scale * s - a.lse[std::int64_t{query} * a.heads + head]) : 0.0f;

*/
