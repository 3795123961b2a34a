#include "common/lab/program.hpp"

#include <link.h>

namespace fa::lab {

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
