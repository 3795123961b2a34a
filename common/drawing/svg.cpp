#include "common/drawing/svg.hpp"

#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace fa {
namespace {

// The classes of Paper::kAdaptive.
constexpr const char* kStyle =
    "<style>\n"
    ".paper { fill: #ffffff } text { fill: #1a1a1a } .quiet { fill: #59636e }\n"
    ".main { fill: #0b5cad } .pale { fill: #9cc3ea }\n"
    ".grid { stroke: #d1d9e0 } .axis { stroke: #888888 }\n"
    ".curve { fill: none; stroke: #0b5cad; stroke-width: 2 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".paper { fill: #16191d } text { fill: #e6e6e6 } .quiet { fill: #9198a1 }\n"
    ".main { fill: #6cb6ff } .pale { fill: #31506e }\n"
    ".grid { stroke: #3d444d } .curve { stroke: #6cb6ff }\n"
    "}\n"
    "</style>\n";

// UTF-8 escaped for XML, between tags or in quotes. Control characters, which XML does not allow,
// become spaces.
std::string xml_text(const std::string& text) {
  static const std::map<char, const char*> names{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string result;
  for (const char c : text) {
    const auto name = names.find(c);
    const bool control = static_cast<unsigned char>(c) < 0x20;
    result += name != names.end() ? name->second : std::string(1, control ? ' ' : c);
  }
  return result;
}

std::string tag(const std::string& name, const Svg::Attributes& attributes) {
  std::string text = "<" + name;
  for (const Svg::Attribute& attribute : attributes) {
    text += fmt::format(" {}=\"{}\"", attribute.name, xml_text(attribute.value));
  }
  return text;
}

}  // namespace

std::string Svg::number(double value) {
  if (!std::isfinite(value)) {
    throw std::invalid_argument("a picture with a number that is not finite");
  }
  std::string text = fmt::format("{:.{}f}", value, std::abs(value) < 9.995 ? 2 : 1);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

Svg::Svg(std::string title, Paper paper, std::string description)
    : title_(std::move(title)), description_(std::move(description)), paper_(paper) {}

void Svg::element(const std::string& name, const Attributes& attributes, const std::string& text) {
  body_ += tag(name, attributes);
  body_ += text.empty() ? "/>\n" : fmt::format(">{}</{}>\n", xml_text(text), name);
}

void Svg::open(const std::string& name, const Attributes& attributes) {
  body_ += tag(name, attributes) + ">";
  open_.push_back(name);
}

void Svg::close() {
  if (open_.empty()) throw std::logic_error("no element is open");
  body_ += fmt::format("</{}>\n", open_.back());
  open_.pop_back();
}

void Svg::rect(double x, double y, double width, double height, const Attributes& more) {
  Attributes all{{"x", x}, {"y", y}, {"width", width}, {"height", height}};
  all.insert(all.end(), more.begin(), more.end());
  element("rect", all);
}

void Svg::line(double x1, double y1, double x2, double y2, const Attributes& more) {
  Attributes all{{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}};
  all.insert(all.end(), more.begin(), more.end());
  element("line", all);
}

void Svg::text(double x, double y, const std::string& words, const Attributes& more) {
  Attributes all{{"x", x}, {"y", y}};
  all.insert(all.end(), more.begin(), more.end());
  element("text", all, words);
}

std::string Svg::str(double width, double height) const {
  if (!open_.empty()) {
    throw std::logic_error(fmt::format("<{}> is still open", open_.back()));
  }
  std::string text =
      tag("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                  {"width", width},
                  {"height", height},
                  {"viewBox", fmt::format("0 0 {} {}", number(width), number(height))},
                  {"font-family", "system-ui, sans-serif"},
                  {"font-size", 12},
                  {"fill", "#222222"},
                  {"role", "img"}}) +
      fmt::format(">\n<title>{}</title>\n", xml_text(title_));
  if (!description_.empty()) {
    text += fmt::format("<desc>{}</desc>\n", xml_text(description_));
  }
  text += paper_ == Paper::kAdaptive ? fmt::format(
                                           "{}<rect class=\"paper\" width=\"100%\" "
                                           "height=\"100%\"/>\n",
                                           kStyle)
                                     : "<rect width=\"100%\" height=\"100%\" rx=\"6\" "
                                       "fill=\"#ffffff\"/>\n";
  return text + body_ + "</svg>\n";
}

}  // namespace fa
