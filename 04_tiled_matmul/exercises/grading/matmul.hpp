/// @file
/// For graders of matmuls: the reference, and the comparison. What becomes of the identity tells
/// which element is taken for which.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/classroom/lab.hpp"

namespace fa::classroom {

/// An element of a matrix by its row and column.
using Element = std::function<float(int row, int col)>;
/// Multiplies A and B by the student's kernel. B is [k, n]. @return C, [m, n]
using Multiply =
    std::function<std::vector<double>(const std::vector<float>& a, const std::vector<float>& b)>;
/// How a kernel's A is stored: [m, k] or [k, m].
enum class StoredA { kByRows, kByColumns };

/// The sizes of C = A B, C is [m, n].
struct MatmulSizes {
  int m, n, k;
  StoredA stored = StoredA::kByRows;
};

/// Small whole numbers, whose sums are exact.
inline std::vector<float> whole_numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = fa::random_bits(seed, static_cast<std::uint64_t>(i));
    result.push_back(static_cast<float>(bits % 9) - 4);
  }
  return result;
}

/// The reference for C.
inline std::vector<double> matmul(const std::vector<float>& a, const std::vector<float>& b,
                                  const MatmulSizes& s) {
  std::vector<double> c;
  for (int i = 0; i < s.m; ++i) {
    for (int j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int l = 0; l < s.k; ++l) {
        const int of_a = s.stored == StoredA::kByRows ? i * s.k + l : l * s.m + i;
        sum += double{a[of_a]} * b[l * s.n + j];
      }
      c.push_back(sum);
    }
  }
  return c;
}

/// Refuses a wrong matmul by an example: with the identity for A, C should be B, and the other way
/// round. Returns where both are right. A sum of numbers up to 128 must be exact.
inline void explain_matmul(const Multiply& multiply, const MatmulSizes& sizes) {
  const auto [m, n, k, stored] = sizes;
  const auto product = [&, m = m, n = n, k = k, by_rows = stored == StoredA::kByRows](
                           const Element& a, const Element& b) {
    std::vector<float> of_a, of_b;
    for (int i = 0; i < m * k; ++i) {
      of_a.push_back(by_rows ? a(i / k, i % k) : a(i % m, i / m));
    }
    for (int i = 0; i < k * n; ++i) of_b.push_back(b(i / n, i % n));
    return multiply(of_a, of_b);
  };
  const Element identity = [](int row, int col) { return row == col ? 1.0f : 0.0f; };
  const Element row_number = [](int row, int) { return static_cast<float>(row + 1); };
  const Element col_number = [](int, int col) { return static_cast<float>(col + 1); };
  for (const bool of_b : {true, false}) {
    // The other matrix holds in each element its row, then its column.
    const auto rows = of_b ? product(identity, row_number) : product(row_number, identity);
    const auto cols = of_b ? product(identity, col_number) : product(col_number, identity);
    const char* const other = of_b ? "B" : "A";
    const int rows_of = of_b ? k : m, cols_of = of_b ? n : k;
    for (int i = 0; i < m * n; ++i) {
      const bool there = i / n < rows_of && i % n < cols_of;
      const double row = rows[i], col = cols[i];
      if (row == (there ? i / n + 1 : 0) && col == (there ? i % n + 1 : 0)) continue;
      const bool whole = row >= 1 && row <= rows_of && col >= 1 && col <= cols_of &&
                         row == std::floor(row) && col == std::floor(col);
      const std::string element =
          whole ? fmt::format("{}[{:g}][{:g}]", other, row - 1, col - 1) : text(row);
      refuse(fmt::format(
          "{}: with the identity for {}, C should be {}, and C[{}][{}] is {} (m {}, n {}, k {})",
          std::isnan(row)        ? "an element is not computed"
          : row == 0 && col == 0 ? "a product is missing"
          : whole                ? "an element is taken for another one"
                                 : "numbers are added that are not products of this element",
          of_b ? "A" : "B", other, i / n, i % n, element, m, n, k));
    }
  }
}

/// Refuses a wrong C: by a mistake, or what the lab found, else by an example.
inline void check_matmul(const Seen& seen, const std::vector<Reason>& reasons,
                         const std::vector<double>& out, const std::vector<double>& right,
                         double tolerance, const MatmulSizes& s, const Multiply& multiply,
                         const std::vector<Mistake>& mistakes = {}) {
  check_result(seen, reasons, {"C", out, s.n}, right, tolerance, mistakes,
               fmt::format("m {}, n {}, k {}", s.m, s.n, s.k),
               [&] { explain_matmul(multiply, s); });
}

}  // namespace fa::classroom
