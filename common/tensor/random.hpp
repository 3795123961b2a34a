/// @file
/// Reproducible random numbers. Element i depends only on the seed and on i, so the same seed gives
/// the same tensor for any type, any strides and any number of threads.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/tensor/tensor.hpp"

namespace fa {

/// Mixes 64 bits so that neighbouring inputs give unrelated outputs.
/// Source: Stafford's "variant 13", the output function of SplitMix64 in Java 8 (Steele, Lea and
/// Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
inline std::uint64_t mix_bits(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// 64 random bits for a seed and a counter.
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15u;
  // The seed is mixed first. Otherwise two seeds that differ by a multiple of golden_gamma would
  // give the same sequence, shifted.
  return mix_bits(mix_bits(seed + golden_gamma) + (counter + 1) * golden_gamma);
}

/// A number uniform in [0, 1), a multiple of 2^-53.
inline double random_uniform(std::uint64_t seed, std::uint64_t counter) {
  return std::ldexp(static_cast<double>(random_bits(seed, counter) >> 11), -53);
}

/// A standard normal number, by the Box-Muller transform (Annals of Mathematical Statistics, 1958).
inline double random_normal(std::uint64_t seed, std::uint64_t counter) {
  constexpr double two_pi = 6.283185307179586476925286766559;
  // In (0, 1], so that the logarithm is finite.
  const double radius_uniform = 1.0 - random_uniform(seed, 2 * counter);
  const double angle_uniform = random_uniform(seed, 2 * counter + 1);
  return std::sqrt(-2.0 * std::log(radius_uniform)) * std::cos(two_pi * angle_uniform);
}

/// Sets each element of a view to `value(i)` rounded to type T, with i the row-major position.
template <class T, int Rank, class Value>
void fill_with(View<T, Rank> view, Value value) {
  std::uint64_t position = 0;
  for_each_index(view.shape(), [&](const Shape<Rank>& index) {
    view[index] = static_cast<T>(static_cast<accumulator_t<T>>(value(position++)));
  });
}

/// Fills with normal numbers of mean 0 and the given standard deviation, rounded to type T.
template <class T, int Rank>
void fill_normal(View<T, Rank> view, std::uint64_t seed, double deviation = 1.0) {
  fill_with(view, [&](std::uint64_t i) { return deviation * random_normal(seed, i); });
}

/// Fills with NaN, so that an element that is never written fails every check.
template <class T, int Rank>
void poison(View<T, Rank> view) {
  fill_with(view, [](std::uint64_t) { return std::numeric_limits<double>::quiet_NaN(); });
}

/// A dropout mask: 1 keeps, 0 drops; each element is dropped with the given probability, 0 to 1.
/// @throws std::invalid_argument as element_count()
template <int Rank>
Tensor<std::uint8_t, Rank> random_keep_mask(const Shape<Rank>& shape, double drop_probability,
                                            std::uint64_t seed) {
  Tensor<std::uint8_t, Rank> keep(shape);
  for (std::int64_t i = 0; i < keep.count(); ++i) {
    keep.data()[i] = random_uniform(seed, static_cast<std::uint64_t>(i)) >= drop_probability;
  }
  return keep;
}

/// A new tensor of normal numbers of mean 0 and the given standard deviation.
/// @throws std::invalid_argument as element_count()
template <class T, int Rank>
Tensor<T, Rank> normal_tensor(const Shape<Rank>& shape, std::uint64_t seed,
                              double deviation = 1.0) {
  Tensor<T, Rank> result(shape);
  fill_normal(result.view(), seed, deviation);
  return result;
}

}  // namespace fa
