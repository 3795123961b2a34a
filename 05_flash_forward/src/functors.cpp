#include "05_flash_forward/src/functors.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "common/attention/functor_instances.cuh"
#include "common/tensor/random.hpp"

namespace fa::flash::functors {
namespace {

std::vector<float> normal_vector(std::int64_t count, std::uint64_t seed) {
  const auto tensor = normal_tensor<float, 1>({count}, seed);
  return {tensor.data(), tensor.data() + count};
}

// Where the documents of a sequence begin: about four, some of them empty.
std::vector<std::int32_t> random_documents(std::int64_t tokens, std::mt19937_64& random) {
  std::vector<std::int32_t> cu_seqlens{0, static_cast<std::int32_t>(tokens)};
  for (int i = 0; i < 4; ++i) {
    cu_seqlens.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(tokens)));
  }
  std::sort(cu_seqlens.begin(), cu_seqlens.end());
  return cu_seqlens;
}

// A tree: each query's parent is an earlier one, or the first keys, which all queries see. The last
// length_q keys are the queries' own. A query sees its ancestors and itself; query 0 of a longer
// sequence of queries than keys sees nothing. Bits of keys that do not exist are set: none may count.
void add_tree(std::vector<std::uint32_t>& bits, std::int64_t length_q, std::int64_t length_k,
              std::mt19937_64& random) {
  const std::int64_t words = (length_k + 31) / 32, shift = length_k - length_q;
  const std::size_t first = bits.size();
  bits.resize(first + static_cast<std::size_t>(length_q * words));
  const auto row = [&](std::int64_t i) { return bits.data() + first + i * words; };
  for (std::int64_t i = 0; i < length_q; ++i) {
    const std::int64_t parent =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(i + 1)) - 1;
    if (parent >= 0) {
      std::copy(row(parent), row(parent) + words, row(i));
    } else {
      for (std::int64_t key = 0; key < shift; ++key) row(i)[key / 32] |= 1u << key % 32;
    }
    const std::int64_t own = i + shift;
    if (own >= 0) row(i)[own / 32] |= 1u << own % 32;
    if (length_k % 32 > 0) row(i)[words - 1] |= ~0u << length_k % 32;
  }
}

}  // namespace

std::vector<std::int32_t> documents_of(const std::vector<std::int32_t>& cu_seqlens,
                                       std::int64_t tokens) {
  if (cu_seqlens.empty() || cu_seqlens.front() != 0 || cu_seqlens.back() != tokens ||
      !std::is_sorted(cu_seqlens.begin(), cu_seqlens.end())) {
    throw std::invalid_argument(
        fmt::format("cu_seqlens must rise from 0 to {}, the number of tokens", tokens));
  }
  std::vector<std::int32_t> ranges;
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    for (std::int32_t token = cu_seqlens[i]; token < cu_seqlens[i + 1]; ++token) {
      ranges.insert(ranges.end(), {cu_seqlens[i], cu_seqlens[i + 1]});
    }
  }
  return ranges;
}

FunctorTables random_tables(const Problem& problem, FunctorSpec& spec, std::uint64_t seed) {
  const AttentionShape& s = problem.shape;
  FunctorTables tables;
  std::mt19937_64 random(seed);
  switch (spec.kind) {
    case FunctorKind::kDocuments:
      for (std::int64_t b = 0; b < s.batch; ++b) {
        const auto of = documents_of(random_documents(s.length_k, random), s.length_k);
        tables.documents.insert(tables.documents.end(), of.begin(), of.end());
      }
      break;
    case FunctorKind::kAlibi:
      for (std::int64_t h = 1; h <= s.heads; ++h) {
        tables.slopes.push_back(
            std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(s.heads)));
      }
      break;
    case FunctorKind::kSinks:
      tables.sinks = normal_vector(s.heads, seed);
      break;
    case FunctorKind::kBias: {
      const std::int64_t of_head = (spec.bias_query < 0 ? 1 : s.length_q) * s.length_k;
      spec.bias_query = spec.bias_query < 0 ? 0 : s.length_k;
      if (spec.bias_head != 0) spec.bias_head = of_head;
      if (spec.bias_batch != 0) spec.bias_batch = std::max(spec.bias_head * s.heads, of_head);
      tables.bias = normal_vector(
          (spec.bias_batch != 0 ? s.batch : 1) * (spec.bias_head != 0 ? s.heads : 1) * of_head,
          seed);
      break;
    }
    case FunctorKind::kBlockSparse: {
      const auto blocks = [&](std::int64_t length) {
        return (length + spec.block_size - 1) / spec.block_size;
      };
      const std::int64_t count = s.heads * blocks(s.length_q) * blocks(s.length_k);
      for (std::int64_t i = 0; i < count; ++i) tables.blocks.push_back(random() % 3 == 0 ? 1 : 0);
      break;
    }
    case FunctorKind::kBits:
      for (std::int64_t b = 0; b < s.batch; ++b) {
        add_tree(tables.bits, s.length_q, s.length_k, random);
      }
      break;
    default:
      break;
  }
  return tables;
}

FunctorInputs functor_inputs(const Problem& problem, const FunctorSpec& spec, Values values,
                             std::uint64_t seed, const ChangeTables& change) {
  FunctorInputs result;
  static_cast<Inputs&>(result) = make_inputs(problem, values, seed);
  result.spec = spec;
  result.tables = random_tables(problem, result.spec, seed);
  if (change) change(result.tables);
  return result;
}

ScoreFunctor reference_functor(const FunctorSpec& spec, const AttentionShape& shape) {
  ScoreFunctor result;
  on_lab::with_functor(spec, static_cast<int>(shape.length_q), static_cast<int>(shape.length_k),
                       [&](const auto& functor) { result = reference_of(functor); });
  return result;
}

TileCounts count_tiles(const FunctorSpec& spec, const AttentionShape& shape, int block_m,
                       int block_n) {
  using on_lab::TileKind;
  const int length_q = static_cast<int>(shape.length_q),
            length_k = static_cast<int>(shape.length_k);
  TileCounts counts;
  on_lab::with_functor(spec, length_q, length_k, [&](const auto& functor) {
    for (int query0 = 0; query0 < length_q; query0 += block_m) {
      for (int key0 = 0; key0 < length_k; key0 += block_n) {
        const on_lab::ScoreTile tile{0,      0,
                                     query0, std::min(query0 + block_m, length_q) - 1,
                                     key0,   std::min(key0 + block_n, length_k) - 1};
        TileKind kind = TileKind::kPartial;
        if (!functor.needs_map) kind = functor.tile_kind(tile);
        const std::int64_t all =
            std::int64_t{tile.last_query - query0 + 1} * (tile.last_key - key0 + 1);
        std::int64_t visible = kind == TileKind::kWhole ? all : 0;
        if (kind == TileKind::kPartial) {
          for (int i = query0; i <= tile.last_query; ++i) {
            for (int j = key0; j <= tile.last_key; ++j) visible += functor.visible(0, 0, i, j);
          }
        }
        if (functor.needs_map) {
          kind = visible == 0     ? TileKind::kSkipped
                 : visible == all ? TileKind::kWhole
                                  : TileKind::kPartial;
        }
        counts.visible_scores += visible;
        (kind == TileKind::kSkipped   ? counts.skipped
         : kind == TileKind::kPartial ? counts.partial
                                      : counts.whole) += 1;
      }
    }
  });
  return counts;
}

std::vector<TimedFunctor> timed_functors() {
  std::vector<TimedFunctor> all;
  const auto add = [&](const char* name, FunctorKind kind, std::int64_t length, int left,
                       int right) -> TimedFunctor& {
    const Problem problem =
        problem_of(Type::kBFloat16, {16384 / length, 16, 16, length, length, 128});
    FunctorSpec spec;
    spec.kind = kind;
    spec.left = left;
    spec.right = right;
    spec.cap = 20;
    spec.block_size = 128;
    spec.prefix = static_cast<int>(length / 4);
    FunctorTables tables = random_tables(problem, spec, 1);
    // All heads and sequences are alike: what one computes is counted for all.
    const AttentionShape& s = problem.shape;
    const auto repeat = [](auto& table, std::int64_t times) {
      const std::size_t one = table.size() / static_cast<std::size_t>(times);
      for (std::size_t i = one; i < table.size(); ++i) table[i] = table[i - one];
    };
    repeat(tables.blocks, s.heads);
    repeat(tables.bits, s.batch);
    repeat(tables.documents, s.batch);
    all.push_back({name, problem, spec, std::move(tables)});
    return all.back();
  };
  add("plain_4k", FunctorKind::kPlain, 4096, -1, -1);
  add("causal_4k", FunctorKind::kCausal, 4096, -1, -1);
  add("causal_16k", FunctorKind::kCausal, 16384, -1, -1);
  add("window_4096_16k", FunctorKind::kWindow, 16384, 4096, 0);
  add("window_512_16k", FunctorKind::kWindow, 16384, 512, 0);
  add("prefix_4k", FunctorKind::kPrefix, 4096, -1, -1);
  TimedFunctor& documents = add("documents_16k", FunctorKind::kDocuments, 16384, -1, 0);
  documents.tables.documents =
      documents_of({0, 2100, 2600, 5800, 9896, 10900, 13000, 13700, 16384}, 16384);
  add("soft_cap_4k", FunctorKind::kSoftCap, 4096, -1, 0);
  add("alibi_4k", FunctorKind::kAlibi, 4096, -1, 0);
  add("sinks_4k", FunctorKind::kSinks, 4096, -1, 0);
  add("bias_4k", FunctorKind::kBias, 4096, -1, 0);
  add("blocks_4k", FunctorKind::kBlockSparse, 4096, -1, -1);
  add("tree_4k", FunctorKind::kBits, 4096, -1, -1);
  return all;
}

FunctorChecker::FunctorChecker(const Problem& problem, const FunctorInputs& inputs)
    : Checker(problem.type, inputs, [&](auto q, auto k, auto v) {
        return naive::forward(
            q, k, v, reference_functor(pointed(inputs.spec, inputs.tables), problem.shape));
      }) {}

}  // namespace fa::flash::functors
