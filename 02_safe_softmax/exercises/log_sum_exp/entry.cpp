#include "02_safe_softmax/softmax.hpp"
#include "common/classroom/prelude_cpu.hpp"

// What the lesson has is to be written, not called.
namespace fa::safe {

template <>
double log_sum_exp<float>(View<const float, 1>) = delete;
template <>
double log_sum_exp<double>(View<const double, 1>) = delete;
template <>
double log_sum_exp<long double>(View<const long double, 1>) = delete;

}  // namespace fa::safe

#include "student/log_sum_exp.hpp"

FA_ENTRY(log_sum_exp, [](const std::vector<double>& scores) {
  const auto n = static_cast<std::int64_t>(scores.size());
  return student::log_sum_exp2<double>(fa::View<const double, 1>(scores.data(), {n}));
});
