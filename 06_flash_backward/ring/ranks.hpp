/// @file
/// Lesson 06: the run of ring attention on MPI ranks. ranks.cpp has it; mpi_missing.cpp stands in
/// its place where MPI is not installed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "06_flash_backward/ring/counts.hpp"
#include "common/cli/program.hpp"

namespace fa::ring {

/// What the command line chooses.
struct Choice {
  AttentionShape shape{1, 4, 2, 301, 301, 16};
  std::string method = "all", type = "all", mask = "all";
  std::int64_t ranks = 4;     ///< of a run that the program starts itself
  std::int64_t timeout = 10;  ///< seconds that a rank waits for another one
};

/// The methods that a choice names.
inline std::vector<Method> methods_of(const Choice& choice) {
  std::vector<Method> methods;
  for (const Method method : kMethods) {
    if (choice.method == "all" || choice.method == name_of(method)) methods.push_back(method);
  }
  return methods;
}

/// Whether this build has MPI.
bool has_mpi();

/// Whether mpirun started this process.
bool is_rank();

/// A process among those that mpirun started. Only rank 0 prints.
class RankSession {
 public:
  /// Begins MPI.
  RankSession(int& argc, char**& argv);
  ~RankSession();
  /// Checks all that is chosen against lesson 01. Every error ends all ranks with one message.
  void run(cli::Program& program, const Choice& choice);
  /// Ends MPI.
  /// @param status of the program on this rank
  int finish(int status);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fa::ring
