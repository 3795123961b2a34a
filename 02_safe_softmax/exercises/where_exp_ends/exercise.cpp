#include "02_safe_softmax/softmax.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
namespace safe = fa::safe;

FA_QUESTIONS {
  const safe::ExpRange of_half = safe::exp_range<fa::half>();
  const double of_float = safe::exp_range<float>().overflows_after,
               of_bfloat = safe::exp_range<fa::bfloat16>().overflows_after,
               of_double = safe::exp_range<double>().overflows_after;
  const double half_sum = safe::sum_stops_at<fa::half>(1e6, FA_STEP),
               bfloat_sum = safe::sum_stops_at<fa::bfloat16>(1e6),
               quarters = safe::sum_stops_at<fa::bfloat16>(1e6, 0.25);
  const double largest_half = safe::last_where<fa::half>([](double x) { return std::isfinite(x); });
  const double ln2 = std::log(2.0);
  const std::string powers = "this is the power of two, 2^n; e^x reaches it at x = n ln 2";
  const std::string more_bits = "one bit more: the leading 1 is not stored";
  return {
      nearly(0.01, "double_overflow", of_double,
             {{of_double / ln2, powers},
              {of_float, "this is where float32 ends; float64 has 11 bits of exponent"}}),
      nearly(0.01, "bfloat_overflow", of_bfloat,
             {{of_bfloat / ln2, powers},
              {of_half.overflows_after,
               "this is where float16 ends; bfloat16 has the exponent of float32"}}),
      nearly(0.01, "half_zero", of_half.nonzero_until,
             {{-of_half.nonzero_until, "e^x is small where x is negative"},
              {of_half.nonzero_until / ln2, powers},
              {of_half.normal_until, "here e^x becomes subnormal; it is 0 only further down"}}),
      exactly("half_sum", half_sum,
              {{half_sum / 2, more_bits},
               {largest_half, "the sum stops long before it overflows: its digits run out"},
               {half_sum * 2,
                fmt::format("one bit less: above {} the numbers that can be stored are {} apart",
                            half_sum, 2 * FA_STEP)}}),
      exactly("bfloat_quarters", quarters,
              {{quarters / 2, more_bits},
               {quarters * 2, "one bit less: count the leading 1 once"},
               {bfloat_sum, "this is where a sum of ones stops; smaller terms stop sooner"},
               {half_sum / FA_STEP / bfloat_sum * quarters,
                "this is where float16 stops; bfloat16 has 7 bits of fraction"}})};
}
