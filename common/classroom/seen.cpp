#include "common/classroom/seen.hpp"

namespace fa::lab {

/// What is sent of a finding.
auto parts(Finding& x) {
  return std::tie(x.kind, x.where, x.caller, x.other, x.message, x.count, x.seen);
}
/// What is sent of a line's traffic.
auto parts(LineTraffic& x) {
  return std::tie(x.where, x.shared, x.write, x.requests, x.diverged, x.atomics, x.bytes, x.sectors,
                  x.wavefronts, x.ideal, x.worst);
}

}  // namespace fa::lab

namespace fa::classroom {

void pass_by(Wire& wire, Seen& x) {
  auto members = std::tie(x.watched, x.report.findings, x.report.traffic, x.bytes, x.sectors,
                          x.wavefronts, x.ideal, x.atomics);
  wire.pass(members);
}

}  // namespace fa::classroom
