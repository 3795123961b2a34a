#include "common/lab/trace.hpp"

#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files/escape.hpp"
#include "common/lab/banks.hpp"
#include "common/lab/watch.hpp"

namespace fa::lab {

std::optional<Trace> trace(const TraceName& name,
                           const std::function<void()>& work) {
  const Watch watch;
  try {
    work();
  } catch (const std::runtime_error& error) {
    // What was found before may be the cause.
    const Report report = watch.report();
    if (report.findings.empty()) throw;
    throw std::runtime_error(
        fmt::format("{}\n{}", error.what(), report.findings_text()));
  }
  const Report report = watch.report();
  Trace result;
  result.findings = static_cast<std::int64_t>(report.findings.size());
  for (const LineTraffic& line : report.traffic) {
    if (line.shared) {
      result.wavefronts += line.wavefronts;
      result.wavefronts_ideal += line.ideal;
    } else {
      result.global_bytes += line.bytes;
      if (line.write) result.written_bytes += line.bytes;
      result.sectors += line.sectors;
      result.sectors_ideal += line.ideal;
    }
  }
  std::string shapes;  // "[70, 30], [30, 70]"
  for (const auto& input : name.inputs) {
    shapes += fmt::format("{}[{}]", shapes.empty() ? "" : ", ",
                          fmt::join(input, ", "));
  }
  result.text = report.text();
  result.json = fmt::format(
      "{{\"kernel\": {}, \"group\": {}, \"inputs\": [{}], "
      "\"global_bytes\": {}, \"sectors\": {}, \"sectors_ideal\": {}, "
      "\"wavefronts\": {}, \"wavefronts_ideal\": {}, {}",
      json_text(name.kernel), json_text(name.group), shapes,
      result.global_bytes, result.sectors, result.sectors_ideal,
      result.wavefronts, result.wavefronts_ideal, report.json().substr(1));
  if (const LineTraffic* line = report.worst_shared()) {
    result.banks = {line->wavefronts, line->ideal, line->where,
                    draw_banks(fmt::format("{}, {}", name.kernel, name.group),
                               line->where, line->write, line->worst)};
  }
  return result;
}

}  // namespace fa::lab
