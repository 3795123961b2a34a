/// @file
/// Matmuls of a warp by fragments: nvcuda::wmma. Which lane holds which element is CUDA's secret;
/// here element i of lane l is element 32 i + l of the matrix, row by row.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

inline float __float_to_tf32(float x) {
  return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

template <class T>
struct lab_storage {
  using type = T;
};
template <>
struct lab_storage<precision::tf32> {
  using type = float;
};
template <class Use, int m, int n, int k>
struct lab_shape;
template <int m, int n, int k>
struct lab_shape<matrix_a, m, n, k> {
  static constexpr int rows = m, cols = k;
};
template <int m, int n, int k>
struct lab_shape<matrix_b, m, n, k> {
  static constexpr int rows = k, cols = n;
};
template <int m, int n, int k>
struct lab_shape<accumulator, m, n, k> {
  static constexpr int rows = m, cols = n;
};

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment {
 public:
  using element_type = typename lab_storage<T>::type;
  using storage_element_type = element_type;
  static constexpr int rows = lab_shape<Use, m, n, k>::rows, cols = lab_shape<Use, m, n, k>::cols;
  static constexpr int num_elements = rows * cols / 32, num_storage_elements = num_elements;
  element_type x[num_elements];
};

template <class Use, int m, int n, int k, class T, class Layout, class V>
void fill_fragment(fragment<Use, m, n, k, T, Layout>& f, const V& value) {
  for (auto& element : f.x) element = value;
}

/// Visits the elements of this lane: (element, row, column).
template <class Fragment, class Visit>
LAB_CUDA_FUNCTION void lab_visit(Fragment& f, Visit visit) {
  const int lane = ::lab_cuda::thread().lane;
  for (int i = 0; i < Fragment::num_elements; ++i) {
    const int at = 32 * i + lane;
    visit(f.x[i], at / Fragment::cols, at % Fragment::cols);
  }
}
template <class Use, int m, int n, int k, class T, class Layout, class P>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f, const P* from, unsigned stride,
                      LAB_CUDA_WHERE) {
  ::lab_cuda::sync_lanes(lab_where);
  lab_visit(f, [&](auto& element, int row, int col) {
    element =
        std::is_same_v<Layout, row_major> ? from[row * stride + col] : from[col * stride + row];
  });
}
template <int m, int n, int k, class T, class P>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const P* from, unsigned stride,
                      layout_t layout, LAB_CUDA_WHERE) {
  ::lab_cuda::sync_lanes(lab_where);
  lab_visit(f, [&](auto& element, int row, int col) {
    element = layout == mem_row_major ? from[row * stride + col] : from[col * stride + row];
  });
}
template <int m, int n, int k, class T, class P>
void store_matrix_sync(P* to, const fragment<accumulator, m, n, k, T>& f, unsigned stride,
                       layout_t layout, LAB_CUDA_WHERE) {
  ::lab_cuda::sync_lanes(lab_where);
  lab_visit(f, [&](const auto& element, int row, int col) {
    (layout == mem_row_major ? to[row * stride + col] : to[col * stride + row]) = element;
  });
}

/// d = a b + c, with sums in the type of d, or in float32 for types of 16 bits.
template <class D, class A, class B, class C>
LAB_CUDA_UNWATCHED void lab_multiply(D& d, const A& a, const B& b, const C& c,
                                     ::lab_cuda::Where where) {
  struct Own {
    const A* a;
    const B* b;
  };
  const ::lab_cuda::Exchange<Own> lanes(0xffffffffu, Own{&a, &b}, where);
  using T = typename D::element_type;
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  D result;
  const int lane = ::lab_cuda::thread().lane;
  for (int i = 0; i < D::num_elements; ++i) {
    const int row = (32 * i + lane) / D::cols, col = (32 * i + lane) % D::cols;
    Sum sum = static_cast<Sum>(c.x[i]);
    for (int k = 0; k < A::cols; ++k) {
      const int at_a = row * A::cols + k, at_b = k * B::cols + col;
      sum += static_cast<Sum>(lanes.of_lane(at_a % 32).a->x[at_a / 32]) *
             static_cast<Sum>(lanes.of_lane(at_b % 32).b->x[at_b / 32]);
    }
    result.x[i] = static_cast<T>(sum);
  }
  ::lab_cuda::sync_lanes(where);  // others read this lane's fragments
  d = result;
}
template <int m, int n, int k, class T, class TA, class LA, class TB, class LB, class TC>
void mma_sync(fragment<accumulator, m, n, k, T>& d, const fragment<matrix_a, m, n, k, TA, LA>& a,
              const fragment<matrix_b, m, n, k, TB, LB>& b,
              const fragment<accumulator, m, n, k, TC>& c, bool = false, LAB_CUDA_WHERE) {
  lab_multiply(d, a, b, c, lab_where);
}

}  // namespace wmma
}  // namespace nvcuda
