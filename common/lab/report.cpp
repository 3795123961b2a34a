#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/data/files.hpp"
#include "common/lab/watch.hpp"

namespace fa::lab {

const LineTraffic* Report::worst_shared() const {
  const LineTraffic* worst = nullptr;
  for (const LineTraffic& line : traffic) {
    if (!line.shared) continue;
    if (worst == nullptr ||
        conflicts_more(line.wavefronts, line.ideal, worst->wavefronts, worst->ideal)) {
      worst = &line;
    }
  }
  return worst;
}

namespace {
// A text in lines of up to 78 columns, each indented by two.
std::string wrapped(const std::string& text) {
  constexpr std::size_t columns = 78;
  std::string result, line = " ";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (line.size() > 1 && line.size() + 1 + word.size() > columns) {
      result += line + "\n";
      line = " ";
    }
    if (!word.empty()) line += " " + word;
    if (text[end] == '\n') result += std::exchange(line, " ") + "\n";
    begin = end + 1;
  }
  return result + line + "\n";
}
}  // namespace

Report Report::without(const std::string& kind) const {
  Report result = *this;
  auto& all = result.findings;
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const Finding& finding) { return finding.kind == kind; }),
            all.end());
  return result;
}

std::string Report::findings_text() const {
  std::string text = findings.empty() ? "Nothing wrong was seen.\n"
                                      : fmt::format("{} finding{}:\n", findings.size(),
                                                    findings.size() == 1 ? "" : "s");
  std::set<std::string> told;  // advice
  for (Finding finding : findings) {
    const std::size_t end = std::min(finding.message.find("; "), finding.message.size());
    std::string advice = finding.message.substr(end);
    std::replace_if(
        advice.begin(), advice.end(), [](char c) { return c >= '0' && c <= '9'; }, '0');
    if (!advice.empty() && !told.insert(finding.kind + advice).second) {
      finding.message.replace(end, std::string::npos, "; probably of the same cause as above");
    }
    text += fmt::format("\n{}: {}", finding.kind, finding.where);
    if (!finding.caller.empty()) {
      text += fmt::format("\n  called from {}", finding.caller);
    }
    if (!finding.other.empty()) {
      text += fmt::format("\n  and {}", finding.other);
    }
    text += "\n" + wrapped(finding.count > 1
                               ? fmt::format("{} ({} times)", finding.message, finding.count)
                               : finding.message);
    if (!finding.seen.empty()) text += wrapped("seen with " + finding.seen);
  }
  return text;
}

std::string Report::text() const {
  std::string text = findings_text();
  std::size_t width = 4;
  for (const LineTraffic& line : traffic) width = std::max(width, line.where.size() + 6);
  for (const bool shared : {false, true}) {
    text += fmt::format(
        "\n{} memory\n{:>8}  {:>8}  {:>8}  {:>11}  {:>10}  {:>10}  line\n"
        "{:->8}  {:->8}  {:->8}  {:->11}  {:->10}  {:->10}  {:->{}}\n",
        shared ? "shared" : "global", "requests", "diverged", "atomics", "bytes",
        shared ? "wavefronts" : "sectors", "at best", "", "", "", "", "", "", "", width);
    for (const LineTraffic& line : traffic) {
      if (line.shared != shared) continue;
      text += fmt::format("{:>8}  {:>8}  {:>8}  {:>11}  {:>10}  {:>10}  {} {}\n", line.requests,
                          line.diverged, line.atomics, line.bytes,
                          shared ? line.wavefronts : line.sectors, line.ideal,
                          line.write ? "write" : "read ", line.where);
    }
  }
  return text;
}

std::string Report::json() const {
  std::string text = "{\"findings\": [";
  for (const Finding& finding : findings) {
    text += fmt::format(
        "{}{{\"kind\": {}, \"where\": {}, \"caller\": {}, \"other\": {}, "
        "\"message\": {}, \"count\": {}{}}}",
        &finding == findings.data() ? "" : ", ", json_text(finding.kind), json_text(finding.where),
        json_text(finding.caller), json_text(finding.other), json_text(finding.message),
        finding.count,
        finding.seen.empty() ? "" : fmt::format(", \"seen\": {}", json_text(finding.seen)));
  }
  text += "], \"traffic\": [";
  for (const LineTraffic& line : traffic) {
    text += fmt::format(
        "{}{{\"where\": {}, \"memory\": \"{}\", \"access\": \"{}\", "
        "\"requests\": {}, \"diverged\": {}, \"atomics\": {}, \"bytes\": {}, "
        "\"sectors\": {}, \"wavefronts\": {}, \"ideal\": {}}}",
        &line == traffic.data() ? "" : ", ", json_text(line.where),
        line.shared ? "shared" : "global", line.write ? "write" : "read", line.requests,
        line.diverged, line.atomics, line.bytes, line.sectors, line.wavefronts, line.ideal);
  }
  return text + "]}";
}

}  // namespace fa::lab
