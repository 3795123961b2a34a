// The main program of every grader: runs one stage, and prints how it ended. The student's code is
// another program, which it calls through two pipes.
#include "common/classroom/grader.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <fmt/format.h>

#include "common/data/files.hpp"

namespace fa::classroom {
namespace {

// Functions, because stages and others register before main().
std::map<std::string, void (*)()>& stages() {
  static std::map<std::string, void (*)()> all;
  return all;
}
std::vector<Question> (*questions)() = nullptr;
std::vector<std::string> notes;  // as JSON
std::string shown;
std::vector<std::function<std::string(const std::string&)>>& functions() {
  static std::vector<std::function<std::string(const std::string&)>> all;
  return all;
}

// Thrown when the student's process has ended without an answer, or writes something else.
struct Ended {};

// The process that runs the student's code, and the pipes to it.
struct Student {
  std::string program;
  int to = -1, from = -1;
} student;

std::string call_student(const std::string& entry, const std::string& arguments) {
  if (!send(student.to, {'c', entry + std::string(1, '\0') + arguments})) throw Ended();
  for (;;) {
    const Message message = receive(student.from);
    if (message.kind == 'r') return message.bytes;
    if (message.kind == 'f') refuse(message.bytes);
    constexpr std::size_t of_number = sizeof(std::uint32_t);
    if (message.kind != 'b' || message.bytes.size() < of_number) throw Ended();
    const auto number = unpacked<std::uint32_t>(message.bytes.substr(0, of_number));
    if (number >= functions().size()) throw Ended();
    if (!send(student.to, {'r', functions()[number](message.bytes.substr(of_number))}))
      throw Ended();
  }
}

// The numbers behind `answer:`, and then a line for each whole one.
std::string given;

// JSON has no infinities; Python reads these words.
std::string number(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{:.17g}", x);
}

std::string questions_json() {
  std::vector<std::string> all;
  for (const Question& question : questions()) {
    std::vector<std::string> mistakes;
    for (const auto& [value, says] : question.mistakes) {
      mistakes.push_back(fmt::format("[{}, {}]", number(value), json_text(says)));
    }
    all.push_back(fmt::format(R"({{"name": {}, "truth": {}, "within": {}, "mistakes": [{}]}})",
                              json_text(question.name), number(question.truth),
                              number(question.within), fmt::join(mistakes, ", ")));
  }
  return fmt::format(R"({{"verdict": "questions", "questions": [{}]}})", fmt::join(all, ", "));
}

std::string verdict_json(const std::string& verdict, std::string message = {}) {
  constexpr std::size_t longest = 6000;
  if (message.size() > longest) message = message.substr(0, longest) + " ...";
  return fmt::format(R"({{"verdict": "{}", "message": {}, "notes": [{}], "drawing": {}}})", verdict,
                     json_text(message), fmt::join(notes, ", "), json_text(shown));
}

std::string grade(const std::string& wanted) {
  const auto found = stages().find(wanted);
  const bool asks = wanted == "questions" && questions != nullptr;
  if (!asks && found == stages().end()) {
    return verdict_json("broken", "there is no stage '" + wanted + "'");
  }
  try {
    if (asks) return questions_json();
    found->second();
  } catch (const Skipped& skipped) {
    return verdict_json("skipped", skipped.what());
  } catch (const Refused& refused) {
    return verdict_json("refused", refused.what());
  } catch (const Ended&) {
    return verdict_json("ended");
  } catch (const std::exception& error) {
    return verdict_json("refused", std::string("the result cannot be used: ") + error.what());
  }
  return verdict_json("passed");
}

}  // namespace

void refuse(const std::string& message) {
  throw Refused(message);
}
void skip(const std::string& why) {
  throw Skipped(why);
}
void require(bool holds, const std::string& message) {
  if (!holds) refuse(message);
}
void note(const std::string& name, std::int64_t value) {
  const std::string one = fmt::format("[{}, {}]", json_text(name), value);
  if (std::find(notes.begin(), notes.end(), one) == notes.end()) notes.push_back(one);
}
void budget(const std::string& what, std::int64_t count, std::int64_t most, const std::string& why,
            std::int64_t fewest) {
  note(what, count);
  require(
      count >= fewest,
      fmt::format("{} {}, and no kernel can do with fewer than {}: some accesses are hidden from "
                  "the lab. Read and write by assignments, so that accesses can be counted",
                  count, what, fewest));
  require(count <= most, fmt::format("{} {}, and {} would do{}{}", count, what, most,
                                     why.empty() ? "" : ": ", why));
}
void show(const std::string& drawing) {
  shown = drawing;
}
std::string call_packed(const std::string& entry, const std::string& arguments,
                        const std::string& on_crash) {
  try {
    return call_student(entry, arguments);
  } catch (const Ended&) {
    if (on_crash.empty()) throw;
  } catch (const Refused& refused) {  // the lab has found that a kernel crashes
    if (on_crash.empty()) throw;
    refuse(on_crash + "\n\n" + refused.what());
  }
  refuse(on_crash);
}
const std::string& student_program() {
  return student.program;
}
Function known(std::function<std::string(const std::string&)> function) {
  functions().push_back(std::move(function));
  return {static_cast<std::uint32_t>(functions().size() - 1)};
}
void in_random_order(const std::vector<Given>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::random_device());
  std::vector<std::pair<bool, bool>> said(all.size());
  for (const std::size_t i : order) said[i] = all[i].test();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [accepted, gave_nan] = said[i];
    require(accepted || !all[i].right,
            fmt::format("your test refuses {}, which is right up to rounding", all[i].name));
    require(!accepted || all[i].right,
            fmt::format("your test accepts {}, which is wrong{}", all[i].name,
                        gave_nan ? ". It returned NaN to your test: your comparison lets NaN pass"
                                 : ": which input would show it?"));
  }
}
Evidence evidence(const std::string& what) {
  Evidence result;
  std::istringstream all(given);
  std::string line, number;
  std::getline(all, line);
  for (std::istringstream numbers(line); numbers >> number;) {
    result.numbers.push_back(std::strtod(number.c_str(), nullptr));
  }
  while (std::getline(all, line)) result.lines.push_back(line);
  if (result.numbers.empty()) {
    refuse("no answer yet: write " + what + " behind `answer:` at the top of the file");
  }
  return result;
}

bool names_both(const Evidence& evidence, const std::vector<std::string>& one,
                const std::vector<std::string>& other) {
  const auto names = [&](const std::vector<std::string>& texts) {
    for (const std::string& line : evidence.lines) {
      for (const std::string& part : texts) {
        if (line.find(part) != std::string::npos) return true;
      }
    }
    return false;
  };
  return evidence.lines.size() == 2 && names(one) && names(other);
}

bool add_stage(const char* name, void (*run)()) {
  return stages().emplace(name, run).second;
}
bool add_questions(std::vector<Question> (*ask)()) {
  questions = ask;
  return true;
}

}  // namespace fa::classroom

int main(int argc, char** argv) {
  if (argc != 3 && argc != 6) {
    std::fputs("usage: grader STAGE EVIDENCE [PROGRAM TO_IT FROM_IT]\n", stderr);
    return 2;
  }
#if defined(__linux__)
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // /proc shows other processes neither memory nor files
#endif
  std::signal(SIGPIPE, SIG_IGN);
  fa::classroom::given = argv[2];
  if (argc == 6) fa::classroom::student = {argv[3], std::atoi(argv[4]), std::atoi(argv[5])};
  std::puts(fa::classroom::grade(argv[1]).c_str());
  return 0;
}
