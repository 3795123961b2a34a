#include "02_safe_softmax/softmax.hpp"
#include "common/classroom/prelude_cpu.hpp"

// What the lesson has is to be written, not called.
namespace fa::safe {

template <>
double row_max<float>(View<const float, 1>) = delete;
template <>
double row_max<double>(View<const double, 1>) = delete;
template <>
double row_max<long double>(View<const long double, 1>) = delete;

}  // namespace fa::safe

#include "student/row_max.hpp"

FA_ENTRY(row_max, [](const std::vector<double>& scores) {
  const auto n = static_cast<std::int64_t>(scores.size());
  return student::row_max<double>(fa::View<const double, 1>(scores.data(), {n}));
});
