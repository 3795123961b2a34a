/// @file
/// Problems for the calls of the C interfaces of lessons 05 and 06 as lines of text: at random, or
/// given. For example
///
///     call=backward_functor type=bfloat16 heads=4/2 lengths=65x130 kind=bias mask=-inf where=rows
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/attention/host/problem.hpp"
#include "common/tensor/random.hpp"

namespace fa::attention {

using Text = std::string;
using Texts = std::vector<Text>;

inline const Texts kCalls{"forward", "functor",  "packed",           "decode",
                          "append",  "backward", "backward_functor", "backward_packed"};
inline const Texts kKinds{"plain",    "causal", "window", "prefix",       "documents", "alibi",
                          "soft_cap", "bias",   "sinks",  "block_sparse", "bits"};
// What a line does not say. draw: further values with the same seed for all else; window: left and right, or `random`; block: of kind block_sparse; sequences: of packed calls, with at most so
// many queries and keys as `lengths` says; ragged: sequences of a cache have lengths of their own;
// page: keys of a page, 0 for none; packed: queries of a decode call, up to so many in each sequence;
// kernel: an fa_decode_kernel; gap: elements between rows; slopes: a factor, sinks: of every
// other head; mask: a bias where `where` says; lacks: what a suite asks for and no call has.
constexpr const char* kUsual =
    "call=forward type=bfloat16 batch=1 heads=1/1 lengths=64x64 head_dim=64 head_dim_v=0 causal=0 "
    "dropout=0 layout=heads values=normal gap=0 seed=1 draw=0 workspace=1 deterministic=0 "
    "kind=plain "
    "window=-1/-1 prefix=0 cap=20 block=64 biases=1x1 slopes=1 sinks=normal mask=none where=all "
    "sequences=3 ragged=1 page=0 packed=0 kernel=0 asks=nothing lacks=nothing";

inline Texts split(const Text& text, char at) {
  Texts parts;
  std::istringstream in(text);
  for (Text part; std::getline(in, part, at);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// A problem.
struct Line {
  std::map<Text, Text> given;

  static const std::map<Text, Text>& usual() {
    static const std::map<Text, Text> all = fields(kUsual);
    return all;
  }
  static std::map<Text, Text> fields(const Text& text) {
    std::map<Text, Text> result;
    for (const Text& part : split(text, ' ')) {
      const std::size_t at = part.find('=');
      if (at == Text::npos) throw std::invalid_argument(part + ": must be NAME=VALUE");
      result[part.substr(0, at)] = part.substr(at + 1);
    }
    return result;
  }
  explicit Line(const Text& text = "") : given(fields(text)) {
    for (const auto& field : given) {
      if (usual().count(field.first) == 0) {
        throw std::invalid_argument("a problem has no '" + field.first + "', but " + kUsual);
      }
    }
  }
  Text operator[](const Text& name) const {
    const auto found = given.find(name);
    return found != given.end() ? found->second : usual().at(name);
  }
  double number(const Text& name) const { return std::stod((*this)[name]); }
  std::int64_t integer(const Text& name) const { return std::stoll((*this)[name]); }
  // The two numbers of "4/2" or "65x130".
  std::pair<std::int64_t, std::int64_t> pair(const Text& name) const {
    const Text both = (*this)[name];
    return {std::stoll(both), std::stoll(both.substr(both.find_first_of("/x") + 1))};
  }
  Text text() const {
    Text all = "call=" + (*this)["call"];
    for (const auto& [name, value] : given) {
      if (name != "call") all += " " + name + "=" + value;
    }
    return all;
  }
  bool is(const Text& name, const Text& value) const { return (*this)[name] == value; }
  bool is_functor() const { return (*this)["call"].find("functor") != Text::npos; }

  std::uint64_t seed() const { return std::stoull((*this)["seed"]); }
  std::uint64_t value_seed() const { return seed() + 1000000 * std::stoull((*this)["draw"]); }
  Values values() const {
    return is("values", "large")    ? Values::kLarge
           : is("values", "rising") ? Values::kRising
                                    : Values::kNormal;
  }
  Problem problem() const {
    const auto [heads, kv_heads] = pair("heads");
    const auto [length_q, length_k] = pair("lengths");
    const Type type = is("type", "float32")   ? Type::kFloat32
                      : is("type", "float16") ? Type::kFloat16
                                              : Type::kBFloat16;
    Problem p = problem_of(
        type, {integer("batch"), heads, kv_heads, length_q, length_k, integer("head_dim")},
        is("causal", "1"), number("dropout"));
    p.seed = seed();
    if (integer("head_dim_v") != 0) p.head_dim_v = integer("head_dim_v");
    if (is("layout", "length")) p.layout = Layout::kLengthFirst;
    return p;
  }
  // The arguments for which the call must be refused.
  Texts not_allowed() const {
    if (!is("lacks", "nothing")) return {(*this)["lacks"]};
    const Problem p = problem();
    const std::int64_t d = p.shape.head_dim;
    Texts names;
    const auto unless = [&](bool allowed, const char* name) {
      if (!allowed) names.emplace_back(name);
    };
    const bool any = is("call", "forward") || is("call", "backward") || is("call", "append");
    unless(d % 8 == 0 && d <= (any ? 256 : 128), "head_dim");
    unless(supports_head_dim_v(d, p.columns_v()), "head_dim_v");
    unless(any || p.type != Type::kFloat32, "type");
    unless(any || p.dropout == 0, "dropout");
    unless(!is_functor() || !p.causal, "causal");
    unless(integer("page") % 16 == 0, "page_size");
    const bool deterministic = is("call", "backward_functor") || is("call", "backward_packed");
    unless(!deterministic || is("deterministic", "0"), "deterministic");
    return names;
  }
};

// A random problem; on a GPU a larger one.
inline Line random_line(std::uint64_t seed, std::int64_t index, bool large) {
  std::mt19937_64 random(random_bits(seed, static_cast<std::uint64_t>(index)));
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const auto one_of = [&](const char* words) {
    const Texts all = split(words, ' ');
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  };
  const std::int64_t longest = large ? 400 : 130;
  const auto length = [&] {
    static const std::int64_t edges[] = {1,  2,  3,  15, 16, 17,  31,  32,  33,  47,  63,
                                         64, 65, 80, 95, 96, 127, 128, 129, 191, 257, 385};
    return below(3) == 0 ? std::min(edges[below(std::size(edges))], longest) : 1 + below(longest);
  };
  Line line;
  const auto set = [&](const char* name, const auto& value) {
    const Text text = fmt::format("{}", value);
    if (text != Line::usual().at(name)) line.given[name] = text;
  };
  const Text call = kCalls[static_cast<std::size_t>(index) % kCalls.size()];
  set("call", call);
  set("seed", 1 + below(1000000));
  const bool any = call == "forward" || call == "backward" || call == "append";
  set("type",
      any || below(30) == 0 ? one_of("float32 float16 bfloat16") : one_of("float16 bfloat16"));
  set("head_dim", below(20) == 0 ? 1 + below(256) : 8 * (1 + below(any && large ? 32 : 16)));
  const std::int64_t kv_heads = 1 + below(2), group = 1 + below(below(4) == 0 ? 8 : 3);
  std::int64_t length_q = length(), length_k = length();
  if (call == "decode" && below(4) != 0) length_q = 1 + below(8);
  if (below(6) == 0) length_q = 1 + below(8), length_k = 1 + below(10 * longest);  // few queries
  // Eigen multiplies a single row in another order, which is more exact than the textbook's.
  if (line.is("type", "float32")) length_q = std::max<std::int64_t>(length_q, 2);
  set("heads", fmt::format("{}/{}", kv_heads * group, kv_heads));
  set("lengths", fmt::format("{}x{}", length_q, length_k));
  const bool is_packed = call == "packed" || call == "backward_packed";
  if (is_packed) {
    set("sequences", 1 + below(5));
  } else {
    set("batch", 1 + below(length_q * length_k > 30000 ? 1 : 2));
    set("layout", one_of("heads length"));
    set("gap", 8 * below(3));
  }
  set("values", one_of("normal normal normal normal normal large rising"));
  set("workspace", below(2));
  if (call == "backward") set("deterministic", below(2));
  if (any && call != "append" && below(3) == 0) set("dropout", fmt::format("0.{:02}", below(90)));
  if (call == "decode" || call == "append") {
    set("page", one_of("0 0 16 64 128"));
    set("ragged", below(2));
  }
  if (call == "decode") {
    set("packed", below(3) == 0 ? 1 : 0);
    set("kernel", one_of("0 7"));
    set("asks", one_of("nothing nothing window sinks parts tree"));
    if (line.is("asks", "tree")) line.given.erase("packed");
  }
  if (!line.is_functor()) {
    set("causal", line.is("asks", "tree") ? 0 : below(2));
    return line;
  }
  const auto turn = static_cast<std::size_t>(index) / kCalls.size();  // every kind in turn
  const Text kind = kKinds[turn % kKinds.size()];
  set("kind", kind);
  const auto side = [&] {
    return below(3) == 0 ? one_of("-1 0 1000000000") : std::to_string(below(length_k));
  };
  if (kind == "window" || below(2) == 0) set("window", side() + "/" + side());
  set("prefix", kind != "prefix" ? 0 : below(4) == 0 ? 1000000000 : below(length_k + 9));
  if (kind == "block_sparse") set("block", one_of("1 7 16 40 64 128 1000 1000000000"));
  if (kind == "soft_cap") set("cap", one_of("0.05 1.25 20 50 1e4"));
  if (kind == "alibi") set("slopes", one_of("1 1 0 1e-6 -1 10 1e3"));
  if (kind == "sinks") set("sinks", one_of("normal normal normal 30 -30 1e4 -1e9 -inf"));
  if (kind != "bias") return line;
  set("biases", one_of("1x1 2x1 1x2 2x2"));
  // Lesson 01 in float16 stores scores below -65504 as -infinity.
  set("mask",
      one_of(line.is("type", "float16") ? "none -inf -1e4" : "none -inf -1e4 -1e9 -3.3895e38"));
  if (!line.is("mask", "none")) set("where", one_of("all tail head rows keys elements above"));
  return line;
}

// A problem, and the row of the table that it counts in.
struct Case {
  Text row;
  Line line;
};
// Adds a problem for each combination of values that stand beside each other: type=float16,bfloat16
inline void add_product(std::vector<Case>& to, const Text& row, const Text& text) {
  std::vector<Line> lines(1);
  for (const auto& [name, values] : Line::fields(text)) {
    std::vector<Line> longer;
    for (const Text& value : split(values, ',')) {
      for (Line line : lines) {
        line.given[name] = value;
        longer.push_back(std::move(line));
      }
    }
    lines = std::move(longer);
  }
  for (const Line& line : lines) to.push_back({row, Line(line.text())});
}

}  // namespace fa::attention
