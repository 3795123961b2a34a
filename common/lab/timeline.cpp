#include "common/lab/timeline.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "common/data/files.hpp"
#include "common/drawing/svg.hpp"

namespace fa::lab {
namespace {

using Kind = Span::Kind;

constexpr int kWarpsOfGroup = 4;
constexpr double kWidth = 760, kLeft = 88, kRight = 14;
constexpr double kRow = 20, kGap = 7, kHead = 54, kCopyRow = 13;
// Pixels. What threads do in less is not drawn, and gaps up to that are closed: stripes that no eye
// can read.
constexpr double kStripe = 4;

// Colours of the spans, on white paper.
struct Look {
  const char* name;    // for programs
  const char* colour;  // null: not drawn
};
Look look_of(Kind kind) {
  switch (kind) {
    case Kind::kWork:
      return {"work", "#f6b98a"};
    case Kind::kWaitsForCopy:
      return {"waits for copy", "#dcdcdc"};
    case Kind::kWaitsForOthers:
      return {"waits for others", "#dcdcdc"};
    case Kind::kWaitsForMatmuls:
      return {"waits for matmuls", nullptr};
    case Kind::kWaitsForStores:
      return {"waits for stores", "#dcdcdc"};
    case Kind::kScores:
      return {"scores", "#8fbce6"};
    case Kind::kByColumns:
      return {"by columns", "#7fd0c7"};
    case Kind::kOutput:
      return {"output", "#a5d28f"};
    case Kind::kLoad:
      return {"load", "#d9c2ea"};
    case Kind::kBulkAdd:
      return {"bulk addition", "#e0a3bd"};
    default:
      return {"store", "#f5e9a8"};
  }
}

// Spans of one warp that follow each other with at most so many cycles between them become one.
std::vector<Span> joined(const std::vector<Span>& spans, double gap = 0.5) {
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() && result.back().kind == span.kind && result.back().warp == span.warp &&
        span.begin - result.back().end < gap) {
      result.back().end = span.end;
    } else {
      result.push_back(span);
    }
  }
  return result;
}

// A picture with cycles to the right.
class Canvas {
 public:
  Canvas(const std::string& title, double cycles)
      : svg(title), scale_((kWidth - kLeft - kRight) / std::max(cycles, 1.0)) {}

  void span(const Span& span, double y, double height) {
    const char* const colour = look_of(span.kind).colour;
    if (colour == nullptr) return;
    box(x_of(span.begin), y, width_of(span), height, colour);
    if (width_of(span) >= 1) drawn_.insert(colour);
  }
  // Whether a span of this colour can be seen.
  bool has(const std::string& colour) const { return drawn_.count(colour) > 0; }
  double cycles_of(double pixels) const { return pixels / scale_; }
  void box(double x, double y, double width, double height, const char* colour) {
    svg.rect(x, y, std::max(width, 0.4), height, {{"fill", colour}});
  }
  // What a row is, beside it.
  void label(double y, const std::string& words) {
    svg.text(kLeft - 8, y, words, {{"text-anchor", "end"}});
  }
  double x_of(double cycle) const { return kLeft + cycle * scale_; }
  double width_of(const Span& span) const { return (span.end - span.begin) * scale_; }

  Svg svg;

 private:
  double scale_;
  std::set<std::string> drawn_;
};

// Copies of one warp that follow each other without a gap, of one tensor: the panels of a tile; and
// runs of bytes that come with it. Additions have another place.
std::vector<Span> tiles_of(const std::vector<Span>& copies) {
  std::vector<Span> result;
  for (const Span& copy : copies) {
    if (copy.kind == Kind::kBulkAdd) continue;
    if (!result.empty() && (result.back().tensor == copy.tensor || copy.tensor < 0) &&
        result.back().kind == copy.kind && result.back().warp == copy.warp &&
        copy.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, copy.end);
    } else {
      result.push_back(copy);
    }
  }
  return result;
}

// Draws copies in as many rows as are in flight together, and gives the y below them.
double draw_copies(Canvas& canvas, const std::vector<Span>& copies,
                   const std::vector<std::string>& tensors, double y) {
  std::vector<double> free;  // when each row is
  for (const Span& copy : tiles_of(copies)) {
    const auto row = static_cast<std::size_t>(
        std::find_if(free.begin(), free.end(), [&](double end) { return end <= copy.begin; }) -
        free.begin());
    if (row == free.size()) free.push_back(0);
    free[row] = copy.end;
    const double top = y + static_cast<double>(row) * (kCopyRow + 1);
    canvas.span(copy, top, kCopyRow);
    const auto tensor = static_cast<std::size_t>(copy.tensor);
    if (tensor < tensors.size() &&
        canvas.width_of(copy) > 7.5 * static_cast<double>(tensors[tensor].size())) {
      canvas.svg.text(canvas.x_of((copy.begin + copy.end) / 2), top + 10.5, tensors[tensor],
                      {{"text-anchor", "middle"}});
    }
  }
  const double height = static_cast<double>(free.size()) * (kCopyRow + 1);
  canvas.label(y + height / 2 + 4, "TMA");
  return y + height;
}

// Draws spans of one warp, those that follow each other as one. Gaps of up to `pixels` are closed,
// and what is narrower than they is left out.
void draw_joined(Canvas& canvas, const std::vector<Span>& spans,
                 const std::function<bool(const Span&)>& chosen, double y, double height,
                 double pixels = 0) {
  std::vector<Span> some;
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(some), chosen);
  for (const Span& span : joined(some, std::max(0.5, canvas.cycles_of(pixels)))) {
    if (canvas.width_of(span) >= pixels) canvas.span(span, y, height);
  }
}

// The part of a timeline before the second block.
Timeline first_block(Timeline timeline) {
  if (timeline.blocks.size() < 2) return timeline;
  const double end = timeline.blocks[1];
  for (std::vector<Span>* spans : {&timeline.copies, &timeline.warps, &timeline.matmuls}) {
    spans->erase(std::remove_if(spans->begin(), spans->end(),
                                [&](const Span& span) { return span.begin >= end; }),
                 spans->end());
    for (Span& span : *spans) span.end = std::min(span.end, end);
  }
  timeline.cycles = end;
  timeline.blocks.resize(1);
  return timeline;
}

// A warpgroup: above, what tensor cores do for it; below, what its threads do.
void draw_lane(Canvas& canvas, const Timeline& timeline, const Lane& lane, double y) {
  const auto own = [&](const Span& span) { return span.warp == lane.warp; };
  const bool multiplies = lane.name.rfind("consumer", 0) == 0;
  canvas.label(y + kRow / 2 + 4, lane.name);
  const double height = multiplies ? kRow / 2 : kRow * 0.6;
  if (multiplies) draw_joined(canvas, timeline.matmuls, own, y, height);
  const double below = y + (multiplies ? height : kRow * 0.2);
  for (const Kind kind :
       {Kind::kWaitsForCopy, Kind::kWaitsForOthers, Kind::kWaitsForStores, Kind::kWork}) {
    draw_joined(
        canvas, timeline.warps, [&](const Span& span) { return own(span) && span.kind == kind; },
        below, height, kStripe);
  }
  for (const Span& copy : timeline.copies) {
    if (own(copy) && copy.kind == Kind::kBulkAdd) canvas.span(copy, y + kRow * 0.2, height);
  }
}

// The axis of time.
void draw_axis(Canvas& canvas, const Timeline& timeline, double y) {
  const Svg::Attributes axis{{"stroke", "#999999"}, {"stroke-width", 0.8}};
  canvas.svg.line(kLeft, y, canvas.x_of(timeline.cycles), y, axis);
  double step = 2000;  // cycles; a number is up to 36 wide
  while (canvas.width_of({Kind::kWork, 0, step, 0, 0}) < 42) step *= 2;
  for (double at = 0; at <= timeline.cycles; at += step) {
    const double x = canvas.x_of(at);
    canvas.svg.line(x, y, x, y + 4, axis);
    canvas.svg.text(std::min(x, kWidth - 20), y + 16, fmt::format("{:.0f}", at),
                    {{"text-anchor", "middle"}, {"fill", "#555555"}});
  }
}

// Draws one timeline from y on, and gives the y below it.
double draw(Canvas& canvas, const NamedTimeline& one, const Timeline& timeline, double y) {
  const Timeline& whole = one.timeline;
  canvas.svg.text(kLeft, y + 14, one.name, {{"font-weight", "bold"}});
  canvas.svg.text(kLeft, y + 30,
                  fmt::format("{:.0f} cycles, {:.0f} % of the peak of the tensor cores{}",
                              whole.cycles, one.percent_of_peak(),
                              timeline.blocks.size() < whole.blocks.size()
                                  ? fmt::format("; the first of {} blocks", whole.blocks.size())
                                  : ""));
  const double top = y + kHead;
  y = draw_copies(canvas, timeline.copies, one.tensors, top) + kGap;
  for (const Lane& lane : lanes_of(timeline)) {
    draw_lane(canvas, timeline, lane, y);
    y += kRow + kGap;
  }
  canvas.label(y + kRow / 2 + 4, "matmuls");
  std::vector<Span> all = timeline.matmuls;
  for (Span& span : all) span.warp = 0;
  for (const Span& span : joined(all)) canvas.span(span, y, kRow);
  y += kRow + 4;
  draw_axis(canvas, timeline, y);
  return y + 34;
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

std::string draw_timelines(const std::vector<NamedTimeline>& timelines, const Legend& legend,
                           const std::string& source) {
  double cycles = 0;
  std::vector<Timeline> shown;
  for (const NamedTimeline& one : timelines) {
    shown.push_back(first_block(one.timeline));
    cycles = std::max(cycles, shown.back().cycles);
  }
  Canvas canvas(timelines.front().name + ": what one SM of a GPU did", cycles);
  double y = 10;
  for (std::size_t n = 0; n < timelines.size(); ++n) y = draw(canvas, timelines[n], shown[n], y);
  double x = 18;
  for (const auto& [kind, words] : legend) {
    if (!canvas.has(look_of(kind).colour)) continue;
    const double width = 30 + 7.2 * static_cast<double>(words.size());
    if (x + width > kWidth) {
      x = 18;
      y += 18;
    }
    canvas.box(x, y - 10, 14, 12, look_of(kind).colour);
    canvas.svg.text(x + 19, y, words);
    x += width;
  }
  // As wide as a phone.
  const std::string lines[] = {
      "A consumer's upper half: its matmuls on the tensor cores;",
      "lower half: its threads; empty there: they wait for matmuls.",
      "Cycles of one SM of " + source + ":",
      "a matmul is drawn from its issue, or the end of the one",
      "before, until the wait for it ends; a copy until the first wait",
      "for it ends. Of threads, what is shorter than 4 pixels is left out."};
  for (const std::string& line : lines) {
    y += 18;
    canvas.svg.text(18, y, line, {{"fill", "#555555"}});
  }
  return canvas.svg.str(kWidth, y + 14);
}

std::string timelines_json(const std::vector<NamedTimeline>& timelines) {
  std::string text;
  for (const NamedTimeline& one : timelines) {
    text += fmt::format(
        "{}\n{{\"name\": {}, \"cycles\": {:.1f}, \"peak_cycles\": {:.1f}, "
        "\"spans\": [",
        text.empty() ? "[" : ",", json_text(one.name), one.timeline.cycles, one.peak_cycles);
    bool first = true;
    const auto add = [&](const char* lane, const std::vector<Span>& spans) {
      for (const Span& span : spans) {
        const auto tensor = static_cast<std::size_t>(span.tensor);
        const bool copy = span.kind == Kind::kLoad || span.kind == Kind::kStore;
        text += fmt::format(
            "{}\n {{\"lane\": \"{}\", \"warp\": {}, \"kind\": \"{}\", "
            "\"begin\": {:.1f}, \"end\": {:.1f}{}}}",
            first ? "" : ",", lane, span.warp, look_of(span.kind).name, span.begin, span.end,
            copy && tensor < one.tensors.size() ? ", \"tensor\": " + json_text(one.tensors[tensor])
                                                : "");
        first = false;
      }
    };
    add("copies", one.timeline.copies);
    add("warps", one.timeline.warps);
    add("matmuls", one.timeline.matmuls);
    text += "]}";
  }
  return text + "]\n";
}

}  // namespace fa::lab
