// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The hints of compile errors, applied: each test case calls what a hint names, where the call that it replaces does
/// not compile, and compares the result with a dense computation. Extents are square too, where a wrong dimension fits.

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/linalg/matrix_product.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/comparison.hpp>
#include <shardwise/ops/contract.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/operators.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/softmax.hpp>
#include <shardwise/ops/where.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/train/sgd.hpp>

#include <cmath>

#include "ops_check.hpp"

namespace shardwise::testing::cures {
namespace {

template <class X>
concept Divides = requires(X x) {
  x / norm<1>(x);
};
template <class A, class B>
concept Adds = requires(A a, B b) {
  add(a, b);
};
template <class A, class B>
concept Multiplies = requires(A a, B b) {
  matmul(a, b);
};
template <class X>
concept HasSoftmax = requires(X x) {
  softmax(x);
};
template <class X>
concept HasNorm = requires(X x) {
  norm(x);
};
using Rows = On1<2, Shard<0>>;
static_assert(!Divides<Rows> && !Multiplies<Rows, Rows> && !Adds<Rows, On1<2, Reduced>>);
static_assert(!Adds<Rows, On1<2, Shard<1>>> && !HasSoftmax<On1<2, Shard<1>>> && !HasNorm<Rows>);

/// The number at row i, column j.
double at(const Dense& x, Index i, Index j) { return x[i * x.shape[1] + j]; }

/// Compares each element of a matrix with formula(row, column).
void compare(const auto& y, auto formula) {
  const Dense found = gather(y);
  for (Index i = 0; i < found.shape[0]; ++i) {
    for (Index j = 0; j < found.shape[1]; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      CHECK(at(found, i, j) == doctest::Approx(formula(i, j)));
    }
  }
}
double product_at(const Dense& a, const Dense& b, Index i, Index j) {
  double sum = 0;
  for (Index k = 0; k < a.shape[1]; ++k) sum += at(a, i, k) * at(b, k, j);
  return sum;
}

TEST_CASE("last_dimensions_meet_so_scale_rows_by_contract_rc_r_to_rc") {
  const auto mesh = line();
  for (const Index columns : {8, 4}) {
    const auto x = random<double, Shard<0>>(mesh, {8, columns}, 1);
    const Dense whole = gather(x);
    const auto norm_of = [&](Index i) {
      double squares = 0;
      for (Index j = 0; j < columns; ++j) squares += at(whole, i, j) * at(whole, i, j);
      return std::sqrt(squares);
    };
    compare(contract<"rc, r -> rc">(x, reciprocal(norm<1>(x))),
            [&](Index i, Index j) { return at(whole, i, j) / norm_of(i); });
  }
}

TEST_CASE("use_matrix_product_which_communicates") {
  const auto mesh = line();
  const auto a = random<double, Shard<0>>(mesh, {6, 6}, 1), b = random<double, Shard<0>>(mesh, {6, 6}, 2);
  compare(matrix_product<Shard<0>>(a, b),
          [p = gather(a), q = gather(b)](Index i, Index j) { return product_at(p, q, i, j); });
}

TEST_CASE("use_CholeskyFactor_which_takes_blocks") {
  const auto mesh = line();
  const auto x = random<double, Replicate>(mesh, {5, 5}, 1);
  const auto a = contract<"ki, kj -> ij">(x, x);
  const auto b = random<double, Shard<0>>(mesh, {5, 5}, 2);
  const Dense solution = gather(CholeskyFactor(redistribute<Shard<0>>(a)).solve(b));
  compare(b, [&, p = gather(a)](Index i, Index j) { return product_at(p, solution, i, j); });
}

TEST_CASE("contract_two_operands_and_the_result_with_the_next") {
  const auto mesh = line();
  const auto a = random<double, Replicate>(mesh, {4, 4}, 1), b = random<double, Replicate>(mesh, {4, 4}, 2);
  const auto c = random<double, Replicate>(mesh, {4, 4}, 3);
  const auto ab = contract<"ij, jk -> ik">(a, b);
  compare(contract<"ik, kl -> il">(ab, c),
          [&, p = gather(a), q = gather(b), r = gather(c)](Index i, Index l) {
            double sum = 0;
            for (Index k = 0; k < 4; ++k) sum += product_at(p, q, i, k) * at(r, k, l);
            return sum;
          });
}

TEST_CASE("use_the_number_that_item_returns, less, maximum") {
  const auto mesh = line();
  const auto x = random<double, Shard<0>>(mesh, {4, 4}, 1), y = random<double, Shard<0>>(mesh, {4, 4}, 2);
  const Dense p = gather(x), q = gather(y);
  compare(maximum(x, y), [&](Index i, Index j) { return std::max(at(p, i, j), at(q, i, j)); });
  compare(where(less(x, 0), x, y),
          [&](Index i, Index j) { return at(p, i, j) < 0 ? at(p, i, j) : at(q, i, j); });
  const auto residual = redistribute<Replicate>(sum_of_squares(x));
  double squares = 0;
  for (const double value : p.values) squares += value * value;
  CHECK((item(residual) < 1) == (squares < 1));
  CHECK(item(residual) == doctest::Approx(squares));
}

TEST_CASE(
    "take_the_root_of_sum_of_squares_after_you_redistribute_it, "
    "redistribute_to_Replicate_to_finish_the_reduction") {
  const auto mesh = line();
  const auto x = random<double, Shard<0>>(mesh, {5, 5}, 1);
  const double length = item(norm(redistribute<Replicate>(x)));
  CHECK(std::sqrt(item(redistribute<Replicate>(sum_of_squares(x)))) == doctest::Approx(length));
}

TEST_CASE("redistribute_to_what_is_Expected, redistribute_to_Reduced_which_is_free") {
  const auto mesh = line();
  const auto rows = random<double, Shard<0>>(mesh, {6, 6}, 1);
  const auto columns = random<double, Shard<1>>(mesh, {6, 6}, 2);
  const auto whole = random<double, Replicate>(mesh, {6, 6}, 3);
  const Dense p = gather(rows), q = gather(columns), w = gather(whole);
  compare(add(rows, redistribute<Shard<0>>(columns)),
          [&](Index i, Index j) { return at(p, i, j) + at(q, i, j); });
  compare(linear(rows, redistribute<Reduced>(whole)), [&](Index i, Index j) {
    double sum = 0;
    for (Index k = 0; k < 6; ++k) sum += at(p, i, k) * at(w, j, k);
    return sum;
  });
  compare(softmax(redistribute<Shard<0>>(columns)), [&](Index i, Index j) {
    double sum = 0;
    for (Index k = 0; k < 6; ++k) sum += std::exp(at(q, i, k));
    return std::exp(at(q, i, j)) / sum;
  });
}

TEST_CASE("pass_the_model_or_call_for_each_parameter") {
  const auto mesh = line();
  Linear<Mesh<tp>, ColwiseParallel<tp>, double> layer(mesh, 4, 4);
  initialize(layer, 1);
  const Dense before = gather(layer.weight.value());
  Tape tape;
  const auto y = layer(tape.input(random<double, Reduced>(mesh, {4, 4}, 2)));
  tape.backward(y, full<double, Shard<1>>(mesh, {4, 4}, 1.));
  const Dense gradient = gather(layer.weight.gradient());
  SGD sgd({.rate = 0.5});
  sgd.step(layer);
  compare(layer.weight.value(),
          [&](Index i, Index j) { return at(before, i, j) - 0.5 * at(gradient, i, j); });
}

TEST_CASE("a shape {} is a scalar's") { CHECK(item(full<double, Replicate>(line(), {}, 3.0)) == 3); }

}  // namespace
}  // namespace shardwise::testing::cures
