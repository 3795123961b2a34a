#include "common/classroom/prelude_cpu.hpp"
#include "student/invariance.hpp"

using Row = std::vector<double>;

FA_ENTRY(is_right,
         [](fa::classroom::Callback<Row(Row)> softmax) { return student::is_right(softmax); });
