// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "reference.hpp"
#include "shardwise/kernel/gemm.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

using kernel::Transpose;

template <class T>
void check_product(Transpose ta, Transpose tb, Index m, Index n, Index k, bool accumulate, double alpha,
                   double tolerance) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  const bool turn_a = ta == Transpose::yes, turn_b = tb == Transpose::yes;
  const Index lda = (turn_a ? m : k) + 3, ldb = (turn_b ? k : n) + 5, ldc = n + 2;
  const auto a = numbers<T>((turn_a ? k : m) * lda, 1), b = numbers<T>((turn_b ? n : k) * ldb, 2);
  auto c = numbers<T>(m * ldc, 3);
  if (!accumulate && m * n > 0) c[0] = std::numeric_limits<T>::quiet_NaN();  // must not be read
  Vector expected(c.begin(), c.end());
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index l = 0; l < k; ++l) {
        sum += static_cast<double>(a[at(turn_a ? l * lda + i : i * lda + l)]) *
               static_cast<double>(b[at(turn_b ? j * ldb + l : l * ldb + j)]);
      }
      double& out = expected[at(i * ldc + j)];
      out = alpha * sum + (accumulate ? out : 0);
    }
  }
  kernel::gemm(ta, tb, m, n, k, a.data(), lda, b.data(), ldb, c.data(), ldc, accumulate,
               static_cast<kernel::compute_t<T>>(alpha));
  CHECK(distance(c, expected) < tolerance);
}

template <class T>
void check_products(double tolerance) {
  const Index sizes[][3] = {{1, 1, 1},     {1, 7, 40},     {1, 5000, 6}, {9, 1, 70}, {2, 3, 4}, {33, 17, 65},
                            {64, 128, 16}, {130, 70, 300}, {5, 6, 0},    {0, 6, 5},  {6, 0, 5}, {1, 6, 0}};
  for (auto ta : {Transpose::no, Transpose::yes}) {
    for (auto tb : {Transpose::no, Transpose::yes}) {
      for (const auto& size : sizes) {
        check_product<T>(ta, tb, size[0], size[1], size[2], false, 1, tolerance);
        check_product<T>(ta, tb, size[0], size[1], size[2], true, -0.75, tolerance);
      }
    }
  }
}

TEST_CASE("gemm agrees with three loops in every form") {
  MESSAGE("matrix products by " << std::string(kernel::gemm_name()));
  check_products<double>(1e-14);
  check_products<float>(1e-6);
  check_products<Eigen::bfloat16>(1. / 250);
}

}  // namespace
