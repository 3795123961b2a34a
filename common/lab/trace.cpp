#include "common/lab/trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/data/files.hpp"
#include "common/lab/banks.hpp"
#include "common/lab/watch.hpp"

namespace fa::lab {

namespace {

Report watched(const std::function<void()>& work) {
  const Watch watch;
  work();
  return watch.report();
}

// Adds what was found with one more problem.
void add(std::vector<Finding>& findings, const Finding& finding) {
  for (Finding& known : findings) {
    if (known.kind == finding.kind && known.where == finding.where &&
        known.other == finding.other) {
      known.count += finding.count;
      known.seen += "; " + finding.seen;
      return;
    }
  }
  findings.push_back(finding);
}

}  // namespace

std::optional<Trace> trace(const TraceName& name, const std::function<void()>& work) {
  return trace(name, {{"", work}});
}

std::optional<Trace> trace(const TraceName& name, const std::vector<TracedProblem>& problems) {
  Report report;
  for (const TracedProblem& problem : problems) {
    const bool first = &problem == problems.data();
    Report next = watched(problem.work);
    if (first) report.traffic = std::move(next.traffic);
    for (Finding& finding : next.findings) {
      if (problems.size() > 1) finding.seen = problem.name;
      add(report.findings, finding);
    }
    report.coverage.add(next.coverage);
  }
  Trace result;
  result.coverage = report.coverage;
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
    shapes += fmt::format("{}[{}]", shapes.empty() ? "" : ", ", fmt::join(input, ", "));
  }
  result.text = report.text();
  std::string sizes;
  for (const TracedProblem& problem : problems) {
    sizes += (sizes.empty() ? "" : ", ") + json_text(problem.name);
  }
  result.json = fmt::format(
      "{{\"kernel\": {}, \"group\": {}, \"inputs\": [{}], "
      "\"problems\": [{}], \"never_reached\": {}, "
      "\"global_bytes\": {}, \"sectors\": {}, \"sectors_ideal\": {}, "
      "\"wavefronts\": {}, \"wavefronts_ideal\": {}, {}",
      json_text(name.kernel), json_text(name.group), shapes, sizes,
      json_text(unreached(result.coverage)), result.global_bytes, result.sectors,
      result.sectors_ideal, result.wavefronts, result.wavefronts_ideal, report.json().substr(1));
  if (const LineTraffic* line = report.worst_shared()) {
    result.banks = {line->wavefronts, line->ideal, line->where,
                    draw_banks(fmt::format("{}, {}", name.kernel, name.group), line->where,
                               line->write, line->worst)};
  }
  return result;
}

}  // namespace fa::lab
