/// @file
/// How fast the rungs are on a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "05_flash_forward/src/backend.hpp"
#include "common/cli/results.hpp"

namespace fa::flash {

/// What a problem computes beside its lengths: "bfloat16, D 64, causal".
std::string group_of(const Problem& problem);

/// The problems of a group that are timed: tokens and width of the published measurements of
/// FlashAttention, 16384 tokens in all and 2048 elements for each, whatever the length of a
/// sequence. Source: Dao, FlashAttention-2, ICLR 2024, section 4.1.
/// @param type, head_dim, causal of the group
/// @param length of a sequence
Problem timed_problem(Type type, std::int64_t head_dim, bool causal,
                      std::int64_t length);

/// What is timed: one head, which stands for all heads of all sequences.
/// @param length, head_dim of q, k and v
Inputs timed_inputs(std::int64_t length, std::int64_t head_dim);

/// A row of a record: the time of some work, its rate, and what its largest kernel uses of an SM.
/// @param backend  a GPU
/// @param problem  that is computed, as many keys as queries
/// @param kernel   name of the work
/// @param launch   launches it
/// @param products number of matmuls, length x length x head_dim each, that are counted
/// @param repeats  how often it is timed
/// @throws std::runtime_error when the device reports an error
cli::Measurement time_work(const BackendBase& backend, const Problem& problem,
                           const std::string& kernel,
                           const std::function<void()>& launch, int products,
                           int repeats);

/// The same for a kernel of this lesson, which has two matmuls.
/// @param backend  a GPU
/// @param problem  that it computes, as many keys as queries
/// @param kernel   its name
/// @param prepared that is launched
/// @param repeats  how often it is timed
/// @throws std::runtime_error when the device reports an error
cli::Measurement time_prepared(const Backend& backend, const Problem& problem,
                               const std::string& kernel,
                               const Prepared& prepared, int repeats = 20);

/// Calls time_one(rung, problem, repeats) for the rungs that support a group, at each length.
/// @param backend  with the rungs
/// @param type, head_dim, causal of the group
/// @param kernel   only rungs whose name holds this text
/// @param length   the only one; 0: 1024 to 16384, and 4096 for slow rungs, which are repeated less
/// @param is_slow  whether a rung is one of those: is_slow(rung)
template <class Backend, class IsSlow, class TimeOne>
void for_each_timed(const Backend& backend, Type type, std::int64_t head_dim,
                    bool causal, const std::string& kernel,
                    std::int64_t length, IsSlow is_slow, TimeOne time_one) {
  for (const auto& rung : backend.rungs) {
    if (rung.name.find(kernel) == std::string::npos) continue;
    std::vector<std::int64_t> lengths{1024, 2048, 4096, 8192, 16384};
    if (is_slow(rung)) lengths = {4096};
    if (length != 0) lengths = {length};
    for (const std::int64_t n : lengths) {
      const Problem problem = timed_problem(type, head_dim, causal, n);
      if (rung.supports(problem)) {
        time_one(rung, problem, is_slow(rung) ? 5 : 20);
      }
    }
  }
}

/// Times the rungs on one group.
/// @param backend  a GPU
/// @param type, head_dim, causal of the group
/// @param kernel   only rungs whose name holds this text
/// @param length   the only one that is timed; 0: 1024 to 16384, and 4096 for the slow rungs
/// @return a row for each rung and length; none where no rung supports them
/// @throws std::runtime_error when the device reports an error
std::vector<cli::Measurement> time_rungs(const Backend& backend, Type type,
                                         std::int64_t head_dim, bool causal,
                                         const std::string& kernel,
                                         std::int64_t length);

}  // namespace fa::flash
