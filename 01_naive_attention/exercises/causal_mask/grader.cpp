#include "common/classroom/grader.hpp"

#include "common/classroom/prelude_cpu.hpp"

using namespace fa::classroom;
using Scores = fa::Matrix<double>;

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

Scores random_matrix(int rows, int cols) {
  Scores m(rows, cols);
  for (int i = 0; i < m.size(); ++i) {
    m.data()[i] = fa::random_normal(5, i);
  }
  return m;
}

template <class Sees>
std::vector<double> masked(Scores s, Sees sees, double hidden = kHidden) {
  for (int i = 0; i < s.rows(); ++i) {
    for (int j = 0; j < s.cols(); ++j) {
      if (!sees(i, j)) s(i, j) = hidden;
    }
  }
  return {s.data(), s.data() + s.size()};
}

void grade(int queries, int keys) {
  const Scores q = random_matrix(queries, 4), k = random_matrix(keys, 4);
  const Scores given = random_matrix(queries, keys);
  const Scores s = call<Scores>("hide_future", q, k, given);
  const int shift = keys - queries;
  const auto right = [=](int i, int j) { return j <= i + shift; };
  check(
      {"scores", {s.data(), s.data() + s.size()}, keys}, masked(given, right),
      0,
      {{"nothing is hidden", masked(given, [](int, int) { return true; })},
       {"off by one: a query does not see itself",
        masked(given, [=](int i, int j) { return j < i + shift; })},
       {"off by one: a query sees the key that comes next",
        masked(given, [=](int i, int j) { return j <= i + shift + 1; })},
       {"the mask is aligned to the top left; the last query must see the "
        "last key",
        masked(given, [=](int i, int j) { return j <= i; })},
       {"the mask is shifted the wrong way: query i stands at key i + keys - "
        "queries",
        masked(given, [=](int i, int j) { return j <= i - shift; })},
       {"a masked score is 0, which still has the weight e^0; it must be "
        "-infinity",
        masked(given, right, 0)},
       {"the past is masked and not the future",
        masked(given, [=](int i, int j) { return j >= i + shift; })}},
      fmt::format("{} queries, {} keys", queries, keys));
}

}  // namespace

FA_STAGE(easy) {
  grade(4, 4);
  grade(17, 17);
}

FA_STAGE(odd) {
  grade(3, 7);
  grade(1, 9);
  grade(5, 2);  // the first three queries see nothing
  grade(9, 1);
}
