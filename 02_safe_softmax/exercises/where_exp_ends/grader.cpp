#include "common/classroom/grader.hpp"

#include "02_safe_softmax/limits.hpp"
#include "common/classroom/prelude_cpu.hpp"

using namespace fa::classroom;
namespace safe = fa::safe;

FA_QUESTIONS {
  const double of_float = safe::exp_range<float>().overflows_after,
               of_half = safe::exp_range<fa::half>().overflows_after,
               of_bfloat = safe::exp_range<fa::bfloat16>().overflows_after,
               of_double = safe::exp_range<double>().overflows_after;
  const double half_sum = safe::sum_stops_at<fa::half>(1e6),
               bfloat_sum = safe::sum_stops_at<fa::bfloat16>(1e6);
  const double largest_half =
      safe::last_where<fa::half>([](double x) { return std::isfinite(x); });
  const double ln2 = std::log(2.0);
  const std::string powers =
      "this is the power of two, 2^n; e^x reaches it at x = n ln 2";
  return {{"float_overflow",
           of_float,
           0.01,
           {{of_float / ln2, powers},
            {of_double,
             "this is where float64 ends, which has 11 bits of exponent"}}},
          {"half_overflow",
           of_half,
           0.01,
           {{of_half / ln2, powers},
            {largest_half,
             "this is the largest number itself; e^x reaches it much "
             "earlier"},
            {of_float,
             "this is where float32 ends; float16 has only 5 bits of "
             "exponent"}}},
          {"bfloat_overflow",
           of_bfloat,
           0.01,
           {{of_bfloat / ln2, powers},
            {of_half,
             "this is where float16 ends; bfloat16 has the exponent of "
             "float32"}}},
          {"half_sum",
           half_sum,
           0.01,
           {{half_sum / 2, "one bit more: the leading 1 is not stored"},
            {largest_half,
             "the sum stops long before it overflows: its digits run "
             "out"},
            {half_sum * 2,
             "one bit less: above 2^11 only even numbers can be "
             "stored"}}},
          {"bfloat_sum",
           bfloat_sum,
           0.01,
           {{bfloat_sum / 2, "one bit more: the leading 1 is not stored"},
            {half_sum,
             "this is where float16 stops; bfloat16 has 7 bits of "
             "fraction"}}}};
}
