#include "common/lab/program.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <link.h>
#include <map>

namespace fa::lab {

namespace {

// Reads an array of a type from a file's bytes; empty when it does not lie within.
template <class T>
std::vector<T> read_array(const std::vector<char>& bytes, std::size_t at, std::size_t count) {
  if (at > bytes.size() || count > (bytes.size() - at) / sizeof(T)) return {};
  std::vector<T> result(count);
  if (count > 0) {
    std::memcpy(result.data(), bytes.data() + at, count * sizeof(T));
  }
  return result;
}

std::vector<Symbol> read_symbols() {
  const std::uintptr_t load_address = Program::running().load_address;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<Symbol> result;
  const auto header = read_array<ElfW(Ehdr)>(bytes, 0, 1);
  if (header.empty()) return result;
  const auto sections = read_array<ElfW(Shdr)>(bytes, header[0].e_shoff, header[0].e_shnum);
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const ElfW(Shdr)& names = sections[section.sh_link];
    for (const ElfW(Sym) & symbol :
         read_array<ElfW(Sym)>(bytes, section.sh_offset, section.sh_size / sizeof(ElfW(Sym)))) {
      const std::size_t name = names.sh_offset + symbol.st_name;
      if (symbol.st_size == 0 || name >= bytes.size()) continue;
      result.push_back({load_address + symbol.st_value, symbol.st_size, symbol.st_info & 0xf,
                        bytes.data() + name});
    }
  }
  return result;
}

}  // namespace

const std::vector<Symbol>& Symbol::of_this_program() {
  static const std::vector<Symbol> result = read_symbols();
  return result;
}

Program Program::running() {
  Program program;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        auto& p = *static_cast<Program*>(result);
        p.load_address = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0) {
            p.code = info->dlpi_addr + header.p_vaddr;
            p.code_bytes = header.p_memsz;
          } else if (header.p_type == PT_TLS) {
            p.thread_locals = info->dlpi_tls_data;
            p.thread_local_bytes = header.p_memsz;
          }
        }
        return 1;  // the executable comes first
      },
      &program);
  return program;
}

namespace {

#if defined(__x86_64__)
constexpr std::size_t kCall = 5;  // bytes: 0xe8 and the distance

// Whether 0xe8 at `code` is not a call but names two registers: mov %r13,%rax is 4c 89 e8. The
// bytes behind it may look like the distance of a function.
bool names_registers(const std::uint8_t* code) {
  if (code[-2] == 0x0f) return true;  // cmov, movzx, imul and others
  switch (code[-1]) {
    case 0x83:  // sub of a byte
    case 0x85:  // test
    case 0x89:  // mov
    case 0x8b:
      return true;
    case 0x01:  // add
    case 0x29:  // sub
    case 0x2b:
    case 0x31:  // xor
    case 0x33:
    case 0x39:  // cmp
    case 0x3b:
      return (code[-2] & 0xf0) == 0x40;  // with the prefix of 64 bits
    default:
      return false;
  }
}

// Whether a call at `code` is all that a landing pad does: mov from rax before it, mov to rdi and
// a call of _Unwind_Resume() behind it. The compiler gives such a pad to the line of a call.
bool is_empty_landing_pad(const std::uint8_t* code) {
  const std::uint8_t* const after = code + kCall;
  return (code[-3] | 1) == 0x49 && code[-2] == 0x89 && (code[-1] & 0xf8) == 0xc0 &&
         (after[0] | 4) == 0x4c && after[1] == 0x89 && (after[2] & 0xc7) == 0xc7 &&
         after[3] == 0xe8;
}
#endif

bool is_of_observer(const char* name) {
  return std::strncmp(name, "__tsan_", 7) == 0 ||
         std::strcmp(name, "__sanitizer_cov_trace_pc") == 0;
}

}  // namespace

bool says_something(const std::string& place) {
  // Never destroyed: a report may be the last thing that a program does.
  static auto& files = *new std::map<std::string, std::vector<std::string>>;
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos) return true;
  const std::string name = place.substr(0, colon);
  const auto [file, is_new] = files.try_emplace(name);
  if (is_new) {
    std::ifstream in(name);
    for (std::string line; std::getline(in, line);) {
      file->second.push_back(line);
    }
  }
  const auto number = static_cast<std::size_t>(std::atoi(place.c_str() + colon + 1));
  if (number == 0) return false;  // the compiler knows no line
  return number > file->second.size() ||
         file->second[number - 1].find_first_not_of(" }") != std::string::npos;
}

const WatchedCode& WatchedCode::of_this_program() {
  static const WatchedCode code;
  return code;
}

WatchedCode::WatchedCode() {
  const Program program = Program::running();
  begin_ = program.code;
  size_ = program.code_bytes;
  read_symbols();
  read_calls();
}

// Where the functions of the program begin and end.
void WatchedCode::read_symbols() {
  for (const Symbol& symbol : Symbol::of_this_program()) {
    if (symbol.kind != STT_FUNC) continue;
    functions_.push_back(
        {symbol.begin, symbol.begin + symbol.size, is_of_observer(symbol.name.c_str())});
  }
  std::sort(functions_.begin(), functions_.end(), [](const Function& a, const Function& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
}

// Each direct call of a function of this program. Bytes of other instructions that look like a call
// seldom lead to where a function begins; most of those that do name two registers.
void WatchedCode::read_calls() {
  if (functions_.empty()) return;
  const auto* const code = reinterpret_cast<const std::uint8_t*>(begin_);
  // Those of the observer are many, and it has few functions: they are certain.
  const auto add = [&](std::uintptr_t returns_to, std::uintptr_t callee, bool is_doubtful = false) {
    const Function* const function = function_at(callee);
    if (function != nullptr && function->begin == callee && (function->watches || !is_doubtful)) {
      calls_.push_back({returns_to, function});
    }
  };
#if defined(__x86_64__)
  for (std::size_t i = 3; i + 2 * kCall <= size_; ++i) {
    if (code[i] != 0xe8 || is_empty_landing_pad(code + i)) continue;
    std::int32_t distance = 0;
    std::memcpy(&distance, code + i + 1, sizeof distance);
    const std::uintptr_t returns_to = begin_ + i + kCall;
    const auto callee = returns_to + static_cast<std::uintptr_t>(std::intptr_t{distance});
    add(returns_to, callee, names_registers(code + i));
  }
#elif defined(__aarch64__)
  for (std::size_t i = 0; i + 4 <= size_; i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, code + i, sizeof word);
    if (word >> 26 != 0x25) continue;  // bl and the distance in words
    const auto distance = static_cast<std::int32_t>(word << 6) >> 4;
    add(begin_ + i + 4, begin_ + i + static_cast<std::uintptr_t>(std::intptr_t{distance}));
  }
#else
  (void)code, (void)add;  // unreached lines are not known
#endif
}

const WatchedCode::Function* WatchedCode::function_at(std::uintptr_t address) const {
  const auto after =
      std::upper_bound(functions_.begin(), functions_.end(), address,
                       [](std::uintptr_t a, const Function& f) { return a < f.begin; });
  if (after == functions_.begin()) return nullptr;
  const Function& function = *std::prev(after);
  return address < function.end ? &function : nullptr;
}

std::vector<std::uintptr_t> WatchedCode::calls_around(
    const std::vector<std::uintptr_t>& reached) const {
  std::set<const Function*> known;
  std::vector<const Function*> waiting;
  const auto enter = [&](const Function* function) {
    if (function != nullptr && !function->watches && known.insert(function).second) {
      waiting.push_back(function);
    }
  };
  // A return address may lie one behind the end.
  for (const std::uintptr_t code : reached) enter(function_at(code - 1));
  std::vector<std::uintptr_t> result;
  while (!waiting.empty()) {
    const Function* const function = waiting.back();
    waiting.pop_back();
    auto call = std::upper_bound(calls_.begin(), calls_.end(), function->begin,
                                 [](std::uintptr_t a, const Call& c) { return a < c.returns_to; });
    for (; call != calls_.end() && call->returns_to <= function->end; ++call) {
      if (call->callee->watches) {
        result.push_back(call->returns_to);
      } else {
        enter(call->callee);
      }
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace fa::lab
