/// @file
/// SVG pictures, element by element: escaped text, numbers that are the same on every machine, one
/// style.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace fa {

/// A picture that grows. Later elements cover earlier ones.
class Svg {
 public:
  /// What is behind the picture.
  enum class Paper {
    kWhite,    ///< a white panel, on dark pages too
    kAdaptive  ///< light or dark as the reader's system, in the colours of svg.cpp's classes
  };

  /// A number as pictures have it: two digits after the point at most, one from 10 on, and no
  /// needless zeros.
  /// @throws std::invalid_argument for NaN and infinity
  static std::string number(double value);

  /// An attribute of an element: a text, which is escaped, or a number.
  struct Attribute {
    /// @cond
    Attribute(std::string key, std::string text) : name(std::move(key)), value(std::move(text)) {}
    template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
    Attribute(std::string key, Number number)
        : name(std::move(key)), value(Svg::number(static_cast<double>(number))) {}
    std::string name, value;
    /// @endcond
  };
  /// Those of an element, in their order.
  using Attributes = std::vector<Attribute>;

  /// @param title       what the picture shows, for screen readers
  /// @param description more of it; may be empty
  explicit Svg(std::string title, Paper paper = Paper::kWhite, std::string description = "");

  /// Adds an element with a text in it, or without.
  void element(const std::string& name, const Attributes& attributes, const std::string& text = "");
  /// Begins an element that others are in.
  void open(const std::string& name, const Attributes& attributes);
  /// Ends the one that was begun last.
  /// @throws std::logic_error when there is none
  void close();

  /// A rectangle with a corner at (x, y).
  void rect(double x, double y, double width, double height, const Attributes& more = {});
  /// A line from (x1, y1) to (x2, y2).
  void line(double x1, double y1, double x2, double y2, const Attributes& more = {});
  /// Words from (x, y) on, or up to there or around it by text-anchor.
  void text(double x, double y, const std::string& words, const Attributes& more = {});

  /// The file's text.
  /// @throws std::logic_error while an element is open
  std::string str(double width, double height) const;

 private:
  std::string title_, description_;
  Paper paper_;
  std::string body_;
  std::vector<std::string> open_;
};

}  // namespace fa
