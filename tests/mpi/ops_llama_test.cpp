// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `rms_norm`, `rope` and `swiglu`.

#include <shardwise/ops/rms_norm.hpp>
#include <shardwise/ops/rope.hpp>
#include <shardwise/ops/swiglu.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_llama {
namespace {

const auto normalise = [](const auto& x, const auto& weight) { return rms_norm(x, weight, 1e-3); };

Dense dense_rms_norm(const Dense& x, const Dense& weight) {
  Dense y(x.shape);
  const Index cols = weight.size();
  for (Index first = 0; first < x.size(); first += cols) {
    double squares = 0;
    for (Index c = 0; c < cols; ++c) squares += x[first + c] * x[first + c] / static_cast<double>(cols);
    for (Index c = 0; c < cols; ++c) y[first + c] = x[first + c] / std::sqrt(squares + 1e-3) * weight[c];
  }
  return y;
}

template <class T, class PX, class P>
void check_norm(const auto& mesh) {
  check(normalise, dense_rms_norm, random<T, PX>(mesh, {3, 5, 7}, 1), random<T, P>(mesh, {7}, 2));
}

TEST_CASE("rms_norm") {
  const auto mesh = line();
  check_norm<double, Replicate, Replicate>(mesh);
  check_norm<double, Reduced, Reduced>(mesh);
  check_norm<double, Shard<0>, Reduced>(mesh);
  check_norm<double, Shard<1>, Reduced>(mesh);
  check_norm<Eigen::bfloat16, Shard<1>, Reduced>(mesh);
  const auto two = grid();
  check(normalise, dense_rms_norm, random<double, Shard<0>, Shard<1>>(two, {3, 5, 7}, 1),
        random<double, Reduced, Reduced>(two, {7}, 2));
  CHECK(message_of<std::invalid_argument>([&] {
          rms_norm(random<double, Reduced>(mesh, {3, 7}, 1), random<double, Reduced>(mesh, {5}, 1));
        }) ==
        "rms_norm: the operands [3 x 7] and [5] do not fit: dimension 1 of operand 0 has 7 elements, "
        "dimension 0 of operand 1 has 5");
}

TEST_CASE("rms_norm: one wanted gradient is enough") {
  const auto mesh = line();
  const auto x = random<double, Shard<0>>(mesh, {5, 7}, 1);
  const auto weight = random<double, Reduced>(mesh, {7}, 2);
  const Dense all_x = gather(x), all_weight = gather(weight);
  check([&](const auto& v) { return rms_norm(v, alongside(weight, v), 1e-3); },
        [&](const Dense& v) { return dense_rms_norm(v, all_weight); }, x);
  check([&](const auto& v) { return rms_norm(alongside(x, v), v, 1e-3); },
        [&](const Dense& v) { return dense_rms_norm(all_x, v); }, weight);
}

Dense dense_rope(const Dense& x, const RopeOptions& options, const std::vector<Index>& positions = {}) {
  Dense y(x.shape);
  const Index sequence = x.extent(1), heads = x.extent(2), d = x.extent(3), half = d / 2;
  for (Index row = 0; row < x.size() / d; ++row) {
    const Index token = row / heads, in_row = token % sequence;
    const auto position = static_cast<double>(
        options.first_position + (positions.empty() ? in_row : positions[static_cast<std::size_t>(token)]));
    for (Index i = 0; i < half; ++i) {
      const double angle = position * kernel::rope_frequency(i, d, options.theta, options.scaling);
      const double a = x[row * d + i], b = x[row * d + i + half];
      y[row * d + i] = a * std::cos(angle) - b * std::sin(angle);
      y[row * d + i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return y;
}

template <class T, class P>
void check_rope(const auto& mesh, const RopeOptions& options = {}) {
  check([&](const auto& x) { return rope(x, options); },
        [&](const Dense& x) { return dense_rope(x, options); }, random<T, P>(mesh, {2, 5, 3, 4}, 1));
}

TEST_CASE("rope") {
  const auto mesh = line();
  check_rope<double, Replicate>(mesh);
  check_rope<double, Reduced>(mesh, {.theta = 500000, .scaling = RopeScaling{}});
  check_rope<double, Shard<0>>(mesh);
  check_rope<double, Shard<1>>(mesh);  // positions are global
  check_rope<double, Shard<1>>(
      mesh, {.theta = 50, .first_position = 254, .scaling = RopeScaling{RopeType::linear, 2}});
  check_rope<double, Shard<2>>(mesh);
  check_rope<double, Partial<>>(mesh);
  check_rope<Eigen::bfloat16, Shard<1>>(mesh);
  const auto two = grid();
  check([](const auto& x) { return rope(x); }, [](const Dense& x) { return dense_rope(x, {}); },
        random<double, Shard<1>, Shard<2>>(two, {2, 5, 3, 4}, 1));
}

template <class P, class Documents>
void check_rope_of_documents(const auto& mesh) {
  Dense numbers({2, 6});
  numbers.values = {4, 4, 4, 0, 0, -1, -3, 4, 0, 4, 4, 4};
  const auto documents = place<Tensor<std::int32_t, 2, Mesh<tp>, Documents>>(mesh, numbers);
  const RopeOptions options{.theta = 50, .first_position = 2};
  check([&](const auto& x) { return rope(x, documents, options); },
        [&](const Dense& x) {
          return dense_rope(x, options, {0, 1, 2, 0, 1, 0, 0, 0, 0, 0, 1, 2});
        },
        random<double, P>(mesh, {2, 6, 3, 4}, 1));
}

TEST_CASE("rope: positions begin anew in each document") {
  const auto mesh = line();
  check_rope_of_documents<Shard<0>, Shard<0>>(mesh);
  check_rope_of_documents<Shard<1>, Replicate>(mesh);
  check_rope_of_documents<Shard<2>, Reduced>(mesh);
  check_rope_of_documents<Partial<>, Replicate>(mesh);
}

TEST_CASE("rope: what it refuses") {
  const auto mesh = line();
  CHECK(message_of<std::invalid_argument>([&] {
          rope(random<double, Reduced>(mesh, {1, 2, 1, 4}, 1),
               random_ids<std::int32_t, Reduced>(mesh, {1, 3}, 2, 1));
        }) == "rope: the documents are [1 x 3], but x is [1 x 2 x 1 x 4]: they are numbers of its tokens");
  const auto refusal = [&](Index head_dim, const RopeOptions& options) {
    return message_of<std::invalid_argument>([&] {
      rope(random<double, Reduced>(mesh, {1, 2, 1, head_dim}, 1), options);
    });
  };
  CHECK(refusal(5, {}) == "rope: head_dim is 5, but it must be even: its numbers are turned in pairs");
  CHECK(refusal(4, {.theta = 0}) == "rope: theta is 0, but it must be positive");
  CHECK(refusal(4, {.first_position = -1}) == "rope: first_position is -1, but positions count from 0");
  CHECK(refusal(4, {.scaling = RopeScaling{.factor = -2}}) ==
        "rope: the scaling factor is -2, but it must be positive");
  CHECK(refusal(4, {.scaling = RopeScaling{.low_freq_factor = 4}}) ==
        "rope: low_freq_factor is 4, but it must be less than high_freq_factor, 4");
  CHECK(refusal(4, {.scaling = RopeScaling{.original_max_position_embeddings = 0}}) ==
        "rope: original_max_position_embeddings is 0, but it must be positive");
}

const auto gated = [](const auto& gate, const auto& up) { return swiglu(gate, up); };

Dense dense_swiglu(const Dense& gate, const Dense& up) {
  Dense y(gate.shape);
  for (Index i = 0; i < y.size(); ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return y;
}

template <class T, class P>
void check_swiglu(const auto& mesh) {
  check(gated, dense_swiglu, random<T, P>(mesh, {5, 7}, 1), random<T, P>(mesh, {5, 7}, 2));
}

TEST_CASE("swiglu") {
  const auto mesh = line();
  check_swiglu<double, Replicate>(mesh);
  check_swiglu<double, Reduced>(mesh);
  check_swiglu<double, Shard<0>>(mesh);
  check_swiglu<double, Shard<1>>(mesh);
  check_swiglu<Eigen::bfloat16, Shard<1>>(mesh);
  const auto gate = random<double, Shard<1>>(mesh, {5, 7}, 1), up = random<double, Shard<1>>(mesh, {5, 7}, 2);
  const Dense all_gate = gather(gate), all_up = gather(up);
  check([&](const auto& x) { return swiglu(x, alongside(up, x)); },
        [&](const Dense& x) { return dense_swiglu(x, all_up); }, gate);
  check([&](const auto& x) { return swiglu(alongside(gate, x), x); },
        [&](const Dense& x) { return dense_swiglu(all_gate, x); }, up);
  CHECK(message_of<std::invalid_argument>([&] {
          swiglu(gate, random<double, Shard<1>>(mesh, {5, 6}, 1));
        }) ==
        "swiglu: the operands [5 x 7] and [5 x 6] do not fit: dimension 1 of operand 0 has 7 elements, "
        "dimension 1 of operand 1 has 6");
}

template <class X, class P>
constexpr Reason why_norm = why_not<RmsNormOp, On1<3, X>, On1<1, P>>;
static_assert(why_norm<Shard<1>, Reduced> == Reason::none);
static_assert(why_norm<Shard<2>, Shard<0>> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_norm<Shard<1>, Replicate> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why_norm<Partial<>, Reduced> == Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_not<RmsNormOp, On1<0, Reduced>, On1<1, Reduced>> == Reason::operands_do_not_fit_in_rank);
static_assert(why_not<RopeOp, On1<4, Shard<3>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<RopeOp, On1<3, Reduced>> == Reason::operands_do_not_fit_in_rank);
static_assert(why_not<RopeOp, On1<4, Partial<Max>>> ==
              Reason::pending_maximum_or_minimum_must_be_reduced_first);
static_assert(why_not<SwigluOp, On1<2, Partial<>>, On1<2, Reduced>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_not<SwigluOp, On1<2, Shard<0>>, On1<2, Shard<1>>> ==
              Reason::operands_sharded_on_different_dimensions);
static_assert(why_not<SwigluOp, On1<2, Reduced>, On1<1, Reduced>> == Reason::operands_do_not_fit_in_rank);

}  // namespace
}  // namespace shardwise::testing::ops_llama
