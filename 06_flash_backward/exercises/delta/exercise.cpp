#if defined(FA_STUDENT)
#include "common/tensor/tensor.hpp"

namespace student {

using fa::for_each_index;
using fa::Shape;
using fa::Tensor;
using fa::View;

/// delta, one number for each query.
/// @param o   [batch, heads, length_q, head_dim]
/// @param d_o gradient of the loss with respect to o, same shape
/// @return [batch, heads, length_q]
template <class T>
Tensor<T, 3> row_dots(View<const T, 4> o, View<const T, 4> d_o) {
  Tensor<T, 3> delta({o.size(0), o.size(1), o.size(2)});  // zeros
#ifdef FA_SOLUTION
  // listing: 06_flash_backward/src/derivation/tiled.cpp#row_dots
#else
  // TODO: delta from o and d_o alone. o(b, h, i, c) is an element of o;
  // delta(b, h, i) = ... sets one of delta; o.size(3) is head_dim.
  (void)d_o;
#endif
  return delta;
}

}  // namespace student
#elif defined(FA_ENTRIES)
using Tensor4 = fa::Tensor<double, 4>;

FA_ENTRY(row_dots, [](const Tensor4& o, const Tensor4& d_o) {
  return student::row_dots<double>(o.view(), d_o.view());
});
// The tensors are [batch, length_q, heads, head_dim] here, and their views are not.
FA_ENTRY(row_dots_strided, [](const Tensor4& o, const Tensor4& d_o) {
  const auto view = [](const Tensor4& x) {
    const auto& n = x.shape();
    return fa::View<const double, 4>(x.data(), {n[0], n[2], n[1], n[3]},
                                     {n[1] * n[2] * n[3], n[3], n[2] * n[3], 1});
  };
  return student::row_dots<double>(view(o), view(d_o));
});
#elif defined(FA_GRADER)
#include <numeric>

#include "06_flash_backward/exercises/plain.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;

namespace {

using Tensor4 = fa::Tensor<double, 4>;

// delta as it is defined, the sum of P o dP over all keys.
std::vector<double> sums_over_keys(const plain::Problem& x, const plain::Forward& y) {
  std::vector<double> result;
  for (int row = 0; row < x.heads * x.length_q; ++row) {
    double sum = 0;
    for (int j = 0; j < x.length_k; ++j) {
      const int head = row / x.length_q, query = row % x.length_q;
      if (!x.sees(query, j)) continue;
      const double p = std::exp(x.scale * plain::product(x, head, query, j) - y.lse[row]);
      double d_p = 0;
      for (int c = 0; c < x.head_dim; ++c) {
        d_p += x.d_o[row * x.head_dim + c] * x.v[j * x.head_dim + c];
      }
      sum += p * d_p * x.kept[row * x.length_k + j];
    }
    result.push_back(sum);
  }
  return result;
}

std::vector<Mistake> mistakes(int batch, const plain::Problem& x, const plain::Forward& y) {
  const int of_sequence = x.heads / batch * x.length_q;
  std::vector<double> d_o_only, first_head, last_column, but_last;
  for (int row = 0; row < x.heads * x.length_q; ++row) {
    const auto begin = x.d_o.begin() + row * x.head_dim;
    d_o_only.push_back(std::accumulate(begin, begin + x.head_dim, 0.0));
    const int last = (row + 1) * x.head_dim - 1;
    last_column.push_back(y.o[last] * x.d_o[last]);
    but_last.push_back(plain::row_delta(x, y, row) - last_column.back());
    first_head.push_back(
        plain::row_delta(x, y, row / of_sequence * of_sequence + row % x.length_q));
  }
  return {{"delta is zero: nothing was written", std::vector<double>(d_o_only.size())},
          {"this is the sum of dO; each element belongs to one of O, and they are multiplied",
           d_o_only},
          {"only the last column counts: the products must be added up", last_column},
          {"the last column is left out", but_last},
          {"all heads have the first one's delta", first_head}};
}

void grade(int batch, const plain::Problem& x) {
  const plain::Forward y = plain::forward(x);
  const int heads = x.heads / batch;
  // The same in a second layout, whose rows do not follow one another.
  Tensor4 o({batch, heads, x.length_q, x.head_dim}), d_o(o.shape());
  Tensor4 o_strided({batch, x.length_q, heads, x.head_dim}), d_o_strided(o_strided.shape());
  std::copy(y.o.begin(), y.o.end(), o.data());
  std::copy(x.d_o.begin(), x.d_o.end(), d_o.data());
  fa::for_each_index(o.shape(), [&](const fa::Shape<4>& i) {
    o_strided(i[0], i[2], i[1], i[3]) = o(i[0], i[1], i[2], i[3]);
    d_o_strided(i[0], i[2], i[1], i[3]) = d_o(i[0], i[1], i[2], i[3]);
  });
  const std::vector<double> right = sums_over_keys(x, y);
  const auto delta = call<fa::Tensor<double, 3>>("row_dots", o, d_o);
  check(
      {"delta", {delta.data(), delta.data() + delta.count()}, x.length_q}, right, 1e-12,
      mistakes(batch, x, y),
      fmt::format("batch {}, heads {}, {} queries, {} keys", batch, heads, x.length_q, x.length_k));
  const auto strided = call<fa::Tensor<double, 3>>("row_dots_strided", o_strided, d_o_strided);
  require(agree({strided.data(), strided.data() + strided.count()}, right, 1e-12),
          "wrong where the rows of a view do not follow one another: o(b, h, i, c) uses the "
          "strides, and an index into o.data() does not");
}

}  // namespace

FA_STAGE(easy) {
  grade(1, plain::random_problem(1, 3, 5, 7));
  grade(1, plain::random_problem(1, 5, 5, 4));
}

FA_STAGE(odd) {
  grade(1, plain::random_problem(2, 7, 3, 5));
  grade(2, plain::random_problem(6, 3, 8, 1));
  grade(2, plain::random_problem(4, 6, 4, 3, true, 0.25));
}
#endif
/* Other answers, as changes of the solution
# of_d_o_only: the sum of dO
@ easy: this is the sum of dO
- sum += o(i[0], i[1], i[2], c) * d_o(i[0], i[1], i[2], c);
+       sum += d_o(i[0], i[1], i[2], c);

# first_head: the head's index is forgotten
@ odd: all heads have the first one's delta
- sum += o(i[0], i[1], i[2], c) * d_o(i[0], i[1], i[2], c);
+       sum += o(i[0], 0, i[2], c) * d_o(i[0], 0, i[2], c);

# contiguous: the view is taken for a row-major tensor
@ odd: uses the strides
- sum += o(i[0], i[1], i[2], c) * d_o(i[0], i[1], i[2], c);
+       const auto row = (i[0] * o.size(1) + i[1]) * o.size(2) + i[2];
+       sum += o.data()[row * o.size(3) + c] * d_o.data()[row * o.size(3) + c];

# pairs: two sums, from both ends
@ right
- T sum = 0;
- ...
- delta.view()[i] = sum;
+    const auto term = [&, i](std::int64_t c) { return o(i[0], i[1], i[2], c) * d_o(i[0], i[1], i[2], c); };
+    T low = 0, high = 0;
+    std::int64_t a = 0, b = o.size(3);
+    while (a + 1 < b) { low += term(a++); high += term(--b); }
+    delta.view()[i] = a < b ? low + term(a) + high : low + high;
*/
