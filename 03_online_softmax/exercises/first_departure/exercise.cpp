#include "03_online_softmax/proof.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
namespace wrong = fa::online::wrong;
namespace proof = fa::online::proof;

FA_QUESTIONS {
  proof::Row row;
  double rises = 0;
  int m = fa::online::BaseTwo::neg_inf;
  for (const int score : {FA_SCORES}) {
    if (row.length > 0 && score > m) ++rises;
    m = std::max(m, score);
    row = row.with(score);
  }
  const auto step = [&](std::size_t (*departs)(const proof::Row&)) {
    return static_cast<double>(departs(row));
  };
  const double of_l = step(proof::first_departure<wrong::SumNotRescaled>),
               of_o = step(proof::first_departure<wrong::OutputNotRescaled>),
               twice = step(proof::first_departure<wrong::DividedTwice>),
               inverted = step(proof::first_departure<wrong::InvertedCorrection>);
  const std::string from_one = "steps are counted from 1: after step 1 one key was seen";
  const std::string empty = "at step 1 the old state is empty, and a factor of 0 changes nothing";
  const std::string equal = "an equal score does not raise the maximum: the rescale factor is 1";
  return {
      exactly("rises", rises,
              {{rises + 1, "step 1 does not count: there is nothing to rescale yet"},
               {6 - 1, "only a score that is larger than all before raises the maximum"}}),
      exactly("l_not_rescaled", of_l, {{of_l - 1, from_one}, {1, empty}, {2, equal}}),
      exactly("o_not_rescaled", of_o, {{of_o - 1, from_one}, {1, empty}, {2, equal}}),
      exactly(
          "divided_twice", twice,
          {{of_l,
            "this one does not wait for the maximum to rise: it is wrong as soon as l is not 1"},
           {1, "after step 1 l is 1, and dividing by 1 twice is right"}}),
      exactly("inverted", inverted, {{inverted - 1, from_one}, {1, empty}})};
}
