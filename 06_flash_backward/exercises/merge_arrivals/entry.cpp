#include "common/classroom/prelude_cpu.hpp"
#include "student/merge_arrivals.hpp"

namespace student {

auto parts(Partial& x) {
  return std::tie(x.o, x.lse);
}

}  // namespace student

FA_ENTRY(results, [](const std::vector<student::Partial>& messages) {
  student::Running all;
  all.o.assign(messages[0].o.size(), 0.0);
  std::vector<student::Partial> after_each;
  for (const student::Partial& message : messages) {
    student::arrive(all, message);
    student::result(all);  // must not change the state
    after_each.push_back(student::result(all));
  }
  return after_each;
});
