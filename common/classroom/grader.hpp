/// @file
/// What graders of exercises are written with. A grader has one function for each stage. It is a
/// program without the student's code, which runs in a process of its own: the grader calls what
/// the exercise's entry offers, and says on a channel that only it has how the stage ended.
/// README.md has the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/classroom/entry.hpp"

namespace fa::classroom {

/// The score of a key that is not seen.
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Thrown by refuse(), with a message for the student.
struct Refused : std::runtime_error {
  using runtime_error::runtime_error;
};

/// Thrown by skip().
struct Skipped : Refused {
  using Refused::Refused;
};

/// Ends the stage: the answer is wrong. The message names the misconception, and where it shows.
[[noreturn]] void refuse(const std::string& message);

/// Ends the stage without a verdict, where this machine cannot give one, and tells the student why.
[[noreturn]] void skip(const std::string& why);

/// Refuses unless `holds`.
void require(bool holds, const std::string& message);

/// Tells the student, and the marks, a number that was counted; the name is in words.
void note(const std::string& name, std::int64_t value);

/// note(), and refuses a count above `most`: "{count} {what}, and {most} would do: {why}".
/// @param fewest what any kernel needs: with less, the lab has not seen all accesses
void budget(const std::string& what, std::int64_t count, std::int64_t most,
            const std::string& why = "", std::int64_t fewest = 0);

/// Shows the student a drawing, in place of the one before. A check prints that of the stage that
/// refuses; when all pass, the first one.
void show(const std::string& drawing);

/// Calls an entry of the student's process with packed arguments; the stage ends when it crashes or
/// fails, with `on_crash` where that is given. Use call() or call_or().
std::string call_packed(const std::string& entry, const std::string& arguments,
                        const std::string& on_crash = "");

/// Calls an entry of the student's process.
/// @tparam R its result, of the same type as there
template <class R, class... Arguments>
R call(const std::string& entry, const Arguments&... arguments) {
  const std::string bytes = call_packed(entry, packed(arguments...));
  if constexpr (!std::is_void_v<R>) return unpacked<R>(bytes);
}

/// As call(), for cases in which one mistake crashes: its message, and then the crash.
template <class R, class... Arguments>
R call_or(const std::string& message, const std::string& entry, const Arguments&... arguments) {
  return unpacked<R>(call_packed(entry, packed(arguments...), message));
}

/// A function of the grader as an argument of call().
struct Function {
  std::uint32_t number;  ///< as call_packed() knows it
};

/// The path of the student's program.
const std::string& student_program();

/// Gives a function a number; see function().
Function known(std::function<std::string(const std::string&)> function);

/// A function for an entry's parameter Callback<R(Arguments...)>; its parameters are values.
template <class R, class... Arguments, class F>
Function function(F f) {
  return known([f](const std::string& bytes) {
    Wire wire(bytes);
    std::tuple<std::decay_t<Arguments>...> arguments;
    wire.pass(arguments);
    wire.end();
    const R result = std::apply(f, arguments);
    return packed(result);
  });
}

/// An implementation that a student's test is given.
struct Given {
  std::string name;  ///< in a message: "your test accepts NAME, which is wrong"
  bool right;        ///< whether it should accept it
  /// Whether it accepts it, and whether it was given NaN.
  std::function<std::pair<bool, bool>()> test;
};

/// Gives a student's test right and wrong implementations, in a random order, so that only
/// what they compute tells them apart. Refuses with the first of the list that the test judges
/// wrongly.
void in_random_order(const std::vector<Given>& all);

/// What the student has written behind `answer:` before the bug is fixed.
struct Evidence {
  std::vector<double> numbers;     ///< in their order; inf, -inf and nan are numbers, too
  std::vector<std::string> lines;  ///< of the file as it was at the start, where they are lines
};

/// The evidence; refuses when there is none yet, with a message that says what is asked for.
Evidence evidence(const std::string& what);

/// Whether two of the named lines hold these texts, in any order.
bool names_both(const Evidence& evidence, const std::vector<std::string>& one,
                const std::vector<std::string>& other);

/// A number for a message, with six digits.
std::string text(double x);

/// A typical wrong answer to a case: a message that names the misconception, and its result.
struct Mistake {
  std::string says;
  std::vector<double> result;
};

/// A table of numbers for check().
struct Table {
  std::string what;            ///< "o", for messages
  std::vector<double> values;  ///< row by row
  std::int64_t cols = 1;       ///< elements in a row
};

/// True when two lists are the same up to a tolerance; NaN is the same as NaN, infinities must be
/// equal.
bool agree(const std::vector<double>& a, const std::vector<double>& b, double tolerance);

/// What all wrong elements have in common, in words; empty when nothing is recognised.
std::string recognised(const Table& out, const std::vector<double>& reference, double tolerance);

/// Refuses unless the values agree with the reference. When they agree with a mistake instead, the
/// message is that mistake's; else it says how many are wrong and which is the worst.
/// @param reference as many numbers
/// @param tolerance largest absolute difference
/// @param mistakes  tried in their order
/// @param where     the case, "5 queries, 7 keys"
void check(const Table& out, const std::vector<double>& reference, double tolerance,
           const std::vector<Mistake>& mistakes, const std::string& where);

/// Names a stage, as in lesson.json; run() throws Refused or Skipped. Use FA_STAGE().
bool add_stage(const char* name, void (*run)());

/// A question of an exercise whose answer is a number.
struct Question {
  std::string name;   ///< as in the file of answers
  double truth = 0;   ///< counted, never typed
  double within = 0;  ///< how far an answer may be off, relatively
  /// Typical wrong numbers, each with its message.
  std::vector<std::pair<double, std::string>> mistakes;
};

/// A question whose answer must be exact.
inline Question exactly(std::string name, double truth,
                        std::vector<std::pair<double, std::string>> mistakes) {
  return {std::move(name), truth, 0, std::move(mistakes)};
}
/// A question whose answer may be off by a share of the truth.
inline Question nearly(double within, std::string name, double truth,
                       std::vector<std::pair<double, std::string>> mistakes) {
  return {std::move(name), truth, within, std::move(mistakes)};
}

/// Names the function that computes the answers to the questions. Use FA_QUESTIONS().
bool add_questions(std::vector<Question> (*ask)());

}  // namespace fa::classroom

/// FA_STAGE(easy) { ... }: what the stage of this name does.
#define FA_STAGE(name)                                                                         \
  static void stage_##name();                                                                  \
  static const bool stage_##name##_is_known = ::fa::classroom::add_stage(#name, stage_##name); \
  static void stage_##name()

/// FA_QUESTIONS { return {...}; }: the questions, with their answers.
#define FA_QUESTIONS                                                                     \
  static std::vector<::fa::classroom::Question> all_questions();                         \
  static const bool questions_are_known = ::fa::classroom::add_questions(all_questions); \
  static std::vector<::fa::classroom::Question> all_questions()
