// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The smallest and largest eigenvalues of symmetric matrices whose rows are cut.

#include <shardwise/linalg/eigsh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_eigsh {
namespace {

template <class T, class... Placements, class MeshType>
auto cut(const MeshType& mesh, const Matrix<T>& whole) {
  return distribute<Placements...>(mesh, Shape<2>{whole.rows(), whole.cols()},
                                   std::span(whole.data(), static_cast<std::size_t>(whole.size())));
}

/// Checks the residuals, the orthogonality, and the values against those of all eigenvalues.
template <class T, class... Placements>
void check(const auto& mesh, const Matrix<T>& a, const Eigen::Matrix<T, Eigen::Dynamic, 1>& all, Index k,
           SpectrumEnd end) {
  CAPTURE(k);
  const auto f = eigsh(cut<T, Placements...>(mesh, a), k, {.end = end});
  const Matrix<T> v = full_tensor(f.vectors);
  const auto values = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(f.values.data(), k);
  const Index n = a.rows();
  const T norm = all.cwiseAbs().maxCoeff(), unit = norm > 0 ? norm : T{1};
  const T bound = 2 * static_cast<T>(n) * std::numeric_limits<T>::epsilon();
  const Matrix<double> off =
      product(wide(a) / unit, wide(v)) - wide(v) * (values / unit).template cast<double>().asDiagonal();
  CHECK(off.colwise().norm().maxCoeff() <= bound);
  CHECK((product(wide(v).transpose(), wide(v)) - Matrix<double>::Identity(k, k)).cwiseAbs().maxCoeff() <=
        bound);
  const auto expected = end == SpectrumEnd::smallest ? all.head(k) : all.tail(k);
  CHECK(((values - expected) / unit).cwiseAbs().maxCoeff() <= bound);
}

/// vectors · diag(values) · vectorsᵀ
template <class T>
Matrix<T> with_values(const Matrix<double>& values) {
  const Index n = values.rows();
  static Matrix<double> q;
  if (q.rows() != n) {
    q.resize(n, n);
    Matrix<double> unused(n, 1);
    kernel::eigh<double>(n, random_matrix<double>(n, n, 5).data(), unused.data(), q.data());
  }
  const Matrix<double> a = product(q * values.col(0).asDiagonal(), q.transpose());
  return ((a + a.transpose()) / 2).template cast<T>();
}
template <class T>
Eigen::Matrix<T, Eigen::Dynamic, 1> sorted(const Matrix<double>& values) {
  Eigen::Matrix<T, Eigen::Dynamic, 1> all = values.col(0).cast<T>();
  std::sort(all.begin(), all.end());
  return all;
}
template <class T>
void check_values(const Matrix<double>& values, Index k) {
  const auto a = with_values<T>(values);
  check<T, Shard<0>>(line(), a, sorted<T>(values), k, SpectrumEnd::smallest);
  check<T, Shard<0>>(line(), a, sorted<T>(values), k, SpectrumEnd::largest);
}
Matrix<double> filled(Index n, auto f) {
  Matrix<double> values(n, 1);
  for (Index i = 0; i < n; ++i) values(i, 0) = f(static_cast<double>(i) / static_cast<double>(n));
  return values;
}

constexpr Index n = 353;  // above the extents of which all eigenvalues are computed, and uneven

TEST_CASE_TEMPLATE("spectra, of which some are clustered", T, float, double) {
  check_values<T>(filled(n, [](double t) { return std::cos(3.1415926 * t); }), 20);
  check_values<T>(filled(n, [](double t) { return std::exp(-30 * t); }), 20);
  // The first is far from the others; at the other end, values are so close together that all are computed.
  check_values<T>(filled(n, [](double t) { return 1 / (1 + static_cast<double>(n) * t); }), 40);
  check_values<T>(filled(n, [](double t) { return std::floor(7 * t); }), 40);
  if (std::is_same_v<T, float>) return;
  check_values<T>(filled(n, [](double t) { return t < 0.5 ? 0. : 1.; }), 40);
  check_values<T>(filled(n, [](double t) { return t < 0.97 ? 1. : 2 + t; }), 20);
  check_values<T>(filled(n, [](double t) { return t == 0 ? -1e-3 : 5 + t; }), 1);
}
TEST_CASE_TEMPLATE("a zero matrix, the identity, and matrices of all sizes", T, float, double) {
  check<T, Shard<0>>(line(), Matrix<T>::Zero(n, n), Matrix<T>::Zero(n, 1), 5, SpectrumEnd::smallest);
  check<T, Shard<0>>(line(), Matrix<T>::Identity(n, n), Matrix<T>::Ones(n, 1), 5, SpectrumEnd::largest);
  const auto values = filled(n, [](double t) { return t * t - 0.3; });
  const double factor = std::is_same_v<T, double> ? 1e150 : 1e15;
  check_values<T>(factor * values, 7);
  check_values<T>(values / factor, 7);
}
TEST_CASE_TEMPLATE("layouts, and more ranks than rows", T, float, double) {
  const auto values = filled(n, [](double t) { return std::sin(5 * t); });
  const auto a = with_values<T>(values);
  check<T, Replicate>(line(), a, sorted<T>(values), 9, SpectrumEnd::smallest);
  check<T, Shard<0>, Shard<0>>(grid(), a, sorted<T>(values), 9, SpectrumEnd::largest);
  check<T, Shard<0>, Replicate>(grid(), a, sorted<T>(values), 9, SpectrumEnd::smallest);
  check<T, Reduced, Shard<0>>(grid(), a, sorted<T>(values), 9, SpectrumEnd::smallest);
  for (const Index size : {1, 2, 7, 100}) {
    const auto few = filled(size, [](double t) { return 1 - t; });
    for (const Index k : {Index{1}, size}) check_values<T>(few, k);
  }
}
TEST_CASE_TEMPLATE("what is refused", T, float, double) {
  const auto refused = [&]<class Error>(Error, const Matrix<T>& a, Index k, EigshOptions options = {}) {
    return message_of<Error>([&] { eigsh(cut<T, Shard<0>>(line(), a), k, options); });
  };
  const std::invalid_argument wrong("");
  const std::runtime_error failed("");
  Matrix<T> a = random_matrix<T>(n, n, 1);
  CHECK(refused(wrong, a.leftCols(3), 1) == "eigsh: the matrices of [353 x 3] are not square");
  CHECK(refused(wrong, a, 0) == "eigsh: 0 eigenvalues of a matrix [353 x 353]; expected 1 to 353");
  CHECK(refused(wrong, a, 354) == "eigsh: 354 eigenvalues of a matrix [353 x 353]; expected 1 to 353");
  CHECK(refused(wrong, a, 3) == "eigsh: the matrix is not symmetric: row 0 is not equal to column 0");
  a = with_values<T>(filled(n, [](double t) { return t; }));
  CHECK(refused(failed, a, 60, {.tolerance = 1e-30, .max_steps = 1})
            .starts_with("eigsh: after 1 steps, 60 of 60"));
  for (const double bad : {HUGE_VAL, std::nan("")}) {
    a(352, 3) = static_cast<T>(bad);
    CHECK(refused(failed, a, 3) == "eigsh: row 352 of the matrix is not finite");
  }
}
/// A dry run counts the first space.
constexpr auto plan = trace<Mesh<tp>>({4}, [](const auto& mesh) {
  eigsh(empty<double, Shard<0>>(mesh, {1024, 1024}), 10);
});
// Lanczos's iteration; seven blocks, and six polynomials of degree 8 after the first product; what was missed
static_assert(plan.count(Collective::all_gather) == 20 + 7 + 6 * 7 + 9);

}  // namespace
}  // namespace shardwise::testing::linalg_eigsh
