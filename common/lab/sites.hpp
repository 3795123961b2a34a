/// @file
/// Where in the source of the watched kernels something happens. Code addresses are noted while
/// kernels run and become lines only when a report is written: addr2line is slow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/lab/engine.hpp"

namespace fa::lab {

/// Code addresses, and of each the chain of inlined calls, the innermost first, as "file:line".
using SourceLines = std::map<std::uintptr_t, std::vector<std::string>>;

/// What addr2line prints of a program's addresses, which are separated by blanks.
std::string addr2line(const std::string& program, const std::string& addresses);

/// The same of the program that runs. One that may not start others sets another function.
extern std::string (*own_addr2line)(const std::string& addresses);

/// The lines of code addresses, with those that were asked for earlier.
const SourceLines& source_lines(const std::vector<std::uintptr_t>& codes);

/// The line of a code address: the innermost that is not in the functions that kernels are written
/// with.
std::string line_of(const SourceLines& lines, std::uintptr_t code);

/// Whether the file of a line lies in one of the folders, which '|' separates.
bool lies_in(const std::string& line, const std::string& folders);

/// Whether a line is of a lesson, or of the tests in `common`. Headers of packages are not, wherever
/// they lie: their names, seen from the repository, begin with neither.
bool is_of_course(const std::string& line);

/// Whether a line is a kernel's, and neither the lab's nor a library's.
bool is_of_kernel(const std::string& line);

/// The innermost line of a call stack that is a kernel's and in another file than a given line;
/// empty without one.
std::string caller_of(const SourceLines& lines, const std::vector<std::uintptr_t>& stack,
                      const std::string& line);

/// The return addresses of the functions that run now, the innermost first.
std::vector<std::uintptr_t> call_stack();

/// Numbers for the places that accesses come from; 0 stands for none.
class Sites {
 public:
  /// The number of a code address.
  std::uint32_t id(std::uintptr_t code) {
    Recent<std::uintptr_t>& recent = recent_codes_[code % recent_codes_.size()];
    if (recent.key == code) return recent.id;
    std::uint32_t& id = of_code_[code];
    if (id == 0) id = add({code, {}});
    recent = {code, id};
    return id;
  }
  /// The number of a line.
  std::uint32_t id(const SourceLocation& location) {
    const std::pair<const char*, int> key{location.file, location.line};
    auto& recent = recent_lines_[static_cast<std::size_t>(location.line) % recent_lines_.size()];
    if (recent.key == key) return recent.id;
    std::uint32_t& id = of_line_[{location.file, location.line}];
    if (id == 0) id = add({0, location});
    recent = {key, id};
    return id;
  }
  /// Whether a code address has a number.
  bool has(std::uintptr_t code) const { return of_code_.count(code) > 0; }
  /// All code addresses, in the order of their numbers.
  std::vector<std::uintptr_t> codes() const;
  /// "file:line" of a number; empty for 0.
  std::string line(std::uint32_t id) const;

 private:
  struct Site {  // a code address, or a line that is known
    std::uintptr_t code = 0;
    SourceLocation location;
  };
  std::uint32_t add(const Site& site) {
    sites_.push_back(site);
    return static_cast<std::uint32_t>(sites_.size() - 1);
  }

  // Each access asks: what was asked for last is found without a search.
  template <class Key>
  struct Recent {
    Key key{};
    std::uint32_t id = 0;
  };
  std::array<Recent<std::uintptr_t>, 4096> recent_codes_{};
  std::array<Recent<std::pair<const char*, int>>, 256> recent_lines_{};
  std::vector<Site> sites_{1};
  std::unordered_map<std::uintptr_t, std::uint32_t> of_code_;
  std::map<std::pair<std::string, int>, std::uint32_t> of_line_;
};

}  // namespace fa::lab
