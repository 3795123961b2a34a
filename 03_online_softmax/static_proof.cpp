// The proofs of small cases by the compiler: if one fails, the course does not build. Also the text
// of results.
#include <fmt/format.h>

#include "03_online_softmax/proof.hpp"

namespace fa::online {
namespace proof {
namespace {

//! [static]
constexpr Cases kSmall{2, 1};  // up to 2 scores from -1, 0, 1, -inf

static_assert(base_case(kSmall).holds, "base case");
static_assert(induction_step(kSmall).holds, "induction step");
static_assert(merge_is_union(kSmall).holds, "merge is union");
static_assert(merge_is_associative(kSmall).holds, "associative");
static_assert(follows_definition<Unnormalised>(kSmall).holds, "FA-2");
static_assert(follows_definition<Normalised>(kSmall).holds, "FA-1");
static_assert(!follows_definition<wrong::DividedTwice>(kSmall).holds,
              "a wrong recurrence is refused");
//! [static]

}  // namespace

Outcome at_run_time(Outcome (*check)(const Cases&), const Cases& cases) {
  return check(cases);
}

std::string to_string(const Row& row) {
  std::string text;
  for (std::size_t j = 0; j < row.length; ++j) {
    const int score = row.scores[j];
    text += fmt::format("{}{}", j == 0 ? "" : " ",
                        score == BaseTwo::neg_inf ? "-inf" : std::to_string(score));
  }
  return text;
}

}  // namespace proof

std::string to_string(const Combination& o, std::size_t length) {
  std::string text;
  for (std::size_t j = 0; j < length; ++j) {
    text += (j == 0 ? "" : " ") + to_string(o.of.at(j));
  }
  return text;
}

}  // namespace fa::online
