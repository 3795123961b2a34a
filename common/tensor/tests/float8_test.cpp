// The two formats of 8 bits, all codes, against their definition.
#include "common/tensor/float8.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"

using namespace fa;

namespace {

// The value of a code by the definition: (1 + fraction) 2^(exponent - bias), and
// without the 1 where the exponent's bits are 0.
template <class T>
double defined(int code) {
  const int bits = FloatTraits<T>::fraction_bits, bias = bits == 3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> bits;
  const double fraction = std::ldexp(code & ((1 << bits) - 1), -bits);
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return code >= 0x80 ? -size : size;
}

template <class T>
int largest_code() {
  return FloatTraits<T>::fraction_bits == 3 ? 0x7e : 0x7b;
}

template <class T>
double value(int code) {
  return static_cast<float>(T::from_code(static_cast<std::uint8_t>(code)));
}

// The code of the nearest finite value with the sign of x; of two, the even one.
template <class T>
int nearest(float x) {
  int best = std::abs(x) > largest<T>() ? largest_code<T>() : 0;  // beyond it: saturated
  double least = std::numeric_limits<double>::infinity();
  for (int code = best; code <= largest_code<T>(); ++code) {
    const double distance = std::abs(std::abs(static_cast<double>(x)) - defined<T>(code));
    if (distance < least || (distance == least && code % 2 == 0)) {
      best = code;
      least = distance;
    }
  }
  return best | (std::signbit(x) ? 0x80 : 0);
}

template <class T>
bool is_nearest(float x) {
  return T(x).code == nearest<T>(x) && T(-x).code == nearest<T>(-x);
}

template <class T>
T of_bits(std::uint64_t random) {
  return Eigen::numext::bit_cast<T>(
      static_cast<std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>>(random));
}

}  // namespace

TEST_CASE_TEMPLATE("each code of 8 bits has the value of its definition", T, e4m3, e5m2) {
  for (int code = 0; code < 256; ++code) {
    CAPTURE(code);
    const int above = (code & 0x7f) - largest_code<T>();
    if (above <= 0) {
      CHECK(value<T>(code) == defined<T>(code));
      CHECK(std::signbit(value<T>(code)) == (code >= 0x80));
    } else if (std::is_same_v<T, e5m2> && above == 1) {
      CHECK(value<T>(code) == (code < 0x80 ? INFINITY : -INFINITY));
    } else {
      CHECK(std::isnan(value<T>(code)));
    }
  }
  CHECK(value<T>(largest_code<T>()) == largest<T>());
  CHECK(value<T>(1 << FloatTraits<T>::fraction_bits) == smallest_normal<T>());
  CHECK(value<T>(T(1.0f).code + 1) == 1 + epsilon<T>());
}

TEST_CASE("the published limits of both, and e5m2 is the upper half of a float16") {
  CHECK(largest<e4m3>() == 448);
  CHECK(largest<e5m2>() == 57344);
  CHECK(value<e4m3>(1) == 0x1p-9);
  CHECK(value<e5m2>(1) == 0x1p-16);
  for (int code = 0; code < 256; ++code) {
    const auto wide = static_cast<double>(of_bits<half>(static_cast<std::uint64_t>(code) << 8));
    CHECK((wide == value<e5m2>(code) || (std::isnan(wide) && std::isnan(value<e5m2>(code)))));
  }
}

TEST_CASE_TEMPLATE("conversions take the nearest value, ties the even one, and saturate", T, e4m3,
                   e5m2) {
  int wrong = 0;
  for (std::uint64_t i = 0; i < (1 << 16); ++i) {
    for (const float x :
         {static_cast<float>(of_bits<half>(i)), static_cast<float>(of_bits<bfloat16>(i)),
          of_bits<float>(random_bits(1, i)),
          static_cast<float>(std::ldexp(random_normal(2, i), int(i % 40) - 25))}) {
      wrong += std::isnan(x) ? T(x).code != 0x7f : !is_nearest<T>(x);
    }
  }
  CHECK(wrong == 0);
  // Values, the middles between them, and the floats beside both.
  for (int code = 0; code <= largest_code<T>(); ++code) {
    CHECK(T(static_cast<float>(defined<T>(code))).code == code);
    for (const double x : {defined<T>(code), (defined<T>(code) + defined<T>(code + 1)) / 2}) {
      const auto middle = static_cast<float>(x);
      for (const float near :
           {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
        CAPTURE(near);
        CHECK(is_nearest<T>(near));
      }
    }
  }
}
