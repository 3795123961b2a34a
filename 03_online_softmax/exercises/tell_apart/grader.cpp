#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "common/classroom/grader.hpp"

#include "03_online_softmax/recurrence.hpp"

using namespace fa::classroom;
namespace online = fa::online;
namespace wrong = fa::online::wrong;

namespace {

using W = online::BaseE<double>;

// Wrong ones that the lesson does not have.
struct NothingRescaled : online::Unnormalised {
  static constexpr const char* name = "l and O not rescaled";
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s), p = W::exp_diff(s, m);
    x.l += p;
    x.o += p * v;
    x.m = m;
  }
};
struct NanForMasked : online::Unnormalised {
  static constexpr const char* name = "NaN for a masked key";
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s);
    const double rescale = x.l == 0 && s != W::neg_inf ? 0 : std::exp(x.m - m);
    const double p = std::exp(s - m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
  }
};
struct MaximumFromZero : online::Unnormalised {
  static constexpr const char* name = "maximum from 0";
  template <class S>
  static void step(S& x, double s, double v) {
    if (x.m == W::neg_inf) x.m = 0;
    online::Unnormalised::step(x, s, v);
  }
};

// What the student's test says of a recurrence, which stays here, and whether it was given NaN.
struct Said {
  bool accepted, gave_nan;
};
template <class R>
Said test() {
  using S = online::State<W, double>;
  bool gave_nan = false;
  const bool accepted =
      call<bool>("follows_definition", function<S, S, double, double>([](S x, double s, double v) {
                   R::step(x, s, v);
                   return x;
                 }),
                 function<double, S>([&](S x) {
                   const double output = R::output(x);
                   gave_nan |= std::isnan(output);
                   return output;
                 }));
  return {accepted, gave_nan};
}

template <class R>
void must_accept() {
  require(test<R>().accepted,
          fmt::format("your test refuses '{}', which is right up to rounding", R::name));
}
template <class R>
void must_refuse() {
  const auto [accepted, gave_nan] = test<R>();
  require(!accepted,
          fmt::format("your test accepts '{}', which is wrong{}", R::name,
                      gave_nan ? ". It returned NaN to your test: your comparison lets NaN pass"
                               : ": which row, which values would show it?"));
}

}  // namespace

FA_STAGE(easy) {
  must_accept<online::Unnormalised>();
  must_accept<online::Normalised>();
}

FA_STAGE(odd) {
  must_refuse<wrong::LocalSoftmax>();
  must_refuse<wrong::DividedTwice>();
  must_refuse<wrong::MixedNormalisation>();
  must_refuse<wrong::SumNotRescaled>();
  must_refuse<wrong::OutputNotRescaled>();
  must_refuse<wrong::InvertedCorrection>();
  must_refuse<NothingRescaled>();
  must_refuse<NanForMasked>();
  must_refuse<MaximumFromZero>();
}
#endif
