// Pictures: what is escaped, what is closed, and how numbers look.
#include "common/drawing/svg.hpp"

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

using namespace fa;

TEST_CASE("numbers of a picture have few digits and no needless zeros") {
  const std::pair<double, const char*> cases[] = {
      {0, "0"},      {-0.001, "0"},   {100, "100"},      {0.125, "0.12"},     {-0.5, "-0.5"},
      {9.996, "10"}, {12.34, "12.3"}, {-123.04, "-123"}, {1234567, "1234567"}};
  for (const auto& [number, text] : cases) CHECK(Svg::number(number) == text);
  CHECK_THROWS_AS(Svg::number(std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  CHECK_THROWS_AS(Svg::number(std::numeric_limits<double>::infinity()), std::invalid_argument);
}

TEST_CASE("a picture has its elements in their order") {
  Svg svg("t");
  svg.rect(1, 2, 3, 4.5, {{"fill", "#ffffff"}, {"fill-opacity", 0.25}});
  svg.open("g", {{"class", "main"}});
  svg.line(0, 0, 10, 20.5);
  svg.close();
  svg.text(5, 6, "words", {{"text-anchor", "end"}});
  const std::string text = svg.str(70, 80.5);
  CHECK(testing::contains(text, "width=\"70\" height=\"80.5\" viewBox=\"0 0 70 80.5\""));
  CHECK(testing::contains(text,
                          "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4.5\" fill=\"#ffffff\" "
                          "fill-opacity=\"0.25\"/>\n"
                          "<g class=\"main\"><line x1=\"0\" y1=\"0\" x2=\"10\" y2=\"20.5\"/>\n"
                          "</g>\n"
                          "<text x=\"5\" y=\"6\" text-anchor=\"end\">words</text>\n</svg>\n"));
  CHECK(text == svg.str(70, 80.5));
}

TEST_CASE("texts and attributes of a picture are escaped") {
  for (const auto paper : {Svg::Paper::kWhite, Svg::Paper::kAdaptive}) {
    Svg svg("a < b & \"c\"\a", paper, "<desc>");
    svg.open("g", {{"data-name", "x\" onclick=\"y"}});
    svg.text(1, 2, "]]> & QKᵀ");
    svg.close();
    const std::string text = svg.str(10, 20);
    for (const char* part : {"<title>a &lt; b &amp; &quot;c&quot; </title>", "<desc>&lt;desc&gt;",
                             "data-name=\"x&quot; onclick=&quot;y\"", ">]]&gt; &amp; QKᵀ<"}) {
      CHECK_MESSAGE(testing::contains(text, part), part);
    }
    CHECK(testing::contains(text, "prefers-color-scheme: dark") ==
          (paper == Svg::Paper::kAdaptive));
  }
}

TEST_CASE("a picture with an element that is not closed is a mistake") {
  Svg svg("t");
  CHECK_THROWS_AS(svg.close(), std::logic_error);
  svg.open("g", {});
  CHECK_THROWS_AS(svg.str(1, 1), std::logic_error);
  svg.close();
  CHECK_NOTHROW(svg.str(1, 1));
}
