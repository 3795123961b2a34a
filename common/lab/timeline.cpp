#include "common/lab/timeline.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "common/files/escape.hpp"

namespace fa::lab {
namespace {

using Kind = Span::Kind;

constexpr int kWarpsOfGroup = 4;
constexpr double kWidth = 760, kLeft = 88, kRight = 14;
constexpr double kRow = 20, kGap = 7, kHead = 54;

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
    case Kind::kWaitsForProducts:
      return {"waits for products", nullptr};
    case Kind::kWaitsForStores:
      return {"waits for stores", "#dcdcdc"};
    case Kind::kAdds:
      return {"adds", "#e0a3bd"};
    case Kind::kWrites:
      return {"writes", "#f5e9a8"};
    case Kind::kScores:
      return {"scores", "#8fbce6"};
    case Kind::kByColumns:
      return {"by columns", "#7fd0c7"};
    case Kind::kOutput:
      return {"output", "#a5d28f"};
    case Kind::kLoad:
      return {"load", "#e5d6f0"};
    case Kind::kBulkAdd:
      return {"bulk addition", "#e0a3bd"};
    default:
      return {"store", "#f5e9a8"};
  }
}

// A number for SVG: at most one digit after the point.
std::string number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) {
    text.erase(text.size() - 2);
  }
  return text == "-0" ? "0" : text;
}

// Spans of one warp that follow each other without a gap become one.
std::vector<Span> joined(const std::vector<Span>& spans) {
  constexpr double gap = 0.5;  // cycles
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() && result.back().kind == span.kind &&
        result.back().warp == span.warp &&
        span.begin - result.back().end < gap) {
      result.back().end = span.end;
    } else {
      result.push_back(span);
    }
  }
  return result;
}

class Canvas {
 public:
  explicit Canvas(double cycles)
      : scale_((kWidth - kLeft - kRight) / std::max(cycles, 1.0)) {}

  void text(double x, double y, const std::string& words,
            const std::string& more = "") {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", number(x),
                         number(y), more, xml_text(words));
  }
  void span(const Span& span, double y, double height) {
    const char* const colour = look_of(span.kind).colour;
    if (colour == nullptr) return;
    box(x_of(span.begin), y, (span.end - span.begin) * scale_, height,
        colour);
  }
  void box(double x, double y, double width, double height,
           const char* colour) {
    body_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
        number(x), number(y), number(std::max(width, 0.4)), number(height),
        colour);
  }
  void line(double x1, double y1, double x2, double y2, const char* more) {
    body_ +=
        fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n",
                    number(x1), number(y1), number(x2), number(y2), more);
  }
  double x_of(double cycle) const { return kLeft + cycle * scale_; }
  double width_of(const Span& span) const {
    return (span.end - span.begin) * scale_;
  }
  const std::string& body() const { return body_; }

 private:
  double scale_;
  std::string body_;
};

constexpr const char* kLabel = " text-anchor=\"end\" font-size=\"11\"";
constexpr const char* kSmall = " font-size=\"10\" fill=\"#555555\"";

// Copies of one warp that follow each other without a gap, of one tensor: the panels of a tile; and runs of bytes that
// come with it. Additions have another place.
std::vector<Span> tiles_of(const std::vector<Span>& copies) {
  std::vector<Span> result;
  for (const Span& copy : copies) {
    if (copy.kind == Kind::kBulkAdd) continue;
    if (!result.empty() &&
        (result.back().tensor == copy.tensor || copy.tensor < 0) &&
        result.back().kind == copy.kind && result.back().warp == copy.warp &&
        copy.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, copy.end);
    } else {
      result.push_back(copy);
    }
  }
  return result;
}

// Draws copies in as many rows as are under way together, and gives the y below them.
double draw_copies(Canvas& canvas, const std::vector<Span>& copies,
                   const std::vector<std::string>& tensors, double y) {
  constexpr double height = 10;
  std::vector<double> free;  // when each row is
  for (const Span& copy : tiles_of(copies)) {
    const auto row = static_cast<std::size_t>(
        std::find_if(free.begin(), free.end(),
                     [&](double end) { return end <= copy.begin; }) -
        free.begin());
    if (row == free.size()) free.push_back(0);
    free[row] = copy.end;
    const double top = y + static_cast<double>(row) * (height + 1);
    canvas.span(copy, top, height);
    const auto tensor = static_cast<std::size_t>(copy.tensor);
    if (tensor < tensors.size() && canvas.width_of(copy) > 8) {
      canvas.text(canvas.x_of((copy.begin + copy.end) / 2), top + 8.5,
                  tensors[tensor], " text-anchor=\"middle\" font-size=\"9\"");
    }
  }
  canvas.text(kLeft - 8,
              y + (static_cast<double>(free.size()) * (height + 1)) / 2 + 4,
              "TMA", kLabel);
  return y + static_cast<double>(free.size()) * (height + 1);
}

// Draws one time line from y on, and gives the y below it.
double draw(Canvas& canvas, const NamedTimeline& one, const Legend& legend,
            double y) {
  const Timeline& timeline = one.timeline;
  canvas.text(kLeft, y + 14, one.name, " font-weight=\"bold\"");
  canvas.text(kLeft, y + 30,
              fmt::format("{:.0f} cycles, tensor cores busy for {:.0f} %",
                          timeline.cycles, 100 * timeline.tensor_share()));
  y += kHead;
  const double top = y;
  y = draw_copies(canvas, timeline.copies, legend.tensors, y) + kGap;
  for (const Lane& lane : lanes_of(timeline)) {
    const bool multiplies = lane.name.rfind("consumer", 0) == 0;
    canvas.text(kLeft - 8, y + kRow / 2 + 4, lane.name, kLabel);
    const double height = multiplies ? kRow / 2 : kRow * 0.6;
    if (multiplies) {  // above, what tensor cores do for it
      std::vector<Span> own;
      for (const Span& product : timeline.products) {
        if (product.warp == lane.warp) own.push_back(product);
      }
      for (const Span& span : joined(own)) canvas.span(span, y, height);
    }
    const double below = y + (multiplies ? height : kRow * 0.2);
    std::vector<Span> writes;  // of many steps that follow each other
    for (const Span& span : timeline.warps) {
      if (span.warp != lane.warp) continue;
      if (span.kind == Kind::kWrites) {
        writes.push_back(span);
      } else {
        canvas.span(span, below, height);
      }
    }
    for (const Span& span : joined(writes)) {
      canvas.span(span, below, height);
    }
    for (const Span& copy : timeline.copies) {
      if (copy.warp == lane.warp && copy.kind == Kind::kBulkAdd) {
        canvas.span(copy, y + kRow * 0.2, height);
      }
    }
    y += kRow + kGap;
  }
  canvas.text(kLeft - 8, y + kRow / 2 + 4, "tensor cores", kLabel);
  std::vector<Span> all = timeline.products;
  for (Span& span : all) span.warp = 0;
  for (const Span& span : joined(all)) canvas.span(span, y, kRow);
  y += kRow + 4;
  const char* const axis = "stroke=\"#999999\" stroke-width=\"0.8\"";
  canvas.line(kLeft, y, canvas.x_of(timeline.cycles), y, axis);
  const double step = canvas.width_of({Kind::kWork, 0, 2000, 0, 0}) > 44
                          ? 2000
                          : 4000;  // cycles
  for (double at = 0; at <= timeline.cycles; at += step) {
    canvas.line(canvas.x_of(at), y, canvas.x_of(at), y + 4, axis);
    canvas.text(canvas.x_of(at), y + 14, number(at),
                std::string(kSmall) + " text-anchor=\"middle\"");
  }
  for (const double begin : timeline.blocks) {
    if (begin == 0) continue;
    canvas.line(canvas.x_of(begin), top - 4, canvas.x_of(begin), y,
                "stroke=\"#b00020\" stroke-width=\"1.2\" "
                "stroke-dasharray=\"4 3\"");
    canvas.text(canvas.x_of(begin), top - 6, "next block",
                " text-anchor=\"middle\" font-size=\"10\" fill=\"#b00020\"");
  }
  return y + 34;
}

}  // namespace

std::vector<Lane> lanes_of(const Timeline& timeline) {
  std::set<int> multiply, copy, add;
  for (const Span& span : timeline.products) {
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
    lanes.push_back({copy.size() > 1
                         ? fmt::format("producer {}", lanes.size())
                         : "producer",
                     warp});
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

std::string draw_timelines(const std::vector<NamedTimeline>& timelines,
                           const Legend& legend, double cycles) {
  for (const NamedTimeline& one : timelines) {
    cycles = std::max(cycles, one.timeline.cycles);
  }
  Canvas canvas(cycles);
  double y = 10;
  for (const NamedTimeline& one : timelines) y = draw(canvas, one, legend, y);
  double x = 18;
  for (const auto& [kind, words] : legend.colours) {
    const double width = 34 + 5.7 * static_cast<double>(words.size());
    if (x + width > kWidth) {
      x = 18;
      y += 18;
    }
    canvas.box(x, y - 10, 14, 12, look_of(kind).colour);
    canvas.text(x + 19, y, words, " font-size=\"11\"");
    x += width;
  }
  canvas.text(18, y + 20,
              "A consumer's upper half: its matmuls on the tensor cores; "
              "lower half: its threads; white there: they wait for matmuls. "
              "Cycles of a model.",
              kSmall);
  const double height = y + 32;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
             "height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
             "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\" "
             "role=\"img\">\n<title>{2}: a model of who waits for "
             "whom</title>\n"
             "<rect width=\"{0}\" height=\"{1}\" rx=\"6\" "
             "fill=\"#ffffff\"/>\n",
             number(kWidth), number(height),
             xml_text(timelines.front().name)) +
         canvas.body() + "</svg>\n";
}

std::string timelines_json(const std::vector<NamedTimeline>& timelines,
                           const std::vector<std::string>& tensors) {
  std::string text;
  for (const NamedTimeline& one : timelines) {
    text += fmt::format(
        "{}\n{{\"name\": {}, \"cycles\": {:.1f}, \"tensor_busy\": {:.1f}, "
        "\"spans\": [",
        text.empty() ? "[" : ",", json_text(one.name), one.timeline.cycles,
        one.timeline.tensor_busy);
    bool first = true;
    const auto add = [&](const char* lane, const std::vector<Span>& spans) {
      for (const Span& span : spans) {
        const auto tensor = static_cast<std::size_t>(span.tensor);
        const bool copy =
            span.kind == Kind::kLoad || span.kind == Kind::kStore;
        text += fmt::format(
            "{}\n {{\"lane\": \"{}\", \"warp\": {}, \"kind\": \"{}\", "
            "\"begin\": {:.1f}, \"end\": {:.1f}{}}}",
            first ? "" : ",", lane, span.warp, look_of(span.kind).name,
            span.begin, span.end,
            copy && tensor < tensors.size()
                ? ", \"tensor\": " + json_text(tensors[tensor])
                : "");
        first = false;
      }
    };
    add("copies", one.timeline.copies);
    add("warps", one.timeline.warps);
    add("tensor cores", one.timeline.products);
    text += "]}";
  }
  return text + "]\n";
}

}  // namespace fa::lab
