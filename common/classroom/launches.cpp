#include "common/classroom/launches.hpp"

namespace fa::classroom {

Seen watch(const std::function<void()>& work) {
  Seen seen;
#if defined(FA_LAB_WATCHED)
  const lab::Watch watching;
  work();
  seen.watched = true;
  seen.report = watching.report();
  seen.touches = watching.touches();
  for (const lab::LineTraffic& line : seen.report.traffic) {
    seen.atomics += line.atomics;
    if (line.shared) {
      seen.wavefronts += line.wavefronts;
      seen.ideal += line.ideal;
    } else {
      seen.bytes += line.bytes;
      seen.sectors += line.sectors;
    }
  }
#else
  work();
#endif
  return seen;
}

}  // namespace fa::classroom
