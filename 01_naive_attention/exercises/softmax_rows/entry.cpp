#include "common/classroom/prelude_cpu.hpp"
#include "student/softmax_rows.hpp"

using Scores = fa::Matrix<double>;

FA_ENTRY(safe_softmax, [](const Scores& s) { return student::safe_softmax<double>(s); });
