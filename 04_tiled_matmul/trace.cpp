#include "04_tiled_matmul/trace.hpp"

#include "common/lab/watch.hpp"

namespace fa::tiled {

std::optional<Trace> trace(const Kernel& kernel, const Inputs& inputs) {
  const lab::Watch watch;
  {
    const Prepared prepared = kernel.prepare(inputs);
    prepared.launch();
    prepared.result();
  }
  const lab::Report report = watch.report();
  Trace result;
  result.findings = static_cast<std::int64_t>(report.findings.size());
  for (const lab::LineTraffic& line : report.traffic) {
    if (line.shared) {
      result.wavefronts += line.wavefronts;
      result.wavefronts_ideal += line.ideal;
    } else {
      result.global_bytes += line.bytes;
      result.sectors += line.sectors;
      result.sectors_ideal += line.ideal;
    }
  }
  result.text = report.text();
  result.json = report.json();
  result.json.erase(result.json.find_last_not_of('\n') + 1);
  return result;
}

}  // namespace fa::tiled
