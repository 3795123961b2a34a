#include "06_flash_backward/ring/mpi_group.hpp"

#include <cstdlib>

#include "06_flash_backward/ring/comm.hpp"

namespace fa::ring {
namespace {

class MpiGroup : public Group {
 public:
  MpiGroup(Comm& comm, double limit) : Group(comm.rank(), comm.size(), limit), comm_(comm) {}

 private:
  void gather(const void* own, void* all, const std::vector<std::int64_t>& bytes,
              const std::string& what) override {
    std::vector<std::int64_t> counts;  // of float, which MPI passes on as they are
    for (const std::int64_t count : bytes) counts.push_back(count / std::int64_t{sizeof(float)});
    const auto result = comm_.all_gather(static_cast<const float*>(own), counts, what);
    std::copy(result.begin(), result.end(), static_cast<float*>(all));
  }
  bool another_failed() override { return false; }  // MPI_Abort() ends this process then
  std::string stopped_ranks() override { return std::to_string(comm_.left()); }

  Comm& comm_;
};

}  // namespace

bool mpi_started_this() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

int begin_mpi(int& argc, char**& argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int mpi_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

void end_mpi() {
  MPI_Finalize();
}

void run_processes(const std::string& program, double limit,
                   const std::function<void(Group&)>& body) {
  Comm comm(program, limit);
  MpiGroup group(comm, limit);
  try {
    body(group);
    comm.barrier();
  } catch (const RankFailure& failure) {
    comm.fail(failure.what());
  } catch (const std::exception& error) {
    comm.fail(fmt::format("rank {}: {}", comm.rank(), error.what()));
  }
}

}  // namespace fa::ring
