// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `layer_norm`, `softmax` and `normalize`.

#include <shardwise/ops/check_operation.hpp>
#include <shardwise/ops/layer_norm.hpp>
#include <shardwise/ops/normalize.hpp>
#include <shardwise/ops/softmax.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_normalise {
namespace {

const auto normalise = [](const auto& x, const auto& gamma, const auto& beta) {
  return layer_norm(x, gamma, beta, 1e-3);
};

Dense dense_layer_norm(const Dense& x, const Dense& gamma, const Dense& beta) {
  Dense y(x.shape);
  const Index cols = gamma.size();
  for (Index first = 0; first < x.size(); first += cols) {
    double mean = 0, variance = 0;
    for (Index c = 0; c < cols; ++c) mean += x[first + c] / static_cast<double>(cols);
    for (Index c = 0; c < cols; ++c) {
      variance += (x[first + c] - mean) * (x[first + c] - mean) / static_cast<double>(cols);
    }
    for (Index c = 0; c < cols; ++c) {
      y[first + c] = (x[first + c] - mean) / std::sqrt(variance + 1e-3) * gamma[c] + beta[c];
    }
  }
  return y;
}

/// Along dimension `dim`.
auto dense_softmax(std::size_t dim) {
  return [dim](const Dense& x) {
    Dense y(x.shape);
    Index inner = 1, n = x.shape[dim];
    for (std::size_t i = dim + 1; i < x.shape.size(); ++i) inner *= x.shape[i];
    for (Index first = 0; first < x.size(); ++first) {
      if (first / inner % n != 0) continue;
      double sum = 0;
      for (Index k = 0; k < n; ++k) sum += std::exp(x[first + k * inner]);
      for (Index k = 0; k < n; ++k) y[first + k * inner] = std::exp(x[first + k * inner]) / sum;
    }
    return y;
  };
}

template <class T, class PX, class P>
void check_norm(const auto& mesh) {
  check(normalise, dense_layer_norm, random<T, PX>(mesh, {3, 5, 7}, 1), random<T, P>(mesh, {7}, 2),
        random<T, P>(mesh, {7}, 3));
}

TEST_CASE("layer_norm") {
  const auto mesh = line();
  check_norm<double, Replicate, Replicate>(mesh);
  check_norm<double, Reduced, Reduced>(mesh);
  check_norm<double, Shard<0>, Reduced>(mesh);
  check_norm<double, Shard<1>, Reduced>(mesh);
  check_norm<Eigen::bfloat16, Shard<1>, Reduced>(mesh);
  const auto two = grid();
  check(normalise, dense_layer_norm, random<double, Shard<0>, Shard<1>>(two, {3, 5, 7}, 1),
        random<double, Reduced, Reduced>(two, {7}, 2), random<double, Reduced, Reduced>(two, {7}, 3));
  CHECK(message_of<std::invalid_argument>([&] {
          layer_norm(random<double, Reduced>(mesh, {3, 7}, 1), random<double, Reduced>(mesh, {7}, 1),
                     random<double, Reduced>(mesh, {5}, 1));
        }) ==
        "layer_norm: the operands [3 x 7], [7] and [5] do not fit: dimension 1 of operand 0 has 7 elements, "
        "dimension 0 of operand 2 has 5");
}

TEST_CASE("layer_norm: one wanted gradient is enough") {
  const auto mesh = line();
  const auto x = random<double, Shard<0>>(mesh, {5, 7}, 1);
  const auto gamma = random<double, Reduced>(mesh, {7}, 2), beta = random<double, Reduced>(mesh, {7}, 3);
  const Dense all_x = gather(x), all_gamma = gather(gamma), all_beta = gather(beta);
  check([&](const auto& v) { return layer_norm(v, alongside(gamma, v), alongside(beta, v), 1e-3); },
        [&](const Dense& v) { return dense_layer_norm(v, all_gamma, all_beta); }, x);
  check([&](const auto& v) { return layer_norm(alongside(x, v), alongside(gamma, v), v, 1e-3); },
        [&](const Dense& v) { return dense_layer_norm(all_x, all_gamma, v); }, beta);
}

TEST_CASE("softmax") {
  const auto mesh = line();
  const auto last = [](const auto& x) { return softmax(x); };
  const auto middle = [](const auto& x) { return softmax<1>(x); };
  check(last, dense_softmax(2), random<double, Replicate>(mesh, {3, 5, 7}, 1));
  check(last, dense_softmax(2), random<double, Reduced>(mesh, {3, 5, 7}, 1));
  check(last, dense_softmax(2), random<double, Shard<0>>(mesh, {3, 5, 7}, 1));
  check(last, dense_softmax(2), random<double, Shard<1>>(mesh, {3, 5, 7}, 1));
  check(middle, dense_softmax(1), random<double, Shard<0>>(mesh, {3, 5, 7}, 1));
  check(middle, dense_softmax(1), random<double, Shard<2>>(mesh, {3, 5, 7}, 1));
  check(last, dense_softmax(1), random<Eigen::bfloat16, Shard<0>>(mesh, {5, 7}, 1));
}

template <class X, class P>
constexpr Reason why = why_not<LayerNormOp, On1<3, X>, On1<1, P>, On1<1, P>>;
static_assert(why<Shard<1>, Reduced> == Reason::none);
static_assert(why<Shard<2>, Shard<0>> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Shard<1>, Replicate> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why<Partial<>, Reduced> == Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<Replicate, Reduced> == Reason::replicated_operand_meets_reduced_one);
static_assert(why_not<LayerNormOp, On1<2, Reduced>, On1<2, Reduced>, On1<1, Reduced>> ==
              Reason::operands_do_not_fit_in_rank);
static_assert(why_not<SoftmaxOp<-1>, On1<3, Shard<1>>> == Reason::none);
static_assert(why_not<SoftmaxOp<-1>, On1<3, Shard<2>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<SoftmaxOp<0>, On1<3, Shard<0>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<SoftmaxOp<-1>, On1<3, Partial<>>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_not<SoftmaxOp<3>, On1<3, Replicate>> == Reason::tensor_has_no_such_dimension);

template <class X>
concept Normalisable = requires(X x, On1<1, Reduced> p) {
  layer_norm(x, p, p);
};
static_assert(Normalisable<On1<2, Shard<0>>> && !Normalisable<On1<2, Shard<1>>>);
template <class X>
concept Softmaxable = requires(X x) {
  softmax(x);
};
static_assert(Softmaxable<On1<2, Shard<0>>> && !Softmaxable<On1<2, Shard<1>>>);

/// Along dimension 1 of three.
Dense dense_normalize(const Dense& x) {
  Dense y(x.shape);
  const Index n = x.extent(1), inner = x.extent(2);
  for (Index i = 0; i < x.size(); ++i) {
    double squares = 0;
    for (Index k = 0; k < n; ++k) {
      const double value = x[(i / (inner * n) * n + k) * inner + i % inner];
      squares += value * value;
    }
    y[i] = x[i] / std::max(std::sqrt(squares), 0.9);  // some of the vectors are shorter
  }
  return y;
}

TEST_CASE("normalize") {
  const auto mesh = line();
  const auto middle = [](const auto& x) { return normalize<1>(x, 0.9); };
  check(middle, dense_normalize, random<double, Replicate>(mesh, {3, 2, 5}, 1));
  check(middle, dense_normalize, random<double, Shard<0>>(mesh, {3, 7, 5}, 1));
  check(middle, dense_normalize, random<double, Shard<2>>(mesh, {5, 2, 3}, 1));
  check(middle, dense_normalize, random<double, Shard<0>>(mesh, {9, 2, 1}, 1));
  check(middle, dense_normalize, random<double, Reduced>(mesh, {3, 40, 1}, 1));
  check(middle, dense_normalize, random<Eigen::bfloat16, Shard<0>>(mesh, {5, 4, 1}, 1));
  check_operation(mesh, NormalizeOp<-1>{1e-12}, Shape<2>{5, 3});
  CHECK(normalize(random<float, Shard<0>>(mesh, {0, 3}, 1)).shape() == Shape<2>{0, 3});
  CHECK_THROWS_WITH_AS(normalize(random<double, Shard<0>>(mesh, {2, 3}, 1), 0.),
                       "normalize: epsilon is 0, which must be more than 0", std::invalid_argument);
}
static_assert(why_not<NormalizeOp<-1>, On1<2, Shard<1>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);

}  // namespace
}  // namespace shardwise::testing::ops_normalise
