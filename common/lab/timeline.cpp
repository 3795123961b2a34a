#include "common/lab/timeline.hpp"

#include <set>

#include <fmt/format.h>

#include "common/data/files.hpp"

namespace fa::lab {
namespace {

using Kind = Span::Kind;

constexpr int kWarpsOfGroup = 4;

// What a span is called.
const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kWork:
      return "work";
    case Kind::kWaitsForCopy:
      return "waits for copy";
    case Kind::kWaitsForOthers:
      return "waits for others";
    case Kind::kWaitsForMatmuls:
      return "waits for matmuls";
    case Kind::kWaitsForStores:
      return "waits for stores";
    case Kind::kScores:
      return "scores";
    case Kind::kByColumns:
      return "by columns";
    case Kind::kOutput:
      return "output";
    case Kind::kLoad:
      return "load";
    case Kind::kBulkAdd:
      return "bulk addition";
    default:
      return "store";
  }
}

}  // namespace

std::vector<Lane> lanes_of(const Timeline& timeline) {
  std::set<int> multiply, copy, add;
  for (const Span& span : timeline.matmuls) {
    multiply.insert(span.warp / kWarpsOfGroup * kWarpsOfGroup);
  }
  for (const Span& span : timeline.copies) {
    const int group = span.warp / kWarpsOfGroup * kWarpsOfGroup;
    if (span.kind == Kind::kLoad && multiply.count(group) == 0) {
      copy.insert(group);
    }
    if (span.kind == Kind::kBulkAdd && multiply.count(group) == 0) {
      add.insert(span.warp);
    }
  }
  std::vector<Lane> lanes;
  for (const int warp : copy) {
    lanes.push_back(
        {copy.size() > 1 ? fmt::format("producer {}", lanes.size()) : "producer", warp});
  }
  int number = 0;
  for (const int warp : multiply) {
    lanes.push_back({fmt::format("consumer {}", number++), warp});
  }
  number = 0;
  for (const int warp : add) {
    lanes.push_back({fmt::format("adder {}", number++), warp});
  }
  return lanes;
}

std::string trace_events(const std::vector<NamedTimeline>& timelines) {
  std::string text;
  const auto add = [&](const std::string& event) {
    text += fmt::format("{}\n{{{}}}", text.empty() ? "" : ",", event);
  };
  for (std::size_t process = 0; process < timelines.size(); ++process) {
    const NamedTimeline& one = timelines[process];
    add(fmt::format(
        "\"ph\": \"M\", \"pid\": {}, \"name\": \"process_name\", \"args\": {{\"name\": {}, "
        "\"cycles\": {:.1f}, \"peak_cycles\": {:.1f}}}",
        process, json_text(one.name), one.timeline.cycles, one.peak_cycles));
    const auto add_spans = [&](const char* lane, const std::vector<Span>& spans) {
      for (const Span& span : spans) {
        const auto tensor = static_cast<std::size_t>(span.tensor);
        const bool copies = span.kind == Kind::kLoad || span.kind == Kind::kStore;
        const std::string of = copies && tensor < one.tensors.size() ? one.tensors[tensor] : "";
        add(fmt::format(
            "\"ph\": \"X\", \"pid\": {}, \"tid\": \"{} of warp {}\", \"ts\": {:.1f}, "
            "\"dur\": {:.1f}, \"name\": \"{}\", \"args\": {{\"lane\": \"{}\", \"warp\": {}, "
            "\"tensor\": {}}}",
            process, lane, span.warp, span.begin, span.end - span.begin, name_of(span.kind), lane,
            span.warp, json_text(of)));
      }
    };
    add_spans("copies", one.timeline.copies);
    add_spans("warps", one.timeline.warps);
    add_spans("matmuls", one.timeline.matmuls);
  }
  return "{\"traceEvents\": [" + text + "\n]}\n";
}

}  // namespace fa::lab
