#include "common/classroom/prelude_cpu.hpp"
#include "student/causal_mask.hpp"

using Scores = fa::Matrix<double>;

//! [entry]
FA_ENTRY(mask, [](const Scores& q, const Scores& k, std::int64_t prefix, Scores s) {
  student::mask_behind_prefix<double>(q, k, prefix, s);
  return s;
});
//! [entry]
