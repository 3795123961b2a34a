#include "04_tiled_matmul/timing.hpp"

#include "04_tiled_matmul/cublas.hpp"

namespace fa::tiled {

std::vector<cli::Measurement> time_kernels(const Machine& machine,
                                           const Group& group,
                                           std::int64_t size) {
  const auto side = static_cast<double>(size);
  const double flops = group.flops(side, side, side);
  const double bytes = group.bytes(side, side, side);
  const auto peak_of_group = peak_flops(machine.properties, group.arithmetic);
  const Inputs inputs = group.inputs(size, size, size);
  const auto peer = cublas(group.name);
  std::vector<Kernel> kernels;
  if (peer) kernels.push_back(*peer);
  kernels.insert(kernels.end(), group.kernels.begin(), group.kernels.end());

  std::vector<cli::Measurement> rows;
  double first_ms = 0;
  for (const Kernel& kernel : kernels) {
    const Prepared prepared = kernel.prepare(inputs);
    const double ms = machine.milliseconds(prepared.launch, 20).value();
    if (rows.empty()) first_ms = ms;
    cli::Measurement row{{"group", group.name},
                         {"title", group.title},
                         {"kernel", kernel.name},
                         {"size", size},
                         {"milliseconds", ms}};
    if (flops > 0) {
      row.emplace_back("tflops", flops / ms / 1e9);
      if (peak_of_group) {
        row.emplace_back("percent_of_peak",
                         100 * flops / (ms / 1e3) / *peak_of_group);
      }
    } else {
      row.emplace_back("gigabytes_per_second", bytes / ms / 1e6);
      row.emplace_back(
          "percent_of_peak",
          100 * bytes / (ms / 1e3) / machine.properties.memory_bandwidth);
    }
    if (peer) row.emplace_back("percent_of_cublas", 100 * first_ms / ms);
    if (&kernel != kernels.data() ||
        !peer) {  // a library's are its own affair
      for (const KernelResources& takes :
           machine.resources(prepared.launch)) {
        cli::add_resources(row, takes);
      }
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace fa::tiled
