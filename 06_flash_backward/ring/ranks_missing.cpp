// In place of ranks.cpp and start.cpp where MPI is not installed.
#include <fmt/format.h>

#include "06_flash_backward/ring/ranks.hpp"

namespace fa::ring {

struct RankSession::State {};

bool has_mpi() {
  return false;
}
bool is_rank() {
  return false;
}
RankSession::RankSession(int&, char**&) {}
RankSession::~RankSession() = default;
void RankSession::run(cli::Program&, const Choice&) {}
int RankSession::finish(int status) {
  return status;
}

int start_ranks(const Choice&) {
  fmt::print(
      "skipped: this build has no MPI. On Debian and Ubuntu install libopenmpi-dev and "
      "openmpi-bin,\n"
      "then remove build/learn/CMakeCache.txt and build again.\n");
  return 77;
}

}  // namespace fa::ring
