#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/data/files.hpp"
#include "common/lab/banks.hpp"
#include "common/lab/trace.hpp"

namespace fa::lab {

std::string launch_line(const std::string& kernel, const std::string& group, std::int64_t size,
                        const std::string& backend, const std::optional<Trace>& report) {
  return fmt::format(
      "{{\"kernel\": \"{}\", \"group\": \"{}\", \"size\": {}, "
      "\"machine\": \"{}\"{}}}\n",
      kernel, group, size, backend, report ? ", \"report\": " + report->json : "");
}

std::string unreached(const Coverage& coverage) {
  std::map<std::string, std::set<int>> files;
  for (const std::string& line : coverage.lines) {
    if (coverage.reached.count(line) > 0) continue;
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
  return lines.empty() ? "Every line of the kernels was reached.\n"
                       : fmt::format("Never reached: {}\n", lines);
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
