#include "04_tiled_matmul/src/sections.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/tensor/matrix.hpp"

namespace fa::tiled {
namespace {

constexpr int kRounds = 15;  // of all kernels
constexpr int kRepeats = 4;  // of a kernel in each of them

// Random inputs whose squares of kSquare x kSquare elements are the same: to draw 2 x 8192 x 8192
// takes longer than all kernels.
constexpr std::int64_t kSquare = 1024;
Inputs timed_inputs(const Group& group, std::int64_t size) {
  const std::int64_t side = std::min(size, kSquare), times = (size - 1) / side + 1;
  Inputs result;
  for (const Tensor<float, 2>& square : group.inputs(side, side, side)) {
    const auto whole = [&](int axis) {
      return square.size(axis) == side ? size : square.size(axis);
    };
    Tensor<float, 2> matrix({whole(0), whole(1)});
    as_matrix(matrix.view()) = as_matrix(square.view())
                                   .replicate(times, times)
                                   .topLeftCorner(matrix.size(0), matrix.size(1));
    result.push_back(std::move(matrix));
  }
  return result;
}

// The median time of each kernel. The rounds interleave the kernels, so that the clock and the
// temperature of the GPU are the same for all. Each round has another order: a kernel that always
// follows one that heats the GPU would look slow.
std::vector<double> times_of(const Backend& backend, const std::vector<Prepared>& kernels) {
  std::vector<std::vector<double>> of_rounds(kernels.size());
  std::vector<std::size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      of_rounds[i].push_back(backend.milliseconds(kernels[i].launch, kRepeats).value());
    }
  }
  std::vector<double> medians;
  for (auto& times : of_rounds) {
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    medians.push_back(times[kRounds / 2]);
  }
  return medians;
}

}  // namespace

std::vector<cli::Measurement> time_kernels(const Backend& backend, const Group& group,
                                           std::int64_t size) {
  const auto side = static_cast<double>(size);
  const double flops = group.flops(side, side, side);
  const double bytes = group.bytes(side, side, side);
  const auto peak_of_group = peak_flops(backend.properties, group.arithmetic);
  const Inputs inputs = timed_inputs(group, size);
  const auto peer = cublas(group.name);
  std::vector<Kernel> kernels;
  if (peer) kernels.push_back(*peer);
  kernels.insert(kernels.end(), group.kernels.begin(), group.kernels.end());

  std::vector<Prepared> prepared;
  for (const Kernel& kernel : kernels) prepared.push_back(kernel.prepare(inputs));
  const std::vector<double> times = times_of(backend, prepared);
  std::vector<cli::Measurement> rows;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    const double ms = times[i];
    cli::Measurement row{{"group", group.name},
                         {"title", group.title},
                         {"kernel", kernel.name},
                         {"size", size},
                         {"milliseconds", ms}};
    if (flops > 0) {
      row.emplace_back("tflops", flops / ms / 1e9);
      if (peak_of_group) {
        row.emplace_back("percent_of_peak", 100 * flops / (ms / 1e3) / *peak_of_group);
      }
    } else {
      row.emplace_back("gigabytes_per_second", bytes / ms / 1e6);
      row.emplace_back("percent_of_peak",
                       100 * bytes / (ms / 1e3) / backend.properties.memory_bandwidth);
    }
    if (peer) row.emplace_back("percent_of_cublas", 100 * times[0] / ms);
    if (i > 0 || !peer) {  // not those of the library
      for (const KernelResources& takes : backend.resources(prepared[i].launch)) {
        cli::add_resources(row, takes);
      }
    }
    rows.push_back(row);
  }
  return rows;
}

#ifdef FA_NO_CUBLAS  // the CUDA Toolkit of this build lacks it, or there is none
std::optional<Kernel> cublas(const std::string&) {
  return std::nullopt;
}
#endif

std::vector<Shape<3>> watched_sizes(const Tiles& t) {
  constexpr std::int64_t kWatchedBlocks = 2;
  const auto below = [](std::int64_t tile) { return std::max<std::int64_t>(1, tile - 1); };
  std::vector<Shape<3>> sizes{
      {below(t.block_m), below(t.block_n), below(t.block_k)},
      {t.block_m, t.block_n, (t.stages + 2) * t.block_k},
      {t.block_m + t.vector, t.block_n + t.vector, t.stages * t.block_k + t.vector}};
  if (t.persistent) {
    sizes.push_back(
        {3 * kWatchedBlocks * t.block_m + t.vector, t.block_n - t.vector, t.block_k + t.vector});
  }
  return sizes;
}

std::optional<lab::Trace> trace(const Group& group, const Kernel& kernel,
                                const std::vector<Shape<3>>& sizes) {
  lab::TraceName name{kernel.name, group.title, {}};
  std::vector<lab::TracedProblem> problems;
  for (const Shape<3>& size : sizes) {
    const Inputs inputs = group.inputs(size[0], size[1], size[2]);
    if (problems.empty()) {
      for (const auto& input : inputs) name.inputs.push_back({input.size(0), input.size(1)});
    }
    problems.push_back({fmt::format("{} x {} x {}", size[0], size[1], size[2]), [&kernel, inputs] {
                          const Prepared prepared = kernel.prepare(inputs);
                          prepared.launch();
                          prepared.result();
                        }});
  }
  return lab::trace(name, problems);
}

cli::RecordedStep recorded(const Backend& backend, const Kernel& step) {
  const Inputs inputs = group_of(backend, "mma").inputs(kDrawn.m, kDrawn.n, kDrawn.k);
  return {step.name,
          fmt::format("C of {} x {}, depth {}", kDrawn.m, kDrawn.n, kDrawn.k),
          {"A", "B"},
          lab::record_matmuls([&] { step.prepare(inputs).launch(); })};
}

void show_operations(const Backend& backend, const cli::TimelineOptions& options) {
  std::vector<cli::RecordedStep> steps;
  for (const Kernel* step : cli::steps_with_timeline(
           group_of(backend, "mma").kernels, options.kernel, [](const Kernel& kernel) {
             return kernel.needs.architecture == 90 && kernel.tiles.cluster == 1;
           })) {
    steps.push_back(recorded(backend, *step));
  }
  cli::show_timelines(options, steps, "");
}

}  // namespace fa::tiled
