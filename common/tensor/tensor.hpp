/// @file
/// Host tensors: `Tensor` owns its elements, `View` refers to elements by a shape and strides.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/tensor/dtype.hpp"

namespace fa {

/// Sizes of a tensor, outermost dimension first: [batch, heads, length, head_dim]. Also used for
/// indices and for strides (in elements). 64 bits, so that offsets past 2^31 elements work.
template <int Rank>
using Shape = std::array<std::int64_t, Rank>;

/// A shape as text: "[1, 12, 128, 32]". Without fmt::join(), which takes a second to compile.
template <std::size_t Rank>
std::string to_string(const std::array<std::int64_t, Rank>& shape) {
  std::string text = "[";
  for (std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// The number of elements of a shape.
/// @throws std::invalid_argument for a negative size, or when the product of the sizes other than 0
///   exceeds 2^63 - 1
template <std::size_t Rank>
std::int64_t element_count(const std::array<std::int64_t, Rank>& shape) {
  std::int64_t count = 1;  // of the sizes other than 0: strides need it too
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size < 0) {
      throw std::invalid_argument("shape " + to_string(shape) + " has a negative size");
    }
    if (size == 0) {
      empty = true;
    } else if (count > std::numeric_limits<std::int64_t>::max() / size) {
      throw std::invalid_argument("shape " + to_string(shape) + " has too many elements");
    } else {
      count *= size;
    }
  }
  return empty ? 0 : count;
}

/// Row-major strides of a shape, in elements: the last dimension has stride 1.
/// @param shape one that element_count() accepts
template <std::size_t Rank>
std::array<std::int64_t, Rank> row_major_strides(const std::array<std::int64_t, Rank>& shape) {
  std::array<std::int64_t, Rank> strides{};
  std::int64_t step = 1;
  for (std::size_t axis = Rank; axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

/// A strided view of elements that it does not own. Copying a view copies no element.
/// `View<const T, Rank>` is read-only.
template <class T, int Rank>
class View {
 public:
  /// An empty view: null, all sizes 0.
  View() = default;
  /// @param data    the element at index 0, 0, ...
  /// @param shape   sizes, outermost first
  /// @param strides distance between neighbours along each dimension, in elements
  View(T* data, const Shape<Rank>& shape, const Shape<Rank>& strides)
      : data_(data), shape_(shape), strides_(strides) {}
  /// A row-major view.
  View(T* data, const Shape<Rank>& shape) : View(data, shape, row_major_strides(shape)) {}
  /// A writable view converts to a read-only one.
  template <class U, class = std::enable_if_t<std::is_same_v<T, const U>>>
  View(const View<U, Rank>& other) : View(other.data(), other.shape(), other.strides()) {}

  /// The element at an index; one argument per dimension. Checked in debug builds only.
  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank, "one index per dimension");
    return data_[offset({static_cast<std::int64_t>(index)...})];
  }
  /// The element at an index given as an array. Checked in debug builds only.
  T& operator[](const Shape<Rank>& index) const { return data_[offset(index)]; }

  /// The sub-view at one index of the outermost dimension: q.at(b).at(h) is [length, head_dim].
  /// Checked in debug builds only.
  auto at(std::int64_t index) const {
    static_assert(Rank > 1, "a view of one dimension has elements, not sub-views");
    assert(index >= 0 && index < shape_[0]);
    Shape<Rank - 1> shape{}, strides{};
    for (int axis = 1; axis < Rank; ++axis) {
      shape[axis - 1] = shape_[axis];
      strides[axis - 1] = strides_[axis];
    }
    return View<T, Rank - 1>(data_ + index * strides_[0], shape, strides);
  }

  /// The same elements with indices `begin` to `end` (exclusive) along one dimension.
  /// @throws std::invalid_argument when the range does not fit
  View narrow(int axis, std::int64_t begin, std::int64_t end) const {
    if (axis < 0 || axis >= Rank || begin < 0 || end < begin || end > shape_[axis]) {
      throw std::invalid_argument(
          fmt::format("range {} to {} does not fit dimension {} of shape {}", begin, end, axis,
                      to_string(shape_)));
    }
    View result = *this;
    result.data_ += begin * strides_[axis];
    result.shape_[axis] = end - begin;
    return result;
  }

  /// The same elements with two dimensions exchanged: [B, N, H, D] viewed as [B, H, N, D].
  /// Checked in debug builds only.
  View swap_axes(int first, int second) const {
    assert(first >= 0 && first < Rank && second >= 0 && second < Rank);
    View result = *this;
    std::swap(result.shape_[first], result.shape_[second]);
    std::swap(result.strides_[first], result.strides_[second]);
    return result;
  }

  /// The element at index 0, 0, ...
  T* data() const { return data_; }
  /// Sizes, outermost first.
  const Shape<Rank>& shape() const { return shape_; }
  /// Distance between neighbours along each dimension, in elements.
  const Shape<Rank>& strides() const { return strides_; }
  /// The size of one dimension.
  std::int64_t size(int axis) const { return shape_[axis]; }
  /// The number of elements.
  std::int64_t count() const { return element_count(shape_); }
  /// True when the elements lie row-major without gaps.
  bool contiguous() const {
    const Shape<Rank> wanted = row_major_strides(shape_);
    for (int axis = 0; axis < Rank; ++axis) {
      // The stride of a dimension of size 1 is never used.
      if (shape_[axis] > 1 && strides_[axis] != wanted[axis]) return false;
    }
    return true;
  }

 private:
  std::int64_t offset(const Shape<Rank>& index) const {
    std::int64_t result = 0;
    for (int axis = 0; axis < Rank; ++axis) {
      assert(index[axis] >= 0 && index[axis] < shape_[axis]);
      result += index[axis] * strides_[axis];
    }
    return result;
  }

  T* data_ = nullptr;
  Shape<Rank> shape_{};
  Shape<Rank> strides_{};
};

/// Calls `visit(index)` for every index of a shape, in row-major order.
template <std::size_t Rank, class Visit>
void for_each_index(const std::array<std::int64_t, Rank>& shape, Visit visit) {
  if (element_count(shape) == 0) return;
  std::array<std::int64_t, Rank> index{};
  for (;;) {
    visit(static_cast<const std::array<std::int64_t, Rank>&>(index));
    int axis = static_cast<int>(Rank) - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

/// A row-major tensor that owns its elements; new elements are zero.
template <class T, int Rank>
class Tensor {
 public:
  /// An empty tensor: all sizes 0.
  Tensor() = default;
  /// A tensor of zeros.
  /// @throws std::invalid_argument as element_count()
  /// @throws std::bad_alloc or std::length_error when there is not enough memory
  explicit Tensor(const Shape<Rank>& shape)
      : shape_(shape), elements_(static_cast<std::size_t>(element_count(shape)), T(0)) {}

  /// The element at an index; one argument per dimension. Checked in debug builds only.
  template <class... Index>
  T& operator()(Index... index) {
    return view()(index...);
  }
  /// The element at an index, read only.
  template <class... Index>
  const T& operator()(Index... index) const {
    return view()(index...);
  }

  /// All elements.
  View<T, Rank> view() { return {elements_.data(), shape_}; }
  /// All elements, read only.
  View<const T, Rank> view() const { return {elements_.data(), shape_}; }
  /// A tensor converts to a view.
  operator View<T, Rank>() { return view(); }
  /// A const tensor converts to a read-only view.
  operator View<const T, Rank>() const { return view(); }
  /// A writable tensor converts to a read-only view.
  operator View<const T, Rank>() { return view(); }

  /// The elements, row-major.
  T* data() { return elements_.data(); }
  /// The elements, row-major, read only.
  const T* data() const { return elements_.data(); }
  /// Sizes, outermost first.
  const Shape<Rank>& shape() const { return shape_; }
  /// The size of one dimension.
  std::int64_t size(int axis) const { return shape_[axis]; }
  /// The number of elements.
  std::int64_t count() const { return static_cast<std::int64_t>(elements_.size()); }

 private:
  Shape<Rank> shape_{};
  std::vector<T> elements_;
};

/// Copies elements between views of equal shape, rounding to nearest if the types differ (to and
/// from 16-bit types through float32).
/// @throws std::invalid_argument when the shapes differ
template <class From, class To, int Rank>
void copy(View<From, Rank> from, View<To, Rank> to) {
  if (from.shape() != to.shape()) {
    throw std::invalid_argument(fmt::format("cannot copy shape {} into shape {}",
                                            to_string(from.shape()), to_string(to.shape())));
  }
  for_each_index(from.shape(), [&](const Shape<Rank>& index) {
    if constexpr (std::is_arithmetic_v<std::remove_const_t<From>> && std::is_arithmetic_v<To>) {
      to[index] = static_cast<To>(from[index]);
    } else if constexpr (std::is_same_v<std::remove_const_t<From>, To>) {
      to[index] = from[index];
    } else {
      to[index] = static_cast<To>(static_cast<float>(from[index]));
    }
  });
}

/// A new row-major tensor of the shape and with the elements of a view, rounded to type `To`.
/// @throws std::bad_alloc when there is not enough memory
template <class To, class From, int Rank>
Tensor<To, Rank> converted(View<From, Rank> from) {
  Tensor<To, Rank> result(from.shape());
  copy(from, result.view());
  return result;
}

/// A new row-major tensor of the shape and with the elements of another, rounded to type `To`.
/// @throws std::bad_alloc when there is not enough memory
template <class To, class From, int Rank>
Tensor<To, Rank> converted(const Tensor<From, Rank>& from) {
  return converted<To>(from.view());
}

/// Whether two tensors have one shape and are equal to the last bit.
template <class T, int Rank>
bool same_bits(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b) {
  return a.shape() == b.shape() &&
         (a.count() == 0 || std::memcmp(a.data(), b.data(), sizeof(T) * a.count()) == 0);
}

}  // namespace fa
