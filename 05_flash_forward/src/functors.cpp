#include "05_flash_forward/src/functors.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "01_naive_attention/ragged.hpp"
#include "05_flash_forward/src/verdicts.hpp"
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
// sequence of queries than keys sees nothing.
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
  }
}

}  // namespace

FunctorSpec FunctorTables::pointed(FunctorSpec spec) const {
  spec.documents = documents.data();
  spec.slopes = slopes.data();
  spec.sinks = sinks.data();
  spec.bias = bias.data();
  spec.blocks = blocks.data();
  spec.bits = bits.data();
  return spec;
}

std::vector<std::int32_t> documents_of(const std::vector<std::int32_t>& cu_seqlens,
                                       std::int64_t tokens) {
  check_cu_seqlens("cu_seqlens", cu_seqlens, tokens);
  std::vector<std::int32_t> documents(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    std::fill(documents.begin() + cu_seqlens[i], documents.begin() + cu_seqlens[i + 1],
              static_cast<std::int32_t>(i));
  }
  return documents;
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
    case FunctorKind::kBias:
      spec.bias_query = s.length_k;
      if (spec.bias_head != 0) spec.bias_head = s.length_q * s.length_k;
      if (spec.bias_batch != 0) {
        spec.bias_batch = std::max(spec.bias_head * s.heads, s.length_q * s.length_k);
      }
      tables.bias = normal_vector((spec.bias_batch != 0 ? s.batch : 1) *
                                      (spec.bias_head != 0 ? s.heads : 1) * s.length_q * s.length_k,
                                  seed);
      break;
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
                             std::uint64_t seed) {
  FunctorInputs result;
  static_cast<Inputs&>(result) = make_inputs(problem, values, seed);
  result.spec = spec;
  result.tables = random_tables(problem, result.spec, seed);
  return result;
}

ScoreFunctor reference_functor(const FunctorSpec& spec, const AttentionShape& shape) {
  ScoreFunctor result;
  // The functors' own functions, in float64.
  on_lab::with_functor(
      spec, static_cast<int>(shape.length_q), static_cast<int>(shape.length_k), [&](auto functor) {
        using Functor = decltype(functor);
        using Index = ScoreFunctor::Index;
        const auto n = [](Index index) { return static_cast<int>(index); };
        result.visible = [=](Index b, Index h, Index i, Index j) {
          return functor.visible(n(b), n(h), n(i), n(j));
        };
        if constexpr (Functor::changes_scores) {
          result.score = [=](double s, Index b, Index h, Index i, Index j) {
            return functor.score(s, n(b), n(h), n(i), n(j));
          };
          result.derivative = [=](double s, Index b, Index h, Index i, Index j) {
            return functor.derivative(s, n(b), n(h), n(i), n(j));
          };
        }
        if constexpr (Functor::has_sink) {
          result.sink = [=](Index h) { return static_cast<double>(functor.sink(n(h))); };
        }
      });
  return result;
}

FunctorChecker::FunctorChecker(const Problem& problem, const FunctorInputs& inputs)
    : type_(problem.type) {
  const FunctorSpec spec = inputs.tables.pointed(inputs.spec);
  const ScoreFunctor functor = reference_functor(spec, problem.shape);
  score_magnitude_ = score_magnitude({}, inputs);
  const auto attention = [&](auto zero) {
    using T = decltype(zero);
    const auto q = converted<T>(inputs.q), k = converted<T>(inputs.k), v = converted<T>(inputs.v);
    return naive::forward<T>(q.view(), k.view(), v.view(), functor);
  };
  ref_ = attention(double{});
  with_type(problem.type, [&](auto zero) {
    const auto plain = attention(zero);
    plain_ = {converted<float>(plain.o), converted<float>(plain.lse)};
  });
}

std::vector<Verdict> FunctorChecker::check(const std::string& name, const Outputs& outputs) const {
  return verdicts(name, type_, outputs, ref_, plain_, score_magnitude_);
}

}  // namespace fa::flash::functors
