#include "common/lab/program.hpp"

#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <link.h>

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

}  // namespace

namespace {
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

}  // namespace fa::lab
