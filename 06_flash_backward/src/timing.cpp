#include "06_flash_backward/src/timing.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "05_flash_forward/src/timing.hpp"

namespace fa::backward {
namespace {

// Whether there is a faster rung for the same types: one length is enough.
bool is_step(const Rung& rung) {
  return rung.name < "06";
}

// A row of the record, and whose it is.
struct Timed {
  const Rung* rung;
  std::int64_t length;
  cli::Measurement row;
};

// The place of a field in a row.
auto field_of(cli::Measurement& row, const std::string& name) {
  return std::find_if(row.begin(), row.end(),
                      [&](const auto& field) { return field.first == name; });
}

// Adds the price of each deterministic rung: its time over that of the rung before it, or else
// behind it, that is not.
void add_prices(const std::vector<Rung>& rungs, std::vector<Timed>& all) {
  const auto neighbour = [&](const Rung* rung) -> const Rung* {
    const auto* const first = rungs.data();
    if (rung > first && !rung[-1].same_bits) return rung - 1;
    if (rung + 1 < first + rungs.size() && !rung[1].same_bits)
      return rung + 1;
    return nullptr;
  };
  const auto milliseconds = [](Timed& timed) {
    return std::get<double>(field_of(timed.row, "milliseconds")->second);
  };
  for (Timed& timed : all) {
    if (!timed.rung->same_bits) continue;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Timed& other) {
          return other.rung == neighbour(timed.rung) &&
                 other.length == timed.length;
        });
    if (found == all.end()) continue;
    const double price = milliseconds(timed) / milliseconds(*found);
    timed.row.insert(field_of(timed.row, "registers"),
                     {"deterministic_price", price});
  }
}

}  // namespace

Inputs timed_inputs(const Backend& backend, const Problem& problem) {
  const std::int64_t n = problem.shape.length_q, d = problem.shape.head_dim;
  Problem one = problem;
  one.shape = {1, 1, 1, n, n, d};
  flash::Inputs forward = flash::timed_inputs(n, d);
  flash::Outputs outputs = backend.forward(one, forward);
  Tensor<float, 4> d_o = flash::timed_inputs(n, d).v;
  // Not the values: P and dP would be of the same matrix.
  std::reverse(d_o.data(), d_o.data() + d_o.count());
  return {std::move(forward), std::move(outputs.o), std::move(outputs.lse),
          std::move(d_o)};
}

std::vector<cli::Measurement> time_rungs(const Backend& backend, Type type,
                                         std::int64_t head_dim, bool causal,
                                         const std::string& kernel,
                                         std::int64_t length) {
  std::vector<Timed> all;
  std::map<std::int64_t, Inputs> inputs;
  flash::for_each_timed(
      backend, type, head_dim, causal, kernel, length, is_step,
      [&](const Rung& rung, const Problem& problem, int repeats) {
        const std::int64_t n = problem.shape.length_q;
        if (inputs.find(n) == inputs.end()) {
          inputs.emplace(n, timed_inputs(backend, problem));
        }
        const Prepared prepared = rung.prepare(problem, inputs.at(n));
        all.push_back({&rung, n,
                       flash::time_work(backend, problem, rung.name,
                                        prepared.launch, 5, repeats)});
      });
  add_prices(backend.rungs, all);
  std::vector<cli::Measurement> rows;
  for (Timed& timed : all) rows.push_back(std::move(timed.row));
  return rows;
}

}  // namespace fa::backward
