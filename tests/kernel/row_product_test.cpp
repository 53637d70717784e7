// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Products whose numbers do not see each other, and products of few rows by `gemm`.

#include <doctest/doctest.h>
#include <shardwise/kernel/gemm.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace shardwise {
namespace {

using kernel::Transpose;

template <class T>
std::vector<T> waves(Index count, double step) {
  std::vector<T> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(std::sin(step * static_cast<double>(i)));
  return x;
}

/// x · wᵀ for rows of x and of w; `ld` is the distance of both from row to row.
template <class T>
struct Case {
  Index m, n, k, ld;
  std::vector<T> x = waves<T>(m * ld, 1), w = waves<T>(n * ld, 0.7);

  std::vector<T> product(Index row, Index rows, Index column, Index columns) const {
    const Index ldy = columns + 3;
    std::vector<T> wide(static_cast<std::size_t>(rows * ldy), T(7)), y;
    kernel::row_product(rows, columns, k, x.data() + row * ld, ld, w.data() + column * ld, ld, wide.data(),
                        ldy);
    for (Index i = 0; i < rows; ++i) {
      const auto begin = wide.begin() + i * ldy;
      y.insert(y.end(), begin, begin + columns);
      CHECK(std::count(begin + columns, begin + ldy, T(7)) == 3);  // nothing is written between rows
    }
    return y;
  }
  double exact(Index row, Index column) const {
    double sum = 0;
    for (Index i = 0; i < k; ++i) {
      sum += static_cast<double>(x[static_cast<std::size_t>(row * ld + i)]) *
             static_cast<double>(w[static_cast<std::size_t>(column * ld + i)]);
    }
    return sum;
  }
};

template <class T>
bool same(const std::vector<T>& all, Index ld, Index row, Index column, const std::vector<T>& part,
          Index columns) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    const Index at = static_cast<Index>(i);
    const T& whole = all[static_cast<std::size_t>((row + at / columns) * ld + column + at % columns)];
    if (std::memcmp(&whole, &part[i], sizeof(T)) != 0) return false;
  }
  return true;
}

template <class T>
void check(const Case<T>& of) {
  CAPTURE(of.m);
  CAPTURE(of.n);
  CAPTURE(of.k);
  const std::vector<T> all = of.product(0, of.m, 0, of.n);
  const double unit = std::is_same_v<T, double> ? 1e-14 : std::is_same_v<T, float> ? 1e-5 : 0.02;
  double worst = 0;
  for (Index i = 0; i < of.m; ++i) {
    for (Index j = 0; j < of.n; ++j) {
      const double number = static_cast<double>(all[static_cast<std::size_t>(i * of.n + j)]);
      worst = std::max(worst, std::abs(number - of.exact(i, j)) / std::sqrt(static_cast<double>(of.k + 1)));
    }
  }
  CHECK(worst < unit);
  for (const Index rows : {1, 2, 5, 8, 9, 20}) {  // some last rows, beside some last columns
    if (rows > of.m) continue;
    for (const Index columns : {Index{1}, Index{3}, Index{8}, Index{50}, of.n}) {
      if (columns > of.n) continue;
      const Index row = of.m - rows, column = of.n - columns;
      CHECK(same(all, of.n, row, column, of.product(row, rows, column, columns), columns));
    }
  }
  std::vector<T> few(static_cast<std::size_t>(std::min(of.m, kernel::few_rows) * of.n));
  kernel::gemm(Transpose::no, Transpose::yes, std::min(of.m, kernel::few_rows), of.n, of.k, of.x.data(),
               of.ld, of.w.data(), of.ld, few.data(), of.n, false);
  const bool by_row_product = std::is_same_v<T, typename kernel::detail::RowLanes<T>::Stored>;
  if (by_row_product) CHECK(same(all, of.n, 0, 0, few, of.n));
}

TEST_CASE_TEMPLATE("a number has the same bits alone and among others", T, float, double, Eigen::bfloat16) {
  check<T>({1, 1, 1, 1});
  check<T>({7, 61, 3, 4});
  check<T>({9, 75, 333, 340});
  check<T>({600, 21, 64, 64});      // more rows than are taken at a time
  check<T>({14, 230, 2200, 2201});  // several blocks of columns, and of numbers in a row
  check<T>({3, 10, 9001, 9001});
}
TEST_CASE("without numbers, a product is 0, and without rows, nothing") {
  CHECK(Case<float>{2, 3, 0, 4}.product(0, 2, 0, 3) == std::vector<float>(6));
  CHECK(Case<float>{2, 3, 5, 5}.product(0, 0, 0, 3).empty());
}

}  // namespace
}  // namespace shardwise
