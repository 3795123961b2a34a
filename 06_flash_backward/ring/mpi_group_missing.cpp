// In place of mpi_group.cpp where MPI is not installed.
#include "06_flash_backward/ring/mpi_group.hpp"

namespace fa::ring {

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
