#include "common/classroom/prelude_cpu.hpp"
#include "student/three_passes.hpp"

using Row = fa::Tensor<fa::half, 1>;

FA_ENTRY(safe_softmax, [](const Row& x, Row y) {
  const auto traffic = student::safe_softmax<fa::half>(
      fa::View<const fa::half, 1>(x.view()), y.view());
  return std::pair(y, traffic);
});
