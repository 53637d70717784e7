// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <shardwise/kernel/householder_qr.hpp>
#include <shardwise/kernel/spectral.hpp>
#include <support/matrices.hpp>

namespace {

using namespace shardwise;
using namespace shardwise::testing;
using kernel::Side;

constexpr Index extents[]{0, 1, 2, 7, 100, 257};
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
Matrix<T> positive_definite(Index n) {
  const auto x = random_matrix<T>(n + 3, n, 1);
  const Matrix<T> a = x.transpose() * x + Matrix<T>::Identity(n, n);
  return (a + a.transpose()) / 2;
}

TEST_CASE_TEMPLATE("cholesky", T, float, double) {
  for (const Index n : extents) {
    CAPTURE(n);
    Matrix<T> a = positive_definite<T>(n), l(n, n);
    CHECK(kernel::cholesky(n, a.data(), l.data()) == -1);
    CHECK(excess<T>(wide(l) * wide(l).transpose() - wide(a), static_cast<double>(n) * norm_1(a)) <= 1);
    CHECK(norm_1(Matrix<T>(l.template triangularView<Eigen::StrictlyUpper>())) == 0);
    Matrix<T> lower = a, from_lower(n, n);  // the same symmetric part
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < i; ++j) lower(i, j) = 2 * a(i, j), lower(j, i) = 0;
    }
    kernel::cholesky(n, lower.data(), from_lower.data());
    CHECK(norm_1(from_lower - l) == 0);
    for (const double wrong : {0., -1., infinity, -infinity, std::nan("")}) {
      for (const Index pivot : {Index{0}, n / 2, n - 1}) {
        if (pivot < 0 || pivot >= n) continue;
        CAPTURE(wrong);
        CAPTURE(pivot);
        Matrix<T> bad = a;
        bad.row(pivot).setZero();
        bad.col(pivot).setZero();
        bad(pivot, pivot) = static_cast<T>(wrong);
        CHECK(kernel::cholesky(n, bad.data(), l.data()) == pivot);
        for (Index i = 0; i < n; ++i) CHECK(std::isnan(l(i, i)) == (i >= pivot));
        if (wrong == 0 || pivot == 0) continue;
        bad = a;  // beside the diagonal: the later row fails
        bad(pivot, 0) = static_cast<T>(std::isfinite(wrong) ? 1e18 : wrong);
        CHECK(kernel::cholesky(n, bad.data(), l.data()) == pivot);
      }
    }
  }
}

template <Side side, class T>
void check_solve(Index n, Index other, kernel::Triangular how) {
  CAPTURE(n);
  CAPTURE(other);
  CAPTURE(how.upper);
  CAPTURE(how.transposed);
  Matrix<T> l = random_matrix<T>(n, n, 1);
  l.diagonal().array() += static_cast<T>(n + 2);  // the other triangle must not matter
  const bool left = side == Side::left;
  const Matrix<T> b = random_matrix<T>(left ? n : other, left ? other : n, 2);
  const Index gap = 3;
  Matrix<T> wider = Matrix<T>::Constant(b.rows(), b.cols() + gap, std::numeric_limits<T>::quiet_NaN());
  wider.leftCols(b.cols()) = b;
  kernel::solve_triangular<side>(n, other, how, l.data(), n, wider.data(), wider.cols());
  const Matrix<T> x = wider.leftCols(b.cols());
  CHECK(wider.rightCols(gap).array().isNaN().all());
  Matrix<double> op = how.upper ? wide(Matrix<T>(l.template triangularView<Eigen::Upper>()))
                                : wide(Matrix<T>(l.template triangularView<Eigen::Lower>()));
  if (how.transposed) op.transposeInPlace();
  const Matrix<double> off = (left ? Matrix<double>(op * wide(x)) : Matrix<double>(wide(x) * op)) - wide(b);
  CHECK(excess<T>(off, static_cast<double>(n) * norm_1(op) * norm_1(x)) <= 1);
}

TEST_CASE_TEMPLATE("solve_triangular", T, float, double) {
  for (const Index n : extents) {
    for (const Index other : {0, 1, 7, 100, 1500}) {
      for (const kernel::Triangular how :
           {kernel::Triangular{false, false}, {false, true}, {true, false}, {true, true}}) {
        check_solve<Side::left, T>(n, other, how);
        check_solve<Side::right, T>(n, other, how);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gram", T, float, double) {
  for (const Index m : extents) {
    for (const Index n : extents) {
      const auto x = random_matrix<T>(m, n, 1);
      Matrix<T> c(n, n);
      c.setConstant(std::numeric_limits<T>::quiet_NaN());
      kernel::gram(m, n, x.data(), c.data());
      CHECK(norm_1(c - c.transpose()) == 0);
      CHECK(excess<T>(wide(x).transpose() * wide(x) - wide(c), static_cast<double>(m) * norm_1(c)) <= 1);
    }
  }
}

TEST_CASE_TEMPLATE("qr", T, float, double) {
  for (const Index m : extents) {
    for (const Index n : extents) {
      CAPTURE(m);
      CAPTURE(n);
      const Index k = std::min(m, n);
      for (const bool deficient : {false, true}) {
        Matrix<T> a = random_matrix<T>(m, n, 1), q(m, k), r(k, n);
        if (deficient && n > 1) a.col(1) = a.col(0), a.col(0).setZero();
        Matrix<T> overwritten = a;
        kernel::qr(m, n, overwritten.data(), r.data(), q.data());
        CHECK(qr_excess<T>(a, q, r) <= 1);
        CHECK(norm_1(Matrix<T>(r.template triangularView<Eigen::StrictlyLower>())) == 0);
      }
    }
  }
}

TEST_CASE_TEMPLATE("qr of tall matrices, in blocks, also of dependent columns", T, float, double) {
  for (const auto& shape :
       {std::pair<Index, Index>{1100, 128}, {3001, 64}, {20000, 8}, {140000, 1}, {33000, 64}, {1023, 5}}) {
    for (const bool dependent : {false, true}) {
      const Index m = shape.first, n = shape.second;
      CAPTURE(m);
      CAPTURE(n);
      Matrix<T> a = random_matrix<T>(m, n, 1);
      if (dependent) a.col(n - 1).setZero(), a.col(n / 2) = a.col(0) * 2;
      if (dependent) a.topRows(m / 3).setZero();
      Matrix<T> overwritten = a, q(m, n), r(n, n);
      kernel::qr(m, n, overwritten.data(), r.data(), q.data());
      CHECK(qr_excess<T>(a, q, r) <= 1);
      CHECK(norm_1(Matrix<T>(r.template triangularView<Eigen::StrictlyLower>())) == 0);
    }
  }
}

TEST_CASE_TEMPLATE("qr of numbers whose squares overflow or vanish", T, float, double) {
  for (const double factor : {1e-30, 1e30}) {
    const double power = std::is_same_v<T, double> ? 8 : 1;
    const Matrix<T> a = random_matrix<T>(23, 5, 1) * static_cast<T>(std::pow(factor, power));
    Matrix<T> overwritten = a, q(23, 5), r(5, 5);
    kernel::qr(23, 5, overwritten.data(), r.data(), q.data());
    CHECK(qr_excess<T>(a, q, r) <= 1);
  }
}

TEST_CASE_TEMPLATE("eigh", T, float, double) {
  for (const Index n : extents) {
    CAPTURE(n);
    const auto half = random_matrix<T>(n, n, 1);
    const Matrix<double> a = (wide(half) + wide(half).transpose()) / 2;
    Matrix<T> v(n, n), w(n, 1);
    REQUIRE(kernel::eigh(n, half.data(), w.data(), v.data()));
    CHECK(excess<T>(wide(v) * wide(w).asDiagonal() * wide(v).transpose() - a,
                    static_cast<double>(n) * norm_1(a)) <= 1);
    CHECK(qr_excess<T>(v, v, Matrix<T>::Identity(n, n)) <= 1);
    CHECK(std::is_sorted(w.data(), w.data() + n));
  }
}

TEST_CASE_TEMPLATE("svd", T, float, double) {
  for (const Index m : extents) {
    for (const Index n : extents) {
      CAPTURE(m);
      CAPTURE(n);
      const Index k = std::min(m, n);
      const auto a = random_matrix<T>(m, n, 1);
      Matrix<T> u(m, k), s(k, 1), v(n, k);
      REQUIRE(kernel::svd(m, n, a.data(), u.data(), s.data(), v.data()));
      CHECK(excess<T>(wide(u) * wide(s).asDiagonal() * wide(v).transpose() - wide(a),
                      static_cast<double>(std::max(m, n)) * norm_1(a)) <= 1);
      CHECK(qr_excess<T>(u, u, Matrix<T>::Identity(k, k)) <= 1);
      CHECK(qr_excess<T>(v, v, Matrix<T>::Identity(k, k)) <= 1);
      CHECK(std::is_sorted(s.data(), s.data() + k, std::greater<>()));
    }
  }
}

TEST_CASE_TEMPLATE("what is not finite is refused, or gives what is not finite", T, float, double) {
  for (const double wrong : {infinity, std::nan("")}) {
    Matrix<T> a = random_matrix<T>(9, 9, 1), u(9, 9), v(9, 9), s(9, 1);
    a(4, 2) = static_cast<T>(wrong);
    CHECK_FALSE(kernel::eigh(9, a.data(), s.data(), v.data()));
    CHECK_FALSE(kernel::svd(9, 9, a.data(), u.data(), s.data(), v.data()));
    kernel::qr(9, 9, a.data(), u.data(), v.data());
    CHECK_FALSE(u.allFinite());
  }
}

}  // namespace
