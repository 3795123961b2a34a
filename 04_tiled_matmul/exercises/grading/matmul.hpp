/// @file
/// For graders of matmuls: what becomes of the identity tells which element is taken for which.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/classroom/grader.hpp"

namespace fa::classroom {

/// An element of a matrix by its row and column.
using Element = std::function<float(int row, int col)>;
/// Multiplies A and B by the student's kernel. B is [k, n]. @return C, [m, n]
using Multiply =
    std::function<std::vector<double>(const std::vector<float>& a, const std::vector<float>& b)>;
/// How a kernel's A is stored: [m, k] or [k, m].
enum class StoredA { kByRows, kByColumns };

/// Refuses a wrong matmul by an example: with the identity for A, C should be
/// B, and the other way round. Returns where both are right.
/// @param m, n, k of C = A B; a sum of numbers up to 128 must be exact
inline void explain_matmul(const Multiply& multiply, int m, int n, int k,
                           StoredA stored = StoredA::kByRows) {
  const auto matmul = [&](const Element& a, const Element& b) {
    std::vector<float> of_a, of_b;
    const bool by_rows = stored == StoredA::kByRows;
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
    const auto rows = of_b ? matmul(identity, row_number) : matmul(row_number, identity);
    const auto cols = of_b ? matmul(identity, col_number) : matmul(col_number, identity);
    const char* const other = of_b ? "B" : "A";
    const int rows_of = of_b ? k : m, cols_of = of_b ? n : k;
    int wrong = 0;
    std::string what, example;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        const bool there = i < rows_of && j < cols_of;
        const double row = rows[i * n + j], col = cols[i * n + j];
        if (row == (there ? i + 1 : 0) && col == (there ? j + 1 : 0)) continue;
        if (wrong++ > 0) continue;
        const bool whole = row >= 1 && row <= rows_of && col >= 1 && col <= cols_of &&
                           row == std::floor(row) && col == std::floor(col);
        example = fmt::format("C[{}][{}] is ", i, j);
        if (std::isnan(row)) {
          what = "an element is not computed";
          example += "NaN";
        } else if (row == 0 && col == 0) {
          what = "a product is missing";
          example += "0";
        } else if (whole) {
          what = "an element is taken for another one";
          example += fmt::format("{}[{:g}][{:g}]", other, row - 1, col - 1);
        } else {
          what = "numbers are added that are not products of this element";
          example += fmt::format("no element of {}", other);
        }
      }
    }
    if (wrong == 0) continue;
    refuse(
        fmt::format("{}: with the identity for {}, C should be {}, and {} of {} elements are not. "
                    "{} (m {}, n {}, k {})",
                    what, of_b ? "A" : "B", other, wrong, m * n, example, m, n, k));
  }
}

}  // namespace fa::classroom
