// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Factorizations of batches of whole matrices: in every layout, their gradients, and the errors that all ranks throw.

#include <shardwise/linalg/cholesky.hpp>
#include <shardwise/linalg/gram.hpp>
#include <shardwise/linalg/solve_triangular.hpp>
#include <shardwise/linalg/spectral.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/check_operation.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_batches {
namespace {

/// `Op` of a first operand that is moved by 4 I: random numbers become a matrix that is far from singular, with a
/// positive definite symmetric part.
template <class Op>
struct Moved : Op {
  template <class X>
  static X moved(const X& x, std::vector<double>& values) {
    if (!x.data) return x;
    values.assign(x.data, x.data + x.elements());
    const Index n = x.columns();
    for (Index i = 0; i < x.rows(); ++i) values[static_cast<std::size_t>(i * n + i % n)] += 4;
    X y = x;
    y.data = values.data();
    return y;
  }
  void forward(auto y, void* residual, auto x, auto... more) const {
    std::vector<double> values;
    Op::forward(y, residual, moved(x, values), more...);
  }
  void pull_back(auto dy, auto y, const void* residual, auto x, auto... more) const {
    if constexpr ((Op::saved.inputs & 1u) == 0) {
      Op::pull_back(dy, y, residual, x, more...);
    } else {
      std::vector<double> values;
      Op::pull_back(dy, y, residual, moved(x, values), more...);
    }
  }
};

TEST_CASE("gradients, and every layout") {
  const auto mesh = line();
  for (const Index n : {0, 1, 2, 5}) {
    check_operation(mesh, Moved<CholeskyOp>(), Shape<2>{n, n});
    check_operation(mesh, Moved<CholeskyOp>(), Shape<3>{3, n, n});
    check_operation(mesh, GramOp(), Shape<2>{7, n});
    check_operation(mesh, GramOp(), Shape<3>{3, 2, n});
    for (const Triangular how : {Triangular{false, false}, {false, true}, {true, false}, {true, true}}) {
      check_operation(mesh, Moved<SolveTriangularOp<Side::left>>{{how}}, Shape<2>{n, n}, Shape<2>{n, 3});
      check_operation(mesh, Moved<SolveTriangularOp<Side::right>>{{how}}, Shape<2>{n, n}, Shape<2>{3, n});
    }
    check_operation(mesh, Moved<SolveTriangularOp<Side::left>>(), Shape<3>{3, n, n}, Shape<3>{3, n, 2});
  }
}

/// [count, n, n], each the identity but for number `wrong`.
template <class T, class Placement>
auto identities(Index count, Index n, Index wrong, Index pivot, double value) {
  Dense all({count, n, n});
  for (Index i = 0; i < count * n; ++i) all[i * n + i % n] = i == wrong * n + pivot ? value : 1;
  return place<Tensor<T, 3, Mesh<tp>, Placement>>(line(), all);
}

TEST_CASE_TEMPLATE("all ranks throw the first failure", T, float, double) {
  for (const double value : {0., -1., std::nan(""), HUGE_VAL}) {
    const std::string text =
        "cholesky: matrix [4] is not positive definite: pivot 2 is not a positive number";
    CHECK(message_of<std::runtime_error>([&] { cholesky(identities<T, Shard<0>>(7, 3, 4, 2, value)); }) ==
          text);
    CHECK(message_of<std::runtime_error>([&] { cholesky(identities<T, Replicate>(7, 3, 4, 2, value)); }) ==
          text);
    if (std::isfinite(value)) continue;
    CHECK(message_of<std::runtime_error>([&] { eigh(identities<T, Shard<0>>(7, 3, 5, 1, value)); }) ==
          "eigh: matrix [5] is not finite, or the iteration did not converge");
    CHECK(message_of<std::runtime_error>([&] { svd(identities<T, Shard<0>>(7, 3, 6, 1, value)); }) ==
          "svd: matrix [6] is not finite, or the iteration did not converge");
  }
  const auto mesh = line();
  const auto one = random<T, Replicate>(mesh, {2, 2}, 1);
  CHECK(message_of<std::runtime_error>([&] { cholesky(scale(gram(one), -1)); }) ==
        "cholesky: the matrix is not positive definite: pivot 0 is not a positive number");
  const auto wide_one = random<T, Replicate>(mesh, {2, 3}, 1);
  CHECK(message_of<std::invalid_argument>([&] { cholesky(wide_one); }) ==
        "cholesky: the matrices of [2 x 3] are not square");
  CHECK(message_of<std::invalid_argument>([&] { eigh(wide_one); }) ==
        "eigh: the matrices of [2 x 3] are not square");
  CHECK(message_of<std::invalid_argument>([&] { solve_triangular(wide_one, wide_one); }) ==
        "solve_triangular: the matrices of [2 x 3] are not square");
  CHECK(message_of<std::invalid_argument>([&] {
          solve_triangular(one, random<T, Replicate>(mesh, {3, 2}, 1));
        }) ==
        "solve_triangular: the operands [2 x 2] and [3 x 2] do not fit: dimension 1 of operand 0 has 2 "
        "elements, dimension 0 of operand 1 has 3");
}

TEST_CASE_TEMPLATE("a matrix that is not symmetric is an error on every rank", T, float, double) {
  Dense all({5, 3, 3});
  for (Index i = 0; i < 15; ++i) all[i * 3 + i % 3] = 4;
  all[9 * 4 + 3 * 2 + 1] = 1;  // only the lower triangle is filled
  const auto check_all = [&](const auto& a, const std::string& which) {
    const std::string text = " is not symmetric: row 1 is not equal to column 1";
    CHECK(message_of<std::invalid_argument>([&] { cholesky(a); }) == "cholesky: " + which + text);
    CHECK(message_of<std::invalid_argument>([&] { eigh(a); }) == "eigh: " + which + text);
  };
  check_all(place<Tensor<T, 3, Mesh<tp>, Shard<0>>>(line(), all), "matrix [4]");
  check_all(place<Tensor<T, 3, Mesh<tp>, Replicate>>(line(), all), "matrix [4]");
  Dense one({3, 3});
  for (Index i = 0; i < 9; ++i) one[i] = all[36 + i];
  check_all(place<Tensor<T, 2, Mesh<tp>, Replicate>>(line(), one), "the matrix");
  one[5] = 1 + 1e-9;  // rounding errors pass
  cholesky(place<Tensor<T, 2, Mesh<tp>, Replicate>>(line(), one));
  eigh(place<Tensor<T, 2, Mesh<tp>, Replicate>>(line(), one));
}

TEST_CASE("eigh of numbers whose sums overflow") {
  const auto [values, vectors] =
      eigh(distribute<Replicate>(line(), Matrix<double>(Matrix<double>::Identity(3, 3) * 1.2e308)));
  for (Index i = 0; i < 3; ++i) CHECK(values.data()[i] == doctest::Approx(1.2e308));
  CHECK(norm_1(Matrix<double>(vectors.local()).cwiseAbs() - Matrix<double>::Identity(3, 3)) <= 1e-14);
}

TEST_CASE("solve_triangular reads one triangle: the lower one, or the upper one if it is asked for") {
  Matrix<double> both(2, 2), right(2, 1);
  both << 2, 4, 6, 8;
  right << 2, 10;
  const auto mesh = line();
  const auto l = distribute<Replicate>(mesh, both), b = distribute<Replicate>(mesh, right);
  CHECK(norm_1(Matrix<double>(solve_triangular(l, b).local()) - Matrix<double>{{1}, {0.5}}) == 0);
  CHECK(norm_1(Matrix<double>(solve_triangular(l, b, {.upper = true}).local()) -
               Matrix<double>{{-1.5}, {1.25}}) == 0);
}

/// The whole of matrix `i` of a batch.
template <TensorType X>
Matrix<double> matrix_of(const X& x, Index i) {
  const Dense all = gather(x);
  const Index m = all.shape[1], n = X::rank == 3 ? all.shape.back() : 1;
  return Eigen::Map<const Matrix<double>>(all.values.data() + i * m * n, m, n);
}

template <class T, class Placement>
void check_spectral(Index count, Index m, Index n) {
  CAPTURE(count);
  CAPTURE(m);
  CAPTURE(n);
  const auto x = random<T, Placement>(line(), {count, m, n}, 1);
  const auto [u, s, v] = svd(x);
  for (Index i = 0; i < count; ++i) {
    const Matrix<double> a = matrix_of(x, i), us = matrix_of(u, i) * matrix_of(s, i).asDiagonal();
    CHECK(excess<T>(product(us, matrix_of(v, i).transpose()) - a,
                    static_cast<double>(std::max(m, n)) * norm_1(a)) <= 1);
  }
  Dense all({count, n, n});
  for (Index i = 0; i < count; ++i) {
    const auto half = random_matrix<double>(n, n, static_cast<std::uint64_t>(i));
    Eigen::Map<Matrix<double>>(all.values.data() + i * n * n, n, n) = half + half.transpose();
  }
  const auto square = place<Tensor<T, 3, Mesh<tp>, Placement>>(line(), all);
  const auto [values, vectors] = eigh(square);
  for (Index i = 0; i < count; ++i) {
    const Matrix<double> a = matrix_of(square, i), z = matrix_of(vectors, i);
    CHECK(excess<T>(product(z * matrix_of(values, i).asDiagonal(), z.transpose()) - a,
                    static_cast<double>(n) * norm_1(a)) <= 1);
  }
}

template <class T, class Placement>
void check_cholesky(Index n) {
  CAPTURE(n);
  Dense all({2, n, n});
  for (Index i = 0; i < 2; ++i) {
    const auto x = random_matrix<double>(n, n, static_cast<std::uint64_t>(i));
    Eigen::Map<Matrix<double>>(all.values.data() + i * n * n, n, n) =
        x * x.transpose() + Matrix<double>::Identity(n, n);
  }
  const auto a = place<Tensor<T, 3, Mesh<tp>, Placement>>(line(), all);
  const auto l = cholesky(a);
  for (Index i = 0; i < 2; ++i) {
    const Matrix<double> whole = matrix_of(a, i), factor = matrix_of(l, i);
    CHECK(excess<T>(product(factor, factor.transpose()) - whole, static_cast<double>(n) * norm_1(whole)) <=
          1);
    CHECK(norm_1(Matrix<double>(factor.template triangularView<Eigen::StrictlyUpper>())) == 0);
  }
}

TEST_CASE_TEMPLATE("cholesky", T, float, double) {
  for (const Index n : {0, 1, 2, 7, 100, 257}) {
    check_cholesky<T, Replicate>(n);
    check_cholesky<T, Shard<0>>(n);
  }
}

TEST_CASE_TEMPLATE("eigh and svd", T, float, double) {
  check_spectral<T, Shard<0>>(2, 257, 100);
  check_spectral<T, Shard<0>>(1, 100, 257);
  for (const Index count : {0, 1, 5}) {
    for (const Index n : {0, 1, 2, 7}) {
      check_spectral<T, Replicate>(count, 3, n);
      check_spectral<T, Reduced>(count, 3, n);
      check_spectral<T, Shard<0>>(count, 3, n);
    }
  }
}

TEST_CASE("Var: the gradient of a determinant, and tensors off the tape") {
  const auto mesh = line();
  Tape tape;
  const auto x = random<double, Shard<0>>(mesh, {9, 3}, 1);
  const auto g = tape.input(redistribute<Replicate>(gram(x)));
  const auto l = cholesky(g);
  const auto inverse = solve_triangular(
      l, tape.constant(distribute<Replicate>(mesh, Matrix<double>(Matrix<double>::Identity(3, 3)))));
  Dense weights({3, 3});
  for (Index i = 0; i < 3; ++i) weights[4 * i] = 2 / gather(l.value())[4 * i];  // of log det g
  tape.backward(l, place<Tensor<double, 2, Mesh<tp>, Replicate>>(mesh, weights));
  const Dense found = gather(g.gradient()), root = gather(inverse.value());
  const Eigen::Map<const Matrix<double>> gradient(found.values.data(), 3, 3), half(root.values.data(), 3, 3);
  CHECK(norm_1(gradient - product(half.transpose(), half)) <= 1e-12);
}

constexpr auto plan = trace<Mesh<tp>>({4}, [](const auto& mesh) {
  const auto batch = empty<double, Shard<0>>(mesh, {8, 3, 3});
  const auto whole = empty<double, Replicate>(mesh, {3, 3});
  cholesky(batch);
  cholesky(whole);
  eigh(whole);
  svd(whole);
  solve_triangular(batch, batch);
});
static_assert(plan.collectives() == 1 && plan.bytes() == 8);

static_assert(why_not<CholeskyOp, On1<2, Shard<1>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<CholeskyOp, On1<2, Partial<>>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_not<CholeskyOp, On1<1, Replicate>> == Reason::operands_do_not_fit_in_rank);
static_assert(why_not<SolveTriangularOp<Side::left>, On1<2, Reduced>, On1<2, Shard<1>>> == Reason::none);
static_assert(why_not<SolveTriangularOp<Side::left>, On1<2, Replicate>, On1<2, Shard<1>>> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why_not<SolveTriangularOp<Side::right>, On1<2, Reduced>, On1<2, Shard<0>>> == Reason::none);
static_assert(std::is_same_v<result_of<GramOp, On1<2, Shard<0>>>, On1<2, Partial<>>>);
static_assert(reason_of<detail::factored<CholeskyOp, On1<2, Replicate, Eigen::bfloat16>>> ==
              Reason::operation_needs_floating_point_numbers);
static_assert(reason_of<detail::factored_off_tape<detail::MatrixOfMatrix, Tracked1<2, Replicate>>> ==
              Reason::operation_has_no_gradient);

/// What a module is asked first, on types.
template <class P>
using Asked = Abstract<On1<3, P>, false, false>;
static_assert(std::is_same_v<decltype(cholesky(Asked<Shard<0>>{})), Asked<Shard<0>>>);
static_assert(
    std::is_same_v<decltype(eigh(Asked<Shard<0>>{}).values), Abstract<On1<2, Shard<0>>, false, false>>);
static_assert(reason_of<tensor_of<decltype(svd(Asked<Shard<1>>{}).s)>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);

}  // namespace
}  // namespace shardwise::testing::linalg_batches
