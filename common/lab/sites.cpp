#include "common/lab/sites.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <unistd.h>
#include <unwind.h>

#include <fmt/format.h>

#include "common/lab/program.hpp"

namespace fa::lab {
namespace {

bool contains(const std::string& line, const char* part) {
  return line.find(part) != std::string::npos;
}

// Whether a line is of the functions that kernels are written with, those of C++ among them. (What
// stands for the line of a caller may itself have one.)
bool is_surface(const std::string& line) {
  return contains(line, "common/gpu/kernel") || contains(line, "common/gpu/hopper") ||
         contains(line, "common/lab/thread.hpp") || contains(line, "/include/c++/") ||
         contains(line, "common/lab/cuda/include/");
}

// "file:line" with the file's name as seen from the repository. A compiler's cache may have made it
// relative, or may bring what was compiled in another clone.
std::string short_name(const std::string& line) {
  const std::string root = FA_ROOT_DIRECTORY, up = "../";
  std::string name = std::filesystem::path(line).lexically_normal().string();
  if (name.compare(0, root.size(), root) == 0) name.erase(0, root.size());
  while (name.compare(0, up.size(), up) == 0) name.erase(0, up.size());
  for (std::size_t at = name.find('/'); name[0] == '/' && at != std::string::npos;
       at = name.find('/', at + 1)) {
    const std::string inner = name.substr(at + 1), file = inner.substr(0, inner.rfind(':'));
    if (is_of_course(inner) && std::filesystem::exists(root + file)) return inner;
  }
  return name;
}

// Whether a line is one of what surrounds kernels.
bool is_outside(const std::string& line) {
  for (const char* part :
       {"common/gpu/launch", "/usr/include/", "/lib/gcc/", "/boost/", "??", ":?"}) {
    if (contains(line, part)) return true;
  }
  return is_surface(line) || lies_in(line, FA_PACKAGE_FOLDERS) ||
         (contains(line, "common/lab/") && !contains(line, "common/lab/tests/"));
}

}  // namespace

bool lies_in(const std::string& line, const std::string& folders) {
  std::istringstream all(folders);
  for (std::string folder; std::getline(all, folder, '|');) {
    folder = short_name(folder + "/");
    // A relative name has lost its first slash.
    if (folder.size() > 1 &&
        (line.compare(0, folder.size(), folder) == 0 ||
         line.compare(0, folder.size() - 1, folder, 1, std::string::npos) == 0)) {
      return true;
    }
  }
  return false;
}

std::string addr2line(const std::string& program, const std::string& addresses) {
  const std::string command = "addr2line -a -i -e '" + program + "' " + addresses;
  std::FILE* const pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  char piece[4096];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) text += piece;
  pclose(pipe);
  return text;
}

std::string (*own_addr2line)(const std::string& addresses) = [](const std::string& addresses) {
  return addr2line(fmt::format("/proc/{}/exe", getpid()), addresses);
};

const SourceLines& source_lines(const std::vector<std::uintptr_t>& codes) {
  const std::uintptr_t base = Program::running().load_address;
  // Never destroyed: a report may be the last thing that a program does.
  static SourceLines& known = *new SourceLines;
  std::vector<std::uintptr_t> asked;
  for (const std::uintptr_t code : codes) {
    if (known.count(code) == 0) asked.push_back(code);
  }
  constexpr std::size_t kAtOnce = 5000;  // each start reads all of the program's lines
  for (std::size_t begin = 0; begin < asked.size(); begin += kAtOnce) {
    std::string addresses;
    const std::size_t end = std::min(begin + kAtOnce, asked.size());
    for (std::size_t i = begin; i < end; ++i) {
      addresses += fmt::format(" {:#x}", asked[i] - base - 1);  // in the call
    }
    std::istringstream lines(own_addr2line(addresses));
    std::uintptr_t code = 0;
    for (std::string text; std::getline(lines, text);) {
      if (text.compare(0, 2, "0x") == 0) {
        code = static_cast<std::uintptr_t>(std::strtoull(text.c_str(), nullptr, 16)) + base + 1;
        continue;
      }
      known[code].push_back(short_name(text.substr(0, text.find(" (discriminator"))));
    }
  }
  return known;
}

std::string line_of(const SourceLines& lines, std::uintptr_t code) {
  const auto found = lines.find(code);
  if (found == lines.end()) return fmt::format("code {:#x}", code);
  for (const std::string& line : found->second) {
    if (!is_surface(line)) return line;
  }
  return found->second.back();
}

bool is_of_course(const std::string& line) {
  const auto is_digit = [&](std::size_t i) { return line[i] >= '0' && line[i] <= '9'; };
  const bool is_of_lesson = line.size() > 2 && is_digit(0) && is_digit(1) && line[2] == '_';
  return is_of_lesson || (line.compare(0, 7, "common/") == 0 && contains(line, "/tests/"));
}

bool is_of_kernel(const std::string& line) {
  return !contains(line, "??") && line.compare(0, 5, "/usr/") != 0 &&
         (contains(line, "/tests/") || !contains(line, "common/"));
}

std::string caller_of(const SourceLines& lines, const std::vector<std::uintptr_t>& stack,
                      const std::string& line) {
  const std::string file = line.substr(0, line.find(':') + 1);
  for (const std::uintptr_t code : stack) {
    const auto found = lines.find(code);
    if (found == lines.end()) continue;
    for (const std::string& frame : found->second) {
      const bool is_wrapper = frame.find("_lab.hpp:") != std::string::npos;  // of an instruction
      if (!is_outside(frame) && !is_wrapper && frame.compare(0, file.size(), file) != 0) {
        return frame;
      }
    }
  }
  return "";
}

std::vector<std::uintptr_t> call_stack() {
  std::vector<std::uintptr_t> result;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* stack) {
        static_cast<std::vector<std::uintptr_t>*>(stack)->push_back(_Unwind_GetIP(context));
        return _URC_NO_REASON;
      },
      &result);
  return result;
}

std::vector<std::uintptr_t> Sites::codes() const {
  std::vector<std::uintptr_t> result;
  for (const Site& site : sites_) {
    if (site.code != 0) result.push_back(site.code);
  }
  return result;
}

std::string Sites::line(std::uint32_t id) const {
  if (id == 0) return "";
  const Site& site = sites_[id];
  return site.code != 0 ? line_of(source_lines({site.code}), site.code)
                        : short_name(fmt::format("{}:{}", site.location.file, site.location.line));
}

}  // namespace fa::lab
