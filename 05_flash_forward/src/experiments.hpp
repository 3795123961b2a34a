/// @file
/// Experiments with the finished kernels: other tiles, the types beside each other, lengths from short to long.
#pragma once

#include <string>

#include "05_flash_forward/src/backend.hpp"
#include "common/cli/program.hpp"

namespace fa::flash {

/// Where measurements go.
struct ExperimentRecord {
  std::string file;    ///< empty: none is written
  std::string commit;  ///< of the code; empty asks git
};

/// The section. Tiles are checked, and in the watched lab their traffic is counted; on a GPU they are timed. Errors of
/// each type are measured. Lengths are timed on a GPU.
/// @param program reports the checks
/// @param machine where the kernels run: the lab or a GPU
/// @param record  of what was measured on a GPU
/// @throws std::invalid_argument when there is a file for the record, and no GPU is used
/// @throws std::runtime_error when the device reports an error, or the record cannot be written
void show_experiments(cli::Program& program, const Backend& backend,
                      const ExperimentRecord& record);

}  // namespace fa::flash
