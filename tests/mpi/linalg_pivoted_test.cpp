// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// QR with pivots, which finds the rank; the solution of least norm; and QR and SVD of matrices that need a sketch.

#include <Eigen/QR>
#include <shardwise/linalg/lstsq.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_pivoted {
namespace {

template <class T>
constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
/// The default tolerance.
template <class T>
double rounding(Index n) {
  return 2 * epsilon<T> * static_cast<double>(n + 32);
}

template <class T>
Matrix<T> dependent(Index m, Index n, Index rank, std::uint64_t seed) {
  return (product(random_matrix<double>(m, rank, seed), random_matrix<double>(rank, n, seed + 1))).cast<T>();
}

/// Returns the rank. `a` is compared without the factor `unit`, with which its squares may overflow.
template <class T, class... Placements>
Index check_pivoted(const auto& mesh, const Matrix<T>& a, double tolerance = 0, T unit = 1) {
  const Index n = a.cols();
  const auto f = pivoted_qr(distribute<Placements...>(mesh, Matrix<T>(a * unit)), {.tolerance = tolerance});
  const Matrix<T> q = full_tensor(f.q), r = f.r.local() / unit;
  Matrix<T> chosen(a.rows(), n);
  std::vector<Index> sorted = f.permutation;
  for (Index j = 0; j < n; ++j) chosen.col(j) = a.col(sorted[static_cast<std::size_t>(j)]);
  std::sort(sorted.begin(), sorted.end());
  for (Index j = 0; j < n; ++j) CHECK(sorted[static_cast<std::size_t>(j)] == j);
  const Matrix<T> leading = q.leftCols(f.rank);
  CHECK(qr_excess<T>(leading, leading, Matrix<T>::Identity(f.rank, f.rank)) <= 1);
  CHECK(norm_1(q.rightCols(n - f.rank)) == 0);
  CHECK(norm_1(r.bottomRows(n - f.rank)) == 0);
  CHECK(norm_1(Matrix<T>(r.template triangularView<Eigen::StrictlyLower>())) == 0);
  for (Index i = 0; i < f.rank; ++i) CHECK(r(i, i) > 0);
  for (Index i = 1; i < f.rank; ++i) CHECK(r(i, i) <= 10 * r(i - 1, i - 1));
  if (n == 0) return 0;
  const Matrix<double> off = product(wide(q), wide(r)) - wide(chosen);
  const double lost = f.rank < n ? 30 * std::max(tolerance, rounding<T>(n)) : 0;
  CHECK(off.colwise().norm().maxCoeff() <=
        (lost + 25 * epsilon<T> * std::sqrt(static_cast<double>(n))) * wide(a).colwise().norm().maxCoeff());
  return f.rank;
}

/// The same rank on all meshes, which it returns.
template <class T>
Index check_everywhere(const Matrix<T>& a, double tolerance = 0, T unit = 1) {
  const Index rank = check_pivoted<T, Replicate>(line(), a, tolerance, unit);
  CHECK(check_pivoted<T, Shard<0>>(line(), a, tolerance, unit) == rank);
  CHECK(check_pivoted<T, Shard<0>, Shard<0>>(grid(), a, tolerance, unit) == rank);
  CHECK(check_pivoted<T, Shard<0>, Replicate>(grid(), a, tolerance, unit) == rank);
  CHECK(check_pivoted<T, Reduced, Shard<0>>(grid(), a, tolerance, unit) == rank);
  return rank;
}

TEST_CASE_TEMPLATE("pivoted_qr of all extents, from few rows to many", T, float, double) {
  for (const Index m : {0, 1, 2, 3, 7, 103}) {
    for (const Index n : {0, 1, 2, 7, 100}) {
      if (n > m) continue;
      CAPTURE(m);
      CAPTURE(n);
      const auto a = conditioned<T>(m, n, 10, 1);
      CHECK(check_pivoted<T, Shard<0>>(line(), a) == n);
      CHECK(check_pivoted<T, Shard<0>, Shard<0>>(grid(), a) == n);
    }
  }
}

TEST_CASE_TEMPLATE("pivoted_qr finds the rank of ill-conditioned matrices", T, float, double) {
  for (const Index n : {7, 40}) {
    for (const double condition : {1., 1e4, 1e8, 1e12, 1e15}) {
      for (const double tolerance : {0., 1e-3}) {
        if (tolerance > 0 && condition != 1e8) continue;
        CAPTURE(n);
        CAPTURE(condition);
        CAPTURE(tolerance);
        const Index rank = check_everywhere<T>(conditioned<T>(130, n, condition, 1), tolerance);
        const double limit = std::max(tolerance, rounding<T>(n));
        const auto above = [&](double least) {  // singular values
          const double all = std::log(1 / least) / std::log(condition) * static_cast<double>(n - 1);
          return condition * least < 1 ? n : static_cast<Index>(all) + 1;
        };
        CHECK(rank >= above(30 * limit));
        CHECK(rank <= above(limit / 30));
      }
    }
  }
}

TEST_CASE_TEMPLATE("pivoted_qr of columns that depend on others, exactly or up to rounding", T, float,
                   double) {
  Matrix<T> a = conditioned<T>(57, 6, 10, 1);
  for (const double unit : {1., 1e-30, 1e30, std::is_same_v<T, double> ? 1e150 : 1e-37,
                            std::is_same_v<T, double> ? 1e-150 : 1e37}) {
    CAPTURE(unit);
    CHECK(check_everywhere<T>(a, 0, static_cast<T>(unit)) == 6);
  }
  Matrix<T> changed = a;
  changed.col(4) = changed.col(1);
  CHECK(check_everywhere<T>(changed) == 5);
  changed.col(0).setZero();
  CHECK(check_everywhere<T>(changed) == 4);
  changed.col(2) = changed.col(5) + 3 * changed.col(3);
  CHECK(check_everywhere<T>(changed) == 3);
  CHECK(check_everywhere<T>(dependent<T>(200, 50, 20, 1)) == 20);
  CHECK(check_everywhere<T>(dependent<T>(50, 50, 49, 1)) == 49);
  CHECK(check_everywhere<T>(dependent<T>(50, 7, 1, 1)) == 1);
  CHECK(check_everywhere<T>(Matrix<T>::Ones(50, 7)) == 1);
  CHECK(check_everywhere<T>(Matrix<T>::Zero(50, 7)) == 0);
  CHECK(check_everywhere<T>(Matrix<T>::Zero(1, 1)) == 0);
  CHECK(check_everywhere<T>(Matrix<T>::Identity(120, 100)) == 100);  // the rows of the sketch are those of s
  for (Index j = 0; j < 6; ++j) a.col(j) *= static_cast<T>(std::pow(100., -static_cast<double>(j)));
  CHECK(check_everywhere<T>(a) == (std::is_same_v<T, double> ? 6 : 3));
}

TEST_CASE("pivoted_qr is the same on any mesh, except for rounding") {
  const auto a = conditioned<double>(130, 40, 1e6, 3);
  const auto alone = pivoted_qr(distribute<Replicate>(line(), a));
  const auto cut = pivoted_qr(distribute<Shard<0>>(line(), a));
  CHECK(alone.permutation == cut.permutation);
  CHECK(norm_1(alone.r.local() - cut.r.local()) <= 1e-13 * norm_1(a));
}

TEST_CASE_TEMPLATE("what pivoted_qr refuses", T, float, double) {
  CHECK(message_of<std::invalid_argument>([&] {
          pivoted_qr(random<T, Shard<0>>(line(), {3, 5}, 1));
        }) == "pivoted_qr: a matrix of [3 x 5] has more columns than rows");
  for (const double wrong : {-1., 1., std::nan("")}) {
    CHECK_THROWS_AS(pivoted_qr(random<T, Shard<0>>(line(), {5, 3}, 1), {.tolerance = wrong}),
                    std::invalid_argument);
  }
  for (const T wrong : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN(),
                        std::numeric_limits<T>::max()}) {
    for (const Index row : {0, 22}) {
      Matrix<T> a = conditioned<T>(23, 5, 10, 1);
      a(row, 2) = a(11, 2) = wrong;
      const auto x = distribute<Shard<0>>(line(), a);
      for (const bool least_squares : {false, true}) {
        CHECK(message_of<std::runtime_error>([&] {
                least_squares ? void(lstsq(x, x, {.minimum_norm = true})) : void(pivoted_qr(x));
              }) == "pivoted_qr: the matrix has NaN or infinity, or its norm overflows");
      }
    }
  }
}

template <class T, class OfA, class OfB>
void check_least_norm(const Matrix<T>& a, Index columns, double condition = 100) {
  const auto b = random_matrix<T>(a.rows(), columns, 9);
  const auto mesh = line();
  const Matrix<double> x =
      wide<T>(full_tensor(lstsq(distribute<OfA>(mesh, a), distribute<OfB>(mesh, b), {.minimum_norm = true})));
  Eigen::CompleteOrthogonalDecomposition<Matrix<double>> f;
  f.setThreshold(20 * rounding<T>(a.cols()));
  f.compute(wide(a));
  const Matrix<double> expected = f.solve(wide(b));
  CHECK(norm_1(x - expected) <= 100 * condition * epsilon<T> * (norm_1(expected) + norm_1(b) / norm_1(a)));
}

TEST_CASE_TEMPLATE("lstsq finds the solution of least norm", T, float, double) {
  for (const Index rank : {1, 5, 20}) {
    const auto a = dependent<T>(100, 20, rank, 1);
    check_least_norm<T, Shard<0>, Shard<0>>(a, 3, 1000);
    check_least_norm<T, Replicate, Replicate>(a, 1, 1000);
    check_least_norm<T, Reduced, Shard<1>>(a, 5, 1000);
  }
  const auto mesh = line();
  Matrix<T> a = conditioned<T>(23, 4, 10, 1);
  a.col(2) = a.col(1);
  check_least_norm<T, Shard<0>, Shard<0>>(a, 2);
  a.col(0).setZero();
  check_least_norm<T, Shard<0>, Shard<0>>(a, 2);
  check_least_norm<T, Shard<0>, Shard<0>>(a, 0);
  check_least_norm<T, Shard<0>, Shard<0>>(conditioned<T>(2, 1, 1, 1), 2);
  const auto zero = distribute<Shard<0>>(mesh, Matrix<T>::Zero(23, 4).eval()),
             b = distribute<Shard<0>>(mesh, a);
  CHECK(norm_1(full_tensor(lstsq(zero, b, {.minimum_norm = true}))) == 0);
  CHECK(full_tensor(lstsq(random<T, Shard<0>>(mesh, {5, 0}, 1), random<T, Shard<0>>(mesh, {5, 2}, 1),
                          {.minimum_norm = true}))
            .size() == 0);
  // Of singular values 1, …, 1e-6, those below the tolerance are left out.
  const auto weak = distribute<Shard<0>>(mesh, conditioned<T>(50, 7, 1e6, 1));
  const auto ones = distribute<Shard<0>>(mesh, Matrix<T>::Ones(50, 1).eval());
  CHECK(norm_1(full_tensor(lstsq(weak, ones, {.minimum_norm = true, .tolerance = 1e-3}))) <= 1e5);
  CHECK(message_of<std::invalid_argument>([&] { lstsq(weak, ones, {.tolerance = 0.5}); }) ==
        "lstsq: the tolerance is 0.5, but only {.minimum_norm = true} has one");
}

TEST_CASE_TEMPLATE("qr and svd of 50 columns that are ill-conditioned or dependent", T, float, double) {
  const auto check_factors = [](const Matrix<T>& a, const auto& x) {
    const auto f = qr(x);
    const Matrix<T> r = f.r.local();
    CHECK(qr_excess<T>(a, full_tensor(f.q), r) <= 1);
    CHECK(norm_1(Matrix<T>(r.template triangularView<Eigen::StrictlyLower>())) == 0);
    CHECK((r.diagonal().array() >= 0).all());
    const auto [u, s, v] = svd(x);
    const Matrix<T> of_u = full_tensor(u), of_v = v.local();
    const Matrix<double> back = product(wide(of_u) * wide<T>(s.local()).asDiagonal(), wide(of_v).transpose());
    CHECK(excess<T>(back - wide(a), static_cast<double>(a.rows()) * norm_1(a)) <= 1);
    CHECK(qr_excess<T>(of_u, of_u, Matrix<T>::Identity(a.cols(), a.cols())) <= 1);
  };
  const auto check = [&](const Matrix<T>& a) {
    check_factors(a, distribute<Shard<0>>(line(), a));
    check_factors(a, distribute<Shard<0>, Shard<0>>(grid(), a));
  };
  for (const double condition : {1e4, 1e8, 1e12, 1e15}) {
    CAPTURE(condition);
    const auto a = conditioned<T>(130, 50, condition, 1);
    check(a);
    if (condition * epsilon<T> < 1e-3) {
      CHECK(detail::sketched_qr(distribute<Shard<0>, Shard<0>>(grid(), a)).has_value());
    }
  }
  Matrix<T> a = dependent<T>(100, 50, 13, 1);
  check(a);
  a.col(7).setZero();
  a.col(8) = a.col(9);
  check(a);
  check(Matrix<T>::Zero(100, 50));
  check(Matrix<T>::Identity(50, 50));
}

TEST_CASE("what is communicated is what is planned") {
  const auto mesh = grid();
  const auto run = [](const auto& x) {
    pivoted_qr(x);
    lstsq(x, x, {.minimum_norm = true});
  };
  const auto x = distribute<Shard<0>, Shard<0>>(mesh, dependent<double>(100, 8, 3, 1));
  Recording recording(mesh);
  run(x);
  const auto planned = trace<Mesh<dp, tp>>({mesh.size<dp>(), mesh.size<tp>()}, [&](const auto& dry) {
    run(empty<double, Shard<0>, Shard<0>>(dry, {100, 8}));
  });
  CHECK(recording.plan().collectives() == planned.collectives());
  CHECK(recording.plan().bytes() == planned.bytes());
}

constexpr auto plan = trace<Mesh<tp>>({4}, [](const auto& mesh) {
  const auto x = empty<double, Shard<0>>(mesh, {4000, 200});
  pivoted_qr(x);
  lstsq(x, x, {.minimum_norm = true});
});
static_assert(plan.collectives() == 2 + 3 && plan.bytes() == 8 * 200 * (2 * (250 + 200) + 200));

template <class P>
using Asked = Abstract<On1<2, P>, false, false>;
static_assert(
    std::is_same_v<decltype(pivoted_qr(Asked<Shard<0>>{})), PivotedQr<Asked<Shard<0>>, Asked<Replicate>>>);
static_assert(reason_of<tensor_of<decltype(pivoted_qr(Asked<Shard<1>>{}).r)>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);

}  // namespace
}  // namespace shardwise::testing::linalg_pivoted
