#include "common/attention/host/step.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace fa::attention {

bool StepInfo::supports(const Problem& problem) const {
  const std::int64_t d = problem.shape.head_dim;
  return std::find(types.begin(), types.end(), problem.type) != types.end() && d % 8 == 0 &&
         d >= min_head_dim && d <= max_head_dim && (supports_dropout || problem.dropout == 0) &&
         (problem.columns_v() == d || (supports_mla && is_mla(d, problem.columns_v())));
}

void StepInfo::check(const Problem& problem) const {
  if (supports(problem)) return;
  if (!supports_dropout && problem.dropout > 0) {
    throw std::invalid_argument(fmt::format(
        "{} does not support dropout; dropout is {}, allowed is 0", name, problem.dropout));
  }
  const std::int64_t d = problem.shape.head_dim;
  if (problem.columns_v() != d) {
    throw std::invalid_argument(
        fmt::format("head_dim is {} and head_dim_v {}; {} supports {}the same number", d,
                    *problem.head_dim_v, name, supports_mla ? "192 and 128, or " : ""));
  }
  std::string allowed;
  for (const Type type : types) allowed += (allowed.empty() ? "" : " or ") + name_of(type);
  const std::string from = min_head_dim > 8 ? fmt::format("from {} ", min_head_dim) : "";
  throw std::invalid_argument(
      fmt::format("{} supports {} with a head_dim that is a multiple of 8 {}up "
                  "to {}, not {} with {}",
                  name, allowed, from, max_head_dim, name_of(problem.type), d));
}

std::string StepInfo::fit(const DeviceProperties& device) {
  const std::string lacks = missing(device, needs);
  if (!lacks.empty()) {
    max_head_dim = min_head_dim - 1;
    return fmt::format("{} is left out: it {}", name, lacks);
  }
  std::string too_large;  // the last head dimension that is
  while (shared_bytes && max_head_dim >= min_head_dim) {
    const std::string why = missing(device, Needs{}.with_shared(shared_bytes(max_head_dim)));
    if (why.empty()) break;
    too_large = why;
    max_head_dim -= 8;
  }
  if (too_large.empty()) return "";
  return max_head_dim < min_head_dim ? fmt::format("{} is left out: it {}", name, too_large)
                                     : fmt::format("{} is left out with a head_dim above {}: it {}",
                                                   name, max_head_dim, too_large);
}

std::vector<Problem> watched_problems(const StepInfo& step, Type type, bool causal) {
  std::vector<Problem> problems;
  const auto whole = [](std::int64_t tile, std::int64_t stages) {
    return stages == 0 ? tile : (stages + 2) * tile;
  };
  const auto ragged = [](std::int64_t tile, std::int64_t stages) {
    return (stages == 0 ? 1 : stages) * tile + 1;
  };
  for (const Tiles& t : step.tiles) {
    const std::int64_t d = t.head_dim, narrow = t.head_dim_v ? d : d - 24;
    const auto add = [&](const AttentionShape& shape, double dropout = 0) {
      problems.push_back(problem_of(type, shape, causal, dropout));
      problems.back().head_dim_v = t.head_dim_v;
    };
    add({1, 1, 1, t.queries / 2 + 1, t.keys + 1, d}, step.supports_dropout ? 0.17 : 0);
    add({2, 2, 2, 2 * t.queries + 1, t.keys / 2 + 1, narrow});
    const std::int64_t heads = t.persists ? 6 : 1;
    add({1, heads, heads, whole(t.queries, t.query_stages), whole(t.keys, t.key_stages), d});
    add({1, 2, 1, ragged(t.queries, t.query_stages), ragged(t.keys, t.key_stages), narrow});
  }
  return problems;
}

std::string watched_words(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  return fmt::format("{} x {} on {} heads, {} queries, {} keys, D {}{}{}", s.batch, s.heads,
                     s.kv_heads, s.length_q, s.length_k,
                     problem.head_dim_v ? fmt::format("{} and {}", s.head_dim, *problem.head_dim_v)
                                        : std::to_string(s.head_dim),
                     problem.causal ? ", causal" : "", problem.dropout > 0 ? ", dropout" : "");
}

}  // namespace fa::attention
