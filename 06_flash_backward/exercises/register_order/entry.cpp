#include "common/classroom/prelude_cpu.hpp"
#include "student/register_order.hpp"

FA_ENTRY(places, [] {
  std::vector<double> result;
  for (int query = 0; query < 32; ++query) {
    for (int column = 0; column < 64; ++column) {
      result.push_back(student::place_of(query, column));
    }
  }
  return result;
});

FA_ENTRY(elements, [] {
  std::vector<double> result;
  for (int place = 0; place < 32 * 64; ++place) {
    const student::Element element = student::element_at(place);
    result.push_back(element.query);
    result.push_back(element.column);
  }
  return result;
});
