#include <fmt/format.h>

#include "common/files/escape.hpp"
#include "common/files/write_file.hpp"
#include "common/lab/banks.hpp"
#include "common/lab/trace.hpp"

namespace fa::lab {

std::string launch_line(const std::string& kernel, const std::string& group,
                        std::int64_t size, const std::string& machine,
                        const std::optional<Trace>& report) {
  return fmt::format(
      "{{\"kernel\": \"{}\", \"group\": \"{}\", \"size\": {}, "
      "\"machine\": \"{}\"{}}}\n",
      kernel, group, size, machine,
      report ? ", \"report\": " + report->json : "");
}

void TraceFiles::add(const Trace& trace) {
  json_ += (json_.empty() ? "[" : ",\n") + trace.json;
  const auto& banks = trace.banks;
  if (banks &&
      (!worst_ || conflicts_more(banks->wavefronts, banks->ideal,
                                 worst_->wavefronts, worst_->ideal))) {
    worst_ = banks;
  }
}

void TraceFiles::write(const std::string& json,
                       const std::string& svg) const {
  if (!json.empty()) {
    write_file(json, json_ + "]\n");
    fmt::print("The report for programs: {}\n", printable(json));
  }
  if (svg.empty()) return;
  if (!worst_) {
    fmt::print("No shared memory is used: there are no banks to draw.\n");
    return;
  }
  write_file(svg, worst_->svg);
  fmt::print("The banks that {} asks for: {}\n", worst_->where,
             printable(svg));
}

}  // namespace fa::lab
