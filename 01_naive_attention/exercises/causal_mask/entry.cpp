#include "common/classroom/prelude_cpu.hpp"
#include "student/causal_mask.hpp"

using Scores = fa::Matrix<double>;

FA_ENTRY(hide_future, [](const Scores& q, const Scores& k, Scores s) {
  student::hide_future<double>(q, k, s);
  return s;
});
