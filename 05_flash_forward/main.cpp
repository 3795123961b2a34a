// Lesson 05: attention by one kernel, from three kernels to the hardware's limit; each step
// checked, counted in the lab and timed on a GPU.
#include <map>

#include <fmt/format.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/fp8_sections.hpp"
#include "common/attention/host/sections.hpp"
#include "common/tensor/npy.hpp"

namespace {

using namespace fa;
using namespace fa::attention;
using flash::Backend;
using flash::LadderStep;

// Each step on the real input, in all its types.
void check_real(const Lesson<Backend>& lesson) {
  const cli::Input& input = lesson.program.input();
  const Outputs last = attention::check_real<flash::Checker>(
      lesson, attention_shape(input.q.shape(), input.k.shape(), input.v.shape()),
      [&](const Problem& problem) { return rounded_inputs(problem, input.q, input.k, input.v); });
  if (const auto directory = lesson.program.save_directory()) {
    write_npy(*directory / "o.npy", last.o);
    write_npy(*directory / "lse.npy", last.lse);
  }
}

// Memory beside inputs and outputs.
void show_memory(const Lesson<Backend>& lesson) {
  constexpr std::int64_t kDim = 64;
  const auto zeros = [](const Problem& problem) {
    const Tensor<float, 4> all(problem.shape_of_q());
    return Inputs{all, all, all};
  };
  // In the lab, which runs every step: a GPU may lack some.
  attention::show_memory(
      lesson.program, lesson.backends.lab(),
      {{"inputs and outputs", "16 N D + 4 N", [](auto n) { return 4 * (4 * n * kDim + n); }}},
      zeros, kDim,
      "Bytes of one head: q, k, v, o and LSE in float32, head_dim 64, and the "
      "memory\nthat a kernel allocates in addition\n\n{}");
}

// No order of additions depends on which block or warp comes first.
void check_repeats(const Lesson<Backend>& lesson) {
  const Backend& backend = lesson.backends.used();
  const bool gpu = backend.kind == "gpu";
  const int runs = gpu ? 250 : 10;
  Problem problem = repeated_problem(gpu, 50, 70);
  std::map<Type, Inputs> inputs;
  for (const Type type : kTypes) {
    problem.type = type;
    inputs[type] = lesson.inputs_of(problem);
  }
  for (const LadderStep& step : backend.steps) {
    problem.type = step.types.front();
    const auto prepared = step.prepare(problem, inputs.at(problem.type));
    prepared.launch();
    const Outputs first = prepared.result();
    int others = 0;
    for (int run = 1; run < runs; ++run) {
      prepared.launch();
      const Outputs outputs = prepared.result();
      const bool same = same_bits(outputs.o, first.o) && same_bits(outputs.lse, first.lse);
      others += same ? 0 : 1;
    }
    lesson.program.check_none(fmt::format("{}, bits of {} runs", step.name, runs), others,
                              "difference");
  }
}

// On a GPU only.
void show_times(const Lesson<Backend>& lesson) {
  time_all(lesson, {64, 128, 256}, [&](const TimedGroup& group) {
    return time_steps(lesson.backends.used(), group, 2, [](const Problem& problem) {
      return timed_inputs(problem.shape.length_q, problem.shape.head_dim);
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("05_flash_forward",
                       "Lesson 05: the forward pass in one kernel, up to the hardware's limit.");
  const Lesson<Backend> lesson(
      program, flash::backends(), "05_flash_forward", "O and LSE",
      [](const Problem& problem) { return make_inputs(problem, Values::kNormal, 1); });
  add_ladder_sections<flash::Checker>(
      lesson, {[&] { check_real(lesson); },
               [&] { show_memory(lesson); },
               [&] { check_repeats(lesson); },
               [&] { show_times(lesson); },
               "",
               {{64, 32}, {128, 32}, {192, 32}, {64, 64}, {128, 64}, {192, 64}},
               4,
               {"Q", "K", "V", "O"},
               "softmax"});
  flash::fp8::add_sections(program);
  program.sections_in_apart({"decode", "fp8_kernels", "functors"});
  return program.run(argc, argv);
}
