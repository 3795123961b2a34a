/// @file
/// Lesson 06, ring attention on GPUs: processes of MPI as ranks. mpi_group.cpp has it;
/// mpi_missing.cpp stands in its place where MPI is not installed.
#pragma once

#include <functional>
#include <string>

#include "06_flash_backward/ring/group.hpp"

namespace fa::ring {

/// Whether mpirun started this process.
bool mpi_started_this();

/// Begins MPI.
/// @return this process's rank
int begin_mpi(int& argc, char**& argv);
/// How many processes there are.
int mpi_ranks();
/// Ends MPI.
void end_mpi();

/// Runs the body with all processes as ranks. When one throws, all processes end with one message.
/// @param program name for that message
/// @param limit   seconds that a rank waits for another one
void run_processes(const std::string& program, double limit,
                   const std::function<void(Group&)>& body);

}  // namespace fa::ring
