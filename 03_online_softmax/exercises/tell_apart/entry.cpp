#include "common/classroom/prelude_cpu.hpp"
#include "student/tell_apart.hpp"

using State = fa::online::State<student::W, double>;
using Step = fa::classroom::Callback<State(State, double, double)>;
using Output = fa::classroom::Callback<double(State)>;

namespace {

// A recurrence of the grader's.
struct Given {
  static inline Step of_step;
  static inline Output of_output;
  static void step(State& x, double score, double value) { x = of_step(x, score, value); }
  static double output(const State& x) { return of_output(x); }
};

}  // namespace

FA_ENTRY(follows_definition, [](Step step, Output output) {
  Given::of_step = step;
  Given::of_output = output;
  return student::follows_definition<Given>();
});
