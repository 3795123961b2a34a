/// @file
/// Two-dimensional views as Eigen matrices, without a copy.
#pragma once

#include <type_traits>

#include <Eigen/Core>

#include "common/tensor/tensor.hpp"

namespace fa {

/// A row-major Eigen matrix [rows, cols].
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A column vector.
template <class T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

/// An Eigen matrix over the elements of a view [rows, cols] with any strides; writable if the view
/// is.
template <class T>
auto as_matrix(View<T, 2> view) {
  using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  using Plain = Matrix<std::remove_const_t<T>>;
  using Target = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  return Eigen::Map<Target, Eigen::Unaligned, Stride>(view.data(), view.size(0), view.size(1),
                                                      Stride(view.strides()[0], view.strides()[1]));
}

}  // namespace fa
