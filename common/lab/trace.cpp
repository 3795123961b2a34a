#include "common/lab/trace.hpp"

#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/data/files.hpp"
#include "common/lab/banks.hpp"
#include "common/lab/watch.hpp"

namespace fa::lab {

#if defined(FA_HAS_WATCHED_LAB)
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
#else  // on macOS, and with sanitizers
std::optional<Trace> trace(const TraceName&, const std::vector<TracedProblem>&) {
  return std::nullopt;
}
#endif

std::optional<Trace> trace(const TraceName& name, const std::function<void()>& work) {
  return trace(name, {{"", work}});
}

std::string unreached(const Coverage& coverage) {
  std::map<std::string, std::set<int>> files;
  for (const std::string& line : coverage.lines) {
    if (!kLinesAreKnown || coverage.reached.count(line) > 0) continue;
    const std::size_t colon = line.rfind(':'), slash = line.rfind('/') + 1;
    files[line.substr(slash, colon - slash)].insert(std::atoi(line.c_str() + colon + 1));
  }
  std::string text;
  for (const auto& [file, lines] : files) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : "; ", file, fmt::join(lines, ", "));
  }
  return text;
}

std::string unreached_text(const Coverage& coverage) {
  if (coverage.lines.empty()) {
    return "The lines that were never reached are unknown: this program has no symbols.\n";
  }
  const std::string lines = unreached(coverage);
  return lines.empty() ? kAllReached : fmt::format("Never reached: {}\n", lines);
}

void TraceFiles::add(const Trace& trace) {
  json_ += (json_.empty() ? "[" : ",\n") + trace.json;
  const auto& banks = trace.banks;
  if (banks && (!worst_ || conflicts_more(banks->wavefronts, banks->ideal, worst_->wavefronts,
                                          worst_->ideal))) {
    worst_ = banks;
  }
}

void TraceFiles::write(const std::string& json, const std::string& svg) const {
  if (!json.empty()) {
    write_file(json, json_ + "]\n");
    fmt::print("Report as JSON: {}\n", printable(json));
  }
  if (svg.empty()) return;
  if (!worst_) {
    fmt::print("No shared memory is used: there are no banks to draw.\n");
    return;
  }
  write_file(svg, worst_->svg);
  fmt::print("Bank conflicts of {}: {}\n", worst_->where, printable(svg));
}

}  // namespace fa::lab
