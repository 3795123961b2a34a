// What code compiled with -fsanitize=bounds calls where an index leaves an array of a known size:
// local arrays and static shared ones, whose neighbours are the thread's or block's own memory. The
// name and the layouts are those of GCC and Clang.
#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <string>

#include <fmt/format.h>

#include "common/lab/block.hpp"
#include "common/lab/cuda/state.hpp"

namespace {

struct Type {
  std::uint16_t kind, info;  // of an integer: twice the logarithm of its bits, and 1 if signed
  char name[1];              // "'float [8]'", and longer
};
struct OutOfBounds {
  const char* file;
  std::uint32_t line, column;
  const Type *array, *index;
};

// `tile[0][i]`, by which all of an array of several dimensions is used as one row.
bool is_flat(const OutOfBounds& at) {
  static std::map<std::pair<std::string, std::uint32_t>, bool> known;
  const auto [found, fresh] = known.try_emplace({at.file, at.line}, false);
  if (fresh) {
    std::ifstream file(at.file);
    std::string text;
    for (std::uint32_t i = 0; i < at.line && std::getline(file, text); ++i) continue;
    found->second = std::regex_search(text, std::regex(R"(\[\s*0\s*\]\s*\[)"));
  }
  return found->second;
}

std::string index_text(const Type& type, std::uintptr_t index) {
  if (type.kind != 0 || type.info >> 1 > 6) return "";
  const int unused = 64 - (1 << (type.info >> 1));
  if ((type.info & 1) == 0) return fmt::format("{} ", index << unused >> unused);
  return fmt::format("{} ", static_cast<std::int64_t>(index << unused) >> unused);
}

}  // namespace

extern "C" void __ubsan_handle_out_of_bounds(const OutOfBounds* at, std::uintptr_t index) {
  namespace lab = fa::lab;
  if (lab::current == nullptr || lab::observer == nullptr || is_flat(*at)) return;
  const std::string quoted = at->array->name;
  const lab::Thread& thread = *lab::current;
  lab::observer->finds(
      "out of bounds", {at->file, static_cast<int>(at->line)}, {},
      fmt::format("thread {} (warp {}, lane {}) of block ({}, {}, {}) uses index {}of an array of "
                  "type {}; what lies there is another variable",
                  thread.number, thread.number / lab::kWarpSize, thread.lane, thread.block_index.x,
                  thread.block_index.y, thread.block_index.z, index_text(*at->index, index),
                  quoted.substr(1, quoted.size() - 2)));
}
