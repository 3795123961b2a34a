/// @file
/// Attention in 8 bits on the host: tensors with scales, the loop over tiles that a kernel runs, and
/// the acceptance rule.
#pragma once

#include <string>
#include <vector>

#include "05_flash_forward/src/checker.hpp"

namespace fa::flash::fp8 {

/// P is stored times 2^kOffset: from 2^8, which lies below the largest e4m3, 448, down to 2^-9.
inline constexpr int kOffset = 8;

/// Which rows of a tensor share a scale.
enum class ScalePer { kTensor, kHead, kBlock };
/// Rows of a block: a tile of keys.
inline constexpr std::int64_t kBlockRows = 64;

/// A tensor of 8 bits with scales: an element is about its code times its scale.
/// @tparam T e4m3 or e5m2
template <class T = e4m3>
struct Quantized {
  Tensor<T, 4> codes;       ///< [batch, heads, length, head_dim]
  Tensor<float, 3> scales;  ///< [batch, heads, blocks]
  std::int64_t block_rows;  ///< rows of a block; the length where a head has one scale

  /// The scale of a row.
  float scale(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return scales(b, h, row / block_rows);
  }
};

/// Divides by a scale that makes the largest absolute value of each group the largest of T, and
/// rounds; the scale of zeros is 1.
/// @param tensor [batch, heads, length, head_dim], finite
template <class T>
Quantized<T> quantize(const Tensor<float, 4>& tensor, ScalePer per);

/// The exact products of codes and scales.
template <class T>
Tensor<double, 4> dequantized(const Quantized<T>& tensor);

/// Q, K and V in e4m3.
struct Fp8Inputs {
  Quantized<> q, k, v;
};
/// Quantizes all three in the same way.
Fp8Inputs quantize(const Inputs& inputs, ScalePer per);

/// FlashAttention-2 over tiles of keys as a kernel in 8 bits computes it: products of codes are
/// added up in float32, the scales of Q and K are in the factor of the exponent, P is stored in e4m3
/// times 2^kOffset, and O in bfloat16.
/// @throws std::invalid_argument as attention_shape()
Outputs forward(const Fp8Inputs& inputs, bool causal);

/// `plain` of the acceptance rule: lesson 01 in float32, with P stored in T as exp(S - m) 2^offset
/// and O in bfloat16; m is the row's maximum.
/// @param q, k, v what the kernel sees: dequantized
/// @throws std::invalid_argument as naive::forward()
template <class T>
Outputs plain(const Tensor<float, 4>& q, const Tensor<float, 4>& k, const Tensor<float, 4>& v,
              bool causal, int offset);

/// The acceptance rule for 8 bits. `ref` is lesson 01 in float64 on the dequantized inputs, so that
/// the errors of quantizing, which a kernel cannot help, do not count.
class Fp8Checker {
 public:
  /// Computes `ref` and `plain`.
  Fp8Checker(const Fp8Inputs& inputs, bool causal);
  /// The verdicts on O and LSE.
  /// @param accumulator_epsilon distance from 1 to the next value of the accumulators of S
  /// @throws std::invalid_argument when one has another shape
  std::vector<Verdict> check(const std::string& name, const Outputs& outputs,
                             double accumulator_epsilon = epsilon<float>()) const;

 private:
  naive::Forward<double> ref_;
  Outputs plain_;
  double score_magnitude_;
};

/// Multiplies each row by one orthogonal matrix, Hadamard's with random signs: products of two rows
/// stay, and a large element becomes many of equal size. Where head_dim is not a power of two, parts
/// of the row are multiplied, each as long as the largest power of two that divides it.
/// @param tensor [batch, heads, length, head_dim]
Tensor<float, 4> rotated(const Tensor<float, 4>& tensor);

}  // namespace fa::flash::fp8
