// In place of ranks.cpp and mpi_group.cpp where MPI is not installed.
#include "06_flash_backward/ring/mpi_group.hpp"
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

bool mpi_started_this() {
  return false;
}
int begin_mpi(int&, char**&) {
  return 0;
}
int mpi_ranks() {
  return 1;
}
void end_mpi() {}
void run_processes(const std::string&, double, const std::function<void(Group&)>&) {}

}  // namespace fa::ring
