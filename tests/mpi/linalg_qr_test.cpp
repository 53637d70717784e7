// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// QR of tall matrices on one and on two axes, by each method; and what is built of it.

#include <shardwise/linalg/lstsq.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_qr {
namespace {

template <class T, class... Placements, class MeshType>
auto cut(const MeshType& mesh, const Matrix<T>& whole) {
  return distribute<Placements...>(mesh, Shape<2>{whole.rows(), whole.cols()},
                                   std::span(whole.data(), static_cast<std::size_t>(whole.size())));
}

/// The whole of q · r against `a`; and that r is upper triangular, with a positive diagonal if the columns of a are
/// independent.
template <class T>
void check_factors(const Matrix<T>& a, const auto& f, bool independent) {
  const Matrix<T> q = full_tensor(f.q), r = f.r.local();
  CHECK(qr_excess<T>(a, q, r) <= 1);
  CHECK(norm_1(Matrix<T>(r.template triangularView<Eigen::StrictlyLower>())) == 0);
  for (Index i = 0; i < r.rows(); ++i) CHECK((independent ? r(i, i) > 0 : r(i, i) >= 0));
}

template <class T, class... Placements>
void check_qr(const auto& mesh, const Matrix<T>& a, QrMethod method, bool independent = true) {
  check_factors<T>(a, qr(cut<T, Placements...>(mesh, a), {.method = method}), independent);
}

template <class T>
void check_everywhere(const Matrix<T>& a, QrMethod method, bool independent = true) {
  check_qr<T, Replicate>(line(), a, method, independent);
  check_qr<T, Shard<0>>(line(), a, method, independent);
  check_qr<T, Shard<0>, Shard<0>>(grid(), a, method, independent);
  check_qr<T, Shard<0>, Replicate>(grid(), a, method, independent);
  check_qr<T, Reduced, Shard<0>>(grid(), a, method, independent);
}

constexpr Index extents[]{0, 1, 2, 7, 100, 257};

TEST_CASE_TEMPLATE("tall matrices of all extents", T, float, double) {
  for (const Index m : extents) {
    for (const Index n : extents) {
      if (n > m) continue;
      CAPTURE(m);
      CAPTURE(n);
      const auto a = conditioned<T>(m, n, 10, 1);
      for (const QrMethod method : {QrMethod::automatic, QrMethod::cholesky2, QrMethod::tsqr}) {
        check_qr<T, Shard<0>>(line(), a, method);
        check_qr<T, Shard<0>, Shard<0>>(grid(), a, method);
      }
    }
  }
}

TEST_CASE_TEMPLATE("ill-conditioned matrices", T, float, double) {
  for (const double condition : {1., 1e4, 1e8, 1e12, 1e15}) {
    CAPTURE(condition);
    const auto a = conditioned<T>(100, 7, condition, 1);
    // Beyond 1 / ε the last diagonal elements of r are rounding errors.
    check_everywhere<T>(a, QrMethod::automatic, false);
    check_everywhere<T>(a, QrMethod::tsqr, false);
    if (condition < (std::is_same_v<T, double> ? 1e7 : 1e3)) check_everywhere<T>(a, QrMethod::cholesky2);
  }
}

TEST_CASE_TEMPLATE("dependent columns, zeros, and numbers whose squares overflow or vanish", T, float,
                   double) {
  Matrix<T> a = conditioned<T>(23, 5, 10, 1);
  for (const double factor : {0., 1e-30, 1e30, std::is_same_v<T, double> ? 1e200 : 1e25}) {
    check_everywhere<T>(a * static_cast<T>(factor), QrMethod::automatic, factor != 0);
  }
  a.col(3) = a.col(0) + 2 * a.col(1);
  a.col(4).setZero();
  check_everywhere<T>(a, QrMethod::automatic, false);
  CHECK(message_of<std::runtime_error>([&] {
          qr(cut<T, Shard<0>>(line(), a), {.method = QrMethod::cholesky2});
        }) == "qr: the columns of the matrix are too close to dependent for CholeskyQR2, or not finite");
}

TEST_CASE_TEMPLATE("what is refused", T, float, double) {
  CHECK(message_of<std::invalid_argument>([&] {
          qr(random<T, Shard<0>>(line(), {3, 5}, 1));
        }) == "qr: a matrix of [3 x 5] has more columns than rows");
  for (const double wrong : {HUGE_VAL, std::nan("")}) {
    for (const Index row : {0, 22}) {
      Matrix<T> a = conditioned<T>(23, 5, 10, 1);
      a(row, 2) = static_cast<T>(wrong);
      for (const QrMethod method : {QrMethod::automatic, QrMethod::tsqr}) {
        CHECK(message_of<std::runtime_error>([&] { qr(cut<T, Shard<0>>(line(), a), {.method = method}); }) ==
              "qr: the matrix has NaN or infinity, or its norm overflows");
      }
    }
  }
}

/// Σ of the products of weights with q and r, whose factors of whole matrices a Gram-Schmidt process finds.
double weighted(const Matrix<double>& a, const Matrix<double>& of_q, const Matrix<double>& of_r) {
  Matrix<double> q = a, r = Matrix<double>::Zero(a.cols(), a.cols());
  for (Index j = 0; j < a.cols(); ++j) {
    for (int twice = 0; twice < 2; ++twice) {
      for (Index i = 0; i < j; ++i) {
        const double along = q.col(i).dot(q.col(j));
        r(i, j) += along;
        q.col(j) -= along * q.col(i);
      }
    }
    r(j, j) = q.col(j).norm();
    q.col(j) /= r(j, j);
  }
  return q.cwiseProduct(of_q).sum() + r.cwiseProduct(of_r).sum();
}

template <class Placement>
void check_gradient(Index m, Index n) {
  const auto mesh = line();
  const auto a = random_matrix<double>(m, n, 1), of_q = random_matrix<double>(m, n, 2),
             of_r = random_matrix<double>(n, n, 3);
  Tape tape;
  const auto x = tape.input(cut<double, Placement>(mesh, a));
  const auto [q, r] = qr(x);
  using Q = tensor_of<decltype(q)>;
  using R = tensor_of<decltype(r)>;
  arrive(tape, q, detail::AnyTensor(redistribute_to<cotangent_of<Q>>(cut<double, Replicate>(mesh, of_q))));
  arrive(tape, r, detail::AnyTensor(redistribute_to<cotangent_of<R>>(cut<double, Replicate>(mesh, of_r))));
  go_back(tape, mesh);
  const Matrix<double> found = full_tensor(x.gradient());
  Matrix<double> expected(m, n);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      Matrix<double> above = a, below = a;
      above(i, j) += 1e-5, below(i, j) -= 1e-5;
      expected(i, j) = (weighted(above, of_q, of_r) - weighted(below, of_q, of_r)) / 2e-5;
    }
  }
  CHECK((found - expected).cwiseAbs().maxCoeff() <= 1e-6 * std::max(1., expected.cwiseAbs().maxCoeff()));
}

TEST_CASE("the gradient") {
  check_gradient<Shard<0>>(9, 3);
  check_gradient<Shard<0>>(3, 3);
  check_gradient<Replicate>(9, 3);
  check_gradient<Reduced>(9, 3);
  Tape tape;
  Matrix<double> a = conditioned<double>(9, 3, 1e14, 1);
  CHECK_THROWS_AS(qr(tape.input(cut<double, Shard<0>>(line(), a))), std::runtime_error);
}

template <QrMethod method>
constexpr auto plan = trace<Mesh<dp, tp>>({2, 2}, [](const auto& mesh) {
  qr(empty<double, Shard<0>, Shard<0>>(mesh, {100, 8}), {.method = method});
});
static_assert(plan<QrMethod::automatic>.collectives() == 2 &&
              plan<QrMethod::automatic>.bytes() == 2 * 64 * 8);
static_assert(plan<QrMethod::tsqr>.collectives() == 2);

TEST_CASE("what is communicated is what is planned") {
  const auto mesh = grid();
  for (const QrMethod method : {QrMethod::automatic, QrMethod::tsqr}) {
    const auto x = random<double, Shard<0>, Shard<0>>(mesh, {100, 8}, 1);
    Recording recording(mesh);
    qr(x, {.method = method});
    const auto planned = trace<Mesh<dp, tp>>({mesh.size<dp>(), mesh.size<tp>()}, [&](const auto& dry) {
      qr(empty<double, Shard<0>, Shard<0>>(dry, {100, 8}), {.method = method});
    });
    CHECK(recording.plan().collectives() == planned.collectives());
    CHECK(recording.plan().bytes() == planned.bytes());
  }
}

template <class T, class P>
void check_least_squares(Index m, Index n, Index r, double condition) {
  CAPTURE(m);
  CAPTURE(n);
  const auto mesh = line();
  const auto a = conditioned<T>(m, n, condition, 1), b = random_matrix<T>(m, r, 2);
  const Matrix<double> x = wide<T>(full_tensor(lstsq(cut<T, P>(mesh, a), cut<T, P>(mesh, b))));
  const Matrix<double> off = product((product(wide(a), x) - wide(b)).transpose(), wide(a));
  // A solution that is larger than b by the condition number has larger rounding errors.
  const double size = condition > 100 ? std::max(norm_1(b), norm_1(a) * norm_1(x)) : norm_1(b);
  CHECK(excess<T>(off, static_cast<double>(std::max<Index>(m, 1)) * norm_1(a) * size) <= 1);
}

TEST_CASE_TEMPLATE("lstsq", T, float, double) {
  for (const Index m : extents) {
    for (const Index n : {0, 1, 2, 7}) {
      if (n > m) continue;
      check_least_squares<T, Shard<0>>(m, n, 3, 100);
      check_least_squares<T, Replicate>(m, n, 1, 100);
      check_least_squares<T, Shard<0>>(m, n, 2, 1e4);
    }
  }
  const auto mesh = line();
  Matrix<T> a = conditioned<T>(23, 4, 10, 1);
  a.col(2) = a.col(1);
  const auto x = cut<T, Shard<0>>(mesh, a);
  CHECK(message_of<std::runtime_error>([&] { lstsq(x, x); }) ==
        "lstsq: column 2 of the matrix is zero, or depends on the columns before it: "
        "{.minimum_norm = true} finds the solution of least norm");
  for (const Index m : {3, 10, 1000, 100000}) {
    Matrix<T> tall = random_matrix<T>(m, 3, 1);
    tall.col(2) = tall.col(0) + 3 * tall.col(1);
    const auto dependent = cut<T, Shard<0>>(mesh, tall);
    CHECK(message_of<std::runtime_error>([&] { lstsq(dependent, dependent); }) ==
          "lstsq: column 2 of the matrix is zero, or depends on the columns before it: "
          "{.minimum_norm = true} finds the solution of least norm");
  }
  Matrix<T> scaled = conditioned<T>(23, 4, 10, 1);
  scaled.col(1) *= T(1e-20);
  const Matrix<T> sizes = full_tensor(lstsq(cut<T, Shard<0>>(mesh, scaled), cut<T, Shard<0>>(mesh, a)));
  CHECK(static_cast<double>(sizes(1, 1)) == doctest::Approx(1e20).epsilon(1e-4));
  CHECK(message_of<std::invalid_argument>([&] {
          lstsq(x, random<T, Shard<0>>(mesh, {22, 1}, 1));
        }) == "lstsq: [23 x 4] and [22 x 1] have different numbers of rows");
  CHECK(message_of<std::invalid_argument>([&] {
          const auto flat = random<T, Shard<0>>(mesh, {4, 23}, 1);
          lstsq(flat, flat);
        }) == "lstsq: a matrix of [4 x 23] has more columns than rows");
  CHECK(full_tensor(lstsq(random<T, Reduced>(mesh, {9, 2}, 1), random<T, Shard<1>>(mesh, {9, 5}, 2)))
            .allFinite());
}

TEST_CASE_TEMPLATE("svd of tall matrices whose rows are cut", T, float, double) {
  const auto check_svd = [](const auto& f, const Matrix<T>& a) {
    const Matrix<T> u = full_tensor(f.u), v = f.v.local();
    const Matrix<double> back = wide(u) * wide(Matrix<T>(f.s.local())).asDiagonal() * wide(v).transpose();
    CHECK(excess<T>(back - wide(a), static_cast<double>(a.rows()) * norm_1(a)) <= 1);
    CHECK(qr_excess<T>(u, u, Matrix<T>::Identity(a.cols(), a.cols())) <= 1);
    CHECK(qr_excess<T>(v, v, Matrix<T>::Identity(a.cols(), a.cols())) <= 1);
    CHECK(std::is_sorted(f.s.data(), f.s.data() + a.cols(), std::greater<>()));
  };
  for (const auto& shape : {std::pair<Index, Index>{0, 0}, {1, 1}, {7, 7}, {100, 3}, {257, 40}}) {
    for (const double condition : {10., 1e12}) {
      const Matrix<T> a = conditioned<T>(shape.first, shape.second, condition, 1);
      check_svd(svd(cut<T, Shard<0>>(line(), a)), a);
      check_svd(svd(cut<T, Shard<0>, Shard<0>>(grid(), a)), a);
    }
  }
  CHECK(message_of<std::invalid_argument>([] {
          svd(random<T, Shard<0>>(line(), {3, 5}, 1));
        }) ==
        "svd: a matrix [3 x 5] whose rows are cut has more columns than rows: pass its transpose, and swap u "
        "and v");
}

TEST_CASE_TEMPLATE("svd_lowrank", T, float, double) {
  const auto mesh = line();
  for (const Index m : {7, 100, 257}) {
    for (const Index n : {7, 30}) {
      CAPTURE(m);
      CAPTURE(n);
      const Index rank = 5;  // of a matrix that has no more
      const Matrix<T> a = random_matrix<T>(m, rank, 1) * random_matrix<T>(rank, n, 2);
      const auto [u, s, v] = svd_lowrank(cut<T, Shard<0>>(mesh, a), rank, 7);
      const Matrix<double> left = wide<T>(full_tensor(u)), right = wide<T>(v.local());
      const Matrix<double> found =
          product(left * s.local().template cast<double>().asDiagonal(), right.transpose());
      CHECK(excess<T>(found - wide(a), static_cast<double>(std::max(m, n)) * norm_1(a)) <= 1);
      CHECK(norm_1(product(left.transpose(), left) - Matrix<double>::Identity(rank, rank)) <= 1e-4);
      CHECK(std::is_sorted(s.data(), s.data() + rank, std::greater<>()));
      CHECK(svd_lowrank(cut<T, Shard<0>>(mesh, a), 2, 7).s.local()[1] ==
            doctest::Approx(static_cast<double>(s.local()[1])));
    }
  }
  CHECK(message_of<std::invalid_argument>([&] {
          svd_lowrank(random<T, Shard<0>>(mesh, {9, 4}, 1), 5, 1);
        }) == "svd_lowrank: rank 5 of a matrix [9 x 4]; expected 0 to 4");
  CHECK(svd_lowrank(random<T, Shard<0>>(mesh, {9, 4}, 1), 0, 1).v.shape() == Shape<2>{4, 0});
}

TEST_CASE("the 2-norm: by aᵀ · a up to rounding errors, by svd_lowrank up to 10 % too small") {
  const auto mesh = line();
  const auto norm_2 = [](const auto& a) {
    const auto squares = eigh(redistribute<Replicate>(gram(a))).values;
    return std::sqrt(squares.data()[a.shape()[1] - 1]);
  };
  const auto exact = [](const auto& a) { return svd(redistribute<Replicate>(a)).s.data()[0]; };
  for (const auto& a :
       {randn<double, Shard<0>>(mesh, {200, 200}, 1), randn<double, Shard<0>>(mesh, {50, 50}, 2),
        randn<double, Shard<0>>(mesh, {7, 30}, 3)}) {
    const double largest = exact(a), found = svd_lowrank(a, 1, 5).s.data()[0];
    CHECK(norm_2(a) == doctest::Approx(largest).epsilon(1e-13));
    CHECK(found >= 0.9 * largest);
    CHECK(found <= (1 + 1e-13) * largest);
  }
  const auto smooth = cut<double, Shard<0>>(mesh, conditioned<double>(40, 40, 1e12, 1));  // falls off fast
  CHECK(svd_lowrank(smooth, 1, 5).s.data()[0] == doctest::Approx(exact(smooth)).epsilon(1e-6));
  CHECK(norm_2(smooth) == doctest::Approx(exact(smooth)).epsilon(1e-13));
}

constexpr auto solved = trace<Mesh<tp>>({4}, [](const auto& mesh) {
  const auto a = empty<double, Shard<0>>(mesh, {100, 8});
  lstsq(a, a);
  svd_lowrank(a, 2, 1);
});
static_assert(solved.collectives() == 12);

/// What a module is asked first, on types.
template <class P>
using Asked = Abstract<On1<2, P>, false, false>;
static_assert(std::is_same_v<decltype(qr(Asked<Shard<0>>{})), Qr<Asked<Shard<0>>, Asked<Replicate>>>);
static_assert(std::is_same_v<decltype(qr(Abstract<On1<2, Reduced>, true, true>{}).r),
                             Abstract<On1<2, Replicate>, true, true>>);
static_assert(reason_of<tensor_of<decltype(qr(Asked<Shard<1>>{}).r)>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(std::is_same_v<decltype(lstsq(Asked<Shard<0>>{}, Asked<Shard<0>>{})), Asked<Reduced>>);
static_assert(std::is_same_v<decltype(svd_lowrank(Asked<Shard<0>>{}, 1, 1).v), Asked<Replicate>>);
static_assert(reason_of<tensor_of<decltype(svd_lowrank(Asked<Shard<1>>{}, 1, 1).s)>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);

}  // namespace
}  // namespace shardwise::testing::linalg_qr
