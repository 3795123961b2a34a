// The main program of every grader: runs one stage, and says how it ended on a channel of its
// own. The student's code is another program, which it starts at the first call.
#include "common/classroom/grader.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <fmt/format.h>

#include "common/classroom/seccomp.hpp"
#include "common/data/files.hpp"

namespace fa::classroom {
namespace {

struct NamedStage {
  std::string name;
  void (*run)();
};
// Functions, because stages register before main().
std::vector<NamedStage>& stages() {
  static std::vector<NamedStage> all;
  return all;
}
std::vector<Question> (*questions)() = nullptr;
std::vector<std::pair<std::string, std::int64_t>> notes;
std::string shown;
std::vector<std::function<std::string(const std::string&)>> functions;

// Thrown when the student's process has ended without an answer.
struct Crashed {
  int status;  // exit status, or minus the number of a signal
};

// fork(), tried again for two seconds: the limit counts all processes of a user, and those of an
// earlier submission may still be ending.
pid_t fork_soon() {
  for (int tries = 0;; ++tries) {
    const pid_t pid = fork();
    if (pid >= 0 || errno != EAGAIN || tries == 40) return pid;
    usleep(50'000);
  }
}

// The process that runs the student's code. It has two pipes, and no other file of ours.
class Student {
 public:
  explicit Student(const char* program) {
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0) throw std::runtime_error("pipes are missing");
    pid_ = fork_soon();
    if (pid_ < 0) throw std::runtime_error("a process is missing");
    if (pid_ == 0) {
      // First out of the way of the numbers 3 and 4.
      const int from = fcntl(there[0], F_DUPFD, 64), to = fcntl(back[1], F_DUPFD, 64);
      dup2(from, 3);
      dup2(to, 4);
      for (int fd = 5; fd < 1024; ++fd) close(fd);
#if defined(__linux__)
      deny_system_calls(true);
#endif
      execl(program, program, static_cast<char*>(nullptr));
      _exit(126);
    }
    close(there[0]);
    close(back[1]);
    to_ = there[1];
    from_ = back[0];
    fcntl(to_, F_SETFD, FD_CLOEXEC);
    fcntl(from_, F_SETFD, FD_CLOEXEC);
  }

  std::string call(const std::string& entry, const std::string& arguments) {
    if (!send(to_, {'c', entry + std::string(1, '\0') + arguments})) ended();
    for (;;) {
      const Message message = receive(from_);
      if (message.kind == 'r') return message.bytes;
      if (message.kind == 'f') refuse(message.bytes);
      if (message.kind != 'b') ended();
      constexpr std::size_t of_number = sizeof(std::uint32_t);
      if (message.bytes.size() < of_number) ended();
      const auto number = unpacked<std::uint32_t>(message.bytes.substr(0, of_number));
      if (number >= functions.size()) ended();
      if (!send(to_, {'r', functions[number](message.bytes.substr(of_number))})) ended();
    }
  }

 private:
  // What it writes is not one of its messages, or there is nothing more to come.
  [[noreturn]] void ended() {
    close(from_);
    close(to_);
    int status = 0;
    waitpid(pid_, &status, 0);
    throw Crashed{WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status)};
  }

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};
const char* program = "";
// What stands behind `answer:`, and then a line for each whole number in it.
std::string given;
std::unique_ptr<Student> student;

// JSON has no infinities; Python reads these words.
std::string number(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{:.17g}", x);
}

std::string questions_json() {
  std::string result;
  for (const Question& question : questions()) {
    std::string mistakes;
    for (const auto& [value, says] : question.mistakes) {
      mistakes +=
          fmt::format("{}[{}, {}]", mistakes.empty() ? "" : ", ", number(value), json_text(says));
    }
    result += fmt::format(R"({}{{"name": {}, "truth": {}, "within": {}, "mistakes": [{}]}})",
                          result.empty() ? "" : ", ", json_text(question.name),
                          number(question.truth), number(question.within), mistakes);
  }
  return fmt::format(R"({{"verdict": "questions", "questions": [{}]}})", result);
}

std::string verdict_json(const std::string& verdict, std::string message = {}) {
  constexpr std::size_t longest = 6000;
  if (message.size() > longest) message = message.substr(0, longest) + " ...";
  std::string counted;
  for (const auto& [name, value] : notes) {
    counted += fmt::format("{}[{}, {}]", counted.empty() ? "" : ", ", json_text(name), value);
  }
  return fmt::format(R"({{"verdict": "{}", "message": {}, "notes": [{}], "drawing": {}}})", verdict,
                     json_text(message), counted, json_text(shown));
}

std::string grade(const std::string& wanted) {
  if (wanted == "questions" && questions != nullptr) {
    try {
      return questions_json();
    } catch (const Skipped& skipped) {
      return verdict_json("skipped", skipped.what());
    }
  }
  const NamedStage* found = nullptr;
  for (const NamedStage& stage : stages()) {
    if (stage.name == wanted) found = &stage;
  }
  if (found == nullptr) {
    return verdict_json("broken", "there is no stage '" + wanted + "'");
  }
  try {
    found->run();
  } catch (const Skipped& skipped) {
    return verdict_json("skipped", skipped.what());
  } catch (const Refused& refused) {
    return verdict_json("refused", refused.what());
  } catch (const Crashed& crashed) {
    return verdict_json(fmt::format("ended {}", crashed.status));
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
  const std::pair<std::string, std::int64_t> one(name, value);
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
std::string call_packed(const std::string& entry, const std::string& arguments) {
  if (!student) student = std::make_unique<Student>(program);
  return student->call(entry, arguments);
}
std::string call_packed_or(const std::string& message, const std::string& entry,
                           const std::string& arguments) {
  try {
    return call_packed(entry, arguments);
  } catch (const Crashed&) {
    student.reset();
  } catch (const Refused&) {  // the lab has found that a kernel crashes
  }
  refuse(message);
}
Function known(std::function<std::string(const std::string&)> function) {
  functions.push_back(std::move(function));
  return {static_cast<std::uint32_t>(functions.size() - 1)};
}
Evidence evidence(const std::string& what) {
  Evidence result;
  const std::size_t end = std::min(given.find('\n'), given.size());
  const std::string answer = given.substr(0, end);
  for (const char* at = answer.c_str(); *at != 0;) {
    char* behind = nullptr;
    const double number = std::strtod(at, &behind);
    if (behind != at) result.numbers.push_back(number);
    at = behind != at ? behind : at + 1;
  }
  for (std::size_t at = end; at < given.size();) {
    const std::size_t next = std::min(given.find('\n', at + 1), given.size());
    result.lines.push_back(given.substr(at + 1, next - at - 1));
    at = next;
  }
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

Stage::Stage(const char* name, void (*run)()) {
  stages().push_back({name, run});
}
Questions::Questions(std::vector<Question> (*ask)()) {
  questions = ask;
}

}  // namespace fa::classroom

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--stages") == 0) {
    for (const auto& stage : fa::classroom::stages()) {
      std::puts(stage.name.c_str());
    }
    return 0;
  }
  if (argc != 7 || std::strcmp(argv[1], "--stage") != 0) {
    std::fputs("usage: grader --stage STAGE PROGRAM EVIDENCE SECRET_FD RESULT_FD, or --stages\n",
               stderr);
    return 2;
  }
#if defined(__linux__)
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // /proc shows other processes neither memory nor files
#endif
  std::signal(SIGPIPE, SIG_IGN);
  // The secret marks the one line that counts. The student's process inherits neither of the two.
  const int secret_fd = std::atoi(argv[5]), result_fd = std::atoi(argv[6]);
  fcntl(secret_fd, F_SETFD, FD_CLOEXEC);
  fcntl(result_fd, F_SETFD, FD_CLOEXEC);
  fa::classroom::program = argv[3];
  fa::classroom::given = argv[4];
  std::string secret(32, ' ');
  std::size_t have = 0;
  while (have < secret.size()) {
    const ssize_t got = read(secret_fd, secret.data() + have, secret.size() - have);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  close(secret_fd);
  if (have != secret.size()) {
    std::fputs("grader: the secret is missing\n", stderr);
    return 2;
  }
  const std::string line = secret + " " + fa::classroom::grade(argv[2]) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t put = write(result_fd, line.data() + done, line.size() - done);
    if (put <= 0) return 2;
    done += static_cast<std::size_t>(put);
  }
  return 0;
}
