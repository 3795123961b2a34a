#include "04_tiled_matmul/trace.hpp"

#include <fmt/format.h>

#include "common/files/escape.hpp"
#include "common/lab/banks.hpp"
#include "common/lab/watch.hpp"

namespace fa::tiled {

namespace {

// "[70, 30], [30, 70]"
std::string shapes_of(const Inputs& inputs) {
  std::string text;
  for (const auto& input : inputs) {
    text += fmt::format("{}[{}, {}]", text.empty() ? "" : ", ", input.size(0),
                        input.size(1));
  }
  return text;
}

}  // namespace

std::optional<Trace> trace(const Group& group, const Kernel& kernel,
                           const Inputs& inputs) {
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
  result.json = fmt::format(
      "{{\"kernel\": {}, \"group\": {}, \"inputs\": [{}], "
      "\"global_bytes\": {}, \"sectors\": {}, \"sectors_ideal\": {}, "
      "\"wavefronts\": {}, \"wavefronts_ideal\": {}, {}",
      json_text(kernel.name), json_text(group.title), shapes_of(inputs),
      result.global_bytes, result.sectors, result.sectors_ideal,
      result.wavefronts, result.wavefronts_ideal, report.json().substr(1));
  if (const lab::LineTraffic* line = report.worst_shared()) {
    result.banks = {
        line->wavefronts, line->ideal, line->where,
        lab::draw_banks(fmt::format("{}, {}", kernel.name, group.title),
                        line->where, line->write, line->worst)};
  }
  return result;
}

}  // namespace fa::tiled
