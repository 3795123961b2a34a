/// @file
/// Tensors of attention in the memory of the device, as kernels expect them. Compiled once for each
/// backend: see common/gpu/target.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "common/attention/attention.cuh"
#include "common/attention/host/problem.hpp"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// The type of a kernel's elements: what it is called, and the host's type of the same bits.
template <class T>
struct ElementType;
/// See ElementType.
template <>
struct ElementType<float> {
  using device = float;
  using host = float;
  static constexpr attention::Type type = attention::Type::kFloat32;
};
/// See ElementType.
template <>
struct ElementType<half> {
  using device = half;
  using host = fa::half;
  static constexpr attention::Type type = attention::Type::kFloat16;
};
/// See ElementType.
template <>
struct ElementType<bfloat16> {
  using device = bfloat16;
  using host = fa::bfloat16;
  static constexpr attention::Type type = attention::Type::kBFloat16;
};
/// See ElementType; kernels in 8 bits have other types as well.
template <>
struct ElementType<e4m3> {
  using host = fa::e4m3;
};

/// Strides of a [batch, heads, length, head_dim] tensor in a layout, with `pitch` elements from a
/// row to the next.
inline RowStrides strides_of(const Shape<4>& shape, attention::Layout layout, std::int64_t pitch) {
  const std::int64_t all = shape[1] * shape[2] * pitch;
  return layout == attention::Layout::kHeadsFirst ? RowStrides{all, shape[2] * pitch, pitch}
                                                  : RowStrides{all, pitch, shape[1] * pitch};
}
/// The same without gaps between rows.
inline RowStrides strides_of(const Shape<4>& shape, attention::Layout layout) {
  return strides_of(shape, layout, shape[3]);
}

/// A [batch, heads, length, head_dim] tensor in the memory of the device, in a layout.
template <class T>
class DeviceTensor {
 public:
  /// Poisoned.
  DeviceTensor(const Shape<4>& shape, attention::Layout layout)
      : shape_(shape), layout_(layout), buffer_(element_count(shape)) {}
  /// Given elements, rounded to T. A tensor with one head of one sequence stands for all of them.
  /// @throws std::invalid_argument for a tensor of another shape
  DeviceTensor(const Tensor<float, 4>& tensor, const Shape<4>& shape, attention::Layout layout)
      : shape_(shape), layout_(layout), buffer_(element_count(shape)) {
    const Host typed = converted<H>(tensor);
    const bool whole = typed.shape() == shape_;
    if (!whole && typed.shape() != Shape<4>{1, 1, shape_[2], shape_[3]}) {
      throw std::invalid_argument(fmt::format("a tensor of shape {} for a problem with {}",
                                              to_string(typed.shape()), to_string(shape_)));
    }
    if (layout_ == attention::Layout::kHeadsFirst) {
      upload(typed);
    } else {
      upload(exchanged(whole ? typed : repeated(typed, shape_)));
    }
  }

  /// The elements, exactly.
  Tensor<float, 4> host() const {
    if (layout_ == attention::Layout::kHeadsFirst) {
      return converted<float>(buffer_.template tensor<H, 4>(shape_));
    }
    const Shape<4> stored{shape_[0], shape_[2], shape_[1], shape_[3]};
    return converted<float>(exchanged(buffer_.template tensor<H, 4>(stored)));
  }
  /// For kernels.
  T* data() { return buffer_.data(); }
  /// For kernels.
  RowStrides strides() const { return strides_of(shape_, layout_); }

 private:
  using H = typename ElementType<T>::host;
  using Host = Tensor<H, 4>;

  // The same elements with heads and lengths exchanged, which is how they lie when the length comes
  // first.
  static Host exchanged(const Host& tensor) { return converted<H>(tensor.view().swap_axes(1, 2)); }
  // The elements over and over, until all are there.
  void upload(const Host& typed) {
    for (std::int64_t i = 0; i < buffer_.count(); i += typed.count()) {
      device_copy(data() + i, typed.data(), sizeof(T) * static_cast<std::size_t>(typed.count()),
                  CopyKind::kToDevice);
    }
  }
  // The head that a tensor has, for all heads of all sequences.
  static Host repeated(const Host& head, const Shape<4>& shape) {
    Host result(shape);
    for (std::int64_t i = 0; i < result.count(); i += head.count()) {
      std::copy(head.data(), head.data() + head.count(), result.data() + i);
    }
    return result;
  }

  Shape<4> shape_;
  attention::Layout layout_;
  DeviceBuffer<T> buffer_;
};

/// The fields of Attention that are not pointers, for a problem whose tensors lie in its layout.
template <class T>
Attention<T> attention_of(const attention::Problem& problem) {
  const AttentionShape& s = problem.shape;
  Attention<T> a = {};
  a.q_strides = strides_of(problem.shape_of_q(), problem.layout);
  a.k_strides = strides_of(problem.shape_of_kv(), problem.layout);
  a.v_strides = strides_of(problem.shape_of_v(), problem.layout);
  a.o_strides = strides_of(problem.shape_of_o(), problem.layout);
  a.batch = static_cast<int>(s.batch);
  a.heads = static_cast<int>(s.heads);
  a.kv_heads = static_cast<int>(s.kv_heads);
  a.length_q = static_cast<int>(s.length_q);
  a.length_k = static_cast<int>(s.length_k);
  a.head_dim = static_cast<int>(s.head_dim);
  a.head_dim_v = static_cast<int>(problem.columns_v());
  a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));
  a.causal = problem.causal;
  a.dropout = make_dropout(problem.dropout, problem.seed);
  return a;
}

/// A problem of the forward pass in the memory of the device.
template <class T>
struct DeviceAttention {
  /// Copies inputs to the device; o is poisoned.
  DeviceAttention(const attention::Problem& problem, const attention::Inputs& in)
      : shape(problem.shape_of_o()),
        q(in.q, problem.shape_of_q(), problem.layout),
        k(in.k, problem.shape_of_kv(), problem.layout),
        v(in.v, problem.shape_of_v(), problem.layout),
        o(shape, problem.layout),
        lse(shape[0] * shape[1] * shape[2]),
        a(attention_of<T>(problem)) {
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
  }
  /// What a kernel has written, on the host.
  attention::Outputs result() const {
    return {o.host(), lse.template tensor<float, 3>({shape[0], shape[1], shape[2]})};
  }

  Shape<4> shape;              ///< of o
  DeviceTensor<T> q, k, v, o;  ///< in the problem's layout
  DeviceBuffer<float> lse;     ///< [batch, heads, length_q]
  Attention<T> a;              ///< for kernels
};

/// A functor whose tables are in the memory of the device.
struct DeviceFunctor {
  /// Copies the tables.
  DeviceFunctor(const FunctorSpec& of, const attention::FunctorTables& tables)
      : documents(copied(tables.documents)),
        slopes(copied(tables.slopes)),
        sinks(copied(tables.sinks)),
        bias(copied(tables.bias)),
        blocks(copied(tables.blocks)),
        bits(copied(tables.bits)),
        spec(attention::pointed(of, *this)) {}
  /// A table on the device.
  template <class E>
  static DeviceBuffer<E> copied(const std::vector<E>& from) {
    DeviceBuffer<E> to(static_cast<std::int64_t>(from.size()));
    if (!from.empty()) to.upload(from.data());
    return to;
  }

  DeviceBuffer<std::int32_t> documents;
  DeviceBuffer<float> slopes, sinks, bias;
  DeviceBuffer<unsigned char> blocks;
  DeviceBuffer<std::uint32_t> bits;
  FunctorSpec spec;
};

}  // namespace fa::FA_TARGET
