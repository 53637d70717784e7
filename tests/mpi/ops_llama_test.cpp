// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `rms_norm`, `rope`, `cat_shared` and `swiglu`.

#include <shardwise/llm/models/rope.hpp>
#include <shardwise/ops/cat_shared.hpp>
#include <shardwise/ops/check_operation.hpp>
#include <shardwise/ops/rms_norm.hpp>
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

Dense dense_rope(const Dense& x, const llm::RopeOptions& options, const std::vector<Index>& positions = {}) {
  Dense y(x.shape);
  const Index sequence = x.extent(1), heads = x.extent(2), all = x.extent(3),
              d = options.dims > 0 ? options.dims : all, half = d / 2;
  const double factor = options.scaling ? options.scaling->amplitude() : 1;
  for (Index row = 0; row < x.size() / all; ++row) {
    const Index token = row / heads, in_row = token % sequence;
    const auto position = static_cast<double>(
        options.first_position + (positions.empty() ? in_row : positions[static_cast<std::size_t>(token)]));
    const Index first = row * all + all - d;
    for (Index i = row * all; i < first; ++i) y[i] = x[i];
    for (Index i = 0; i < half; ++i) {
      const double angle = position * llm::kernel::rope_frequency(i, d, options.theta, options.scaling);
      const Index at = first + (options.interleaved ? 2 * i : i),
                  beside = at + (options.interleaved ? 1 : half);
      y[at] = factor * (x[at] * std::cos(angle) - x[beside] * std::sin(angle));
      y[beside] = factor * (x[beside] * std::cos(angle) + x[at] * std::sin(angle));
    }
  }
  return y;
}

template <class T, class P>
void check_rope(const auto& mesh, const llm::RopeOptions& options = {}) {
  check([&](const auto& x) { return llm::rope(x, options); },
        [&](const Dense& x) { return dense_rope(x, options); }, random<T, P>(mesh, {2, 5, 3, 4}, 1));
}

TEST_CASE("rope") {
  const auto mesh = line();
  check_rope<double, Replicate>(mesh);
  check_rope<double, Reduced>(mesh, {.theta = 500000, .scaling = llm::RopeScaling{}});
  check_rope<double, Shard<0>>(mesh);
  check_rope<double, Shard<1>>(mesh);  // positions are global
  check_rope<double, Shard<1>>(
      mesh, {.theta = 50, .first_position = 254, .scaling = llm::RopeScaling{llm::RopeType::linear, 2}});
  check_rope<double, Shard<2>>(mesh);
  check_rope<double, Shard<2>>(mesh, {.dims = 2, .interleaved = true});
  check_rope<double, Shard<1>>(
      mesh, {.scaling = llm::RopeScaling{.rope_type = llm::RopeType::yarn}, .interleaved = true});
  check_rope<double, Partial<>>(mesh);
  check_rope<Eigen::bfloat16, Shard<1>>(mesh);
  const auto two = grid();
  check([](const auto& x) { return llm::rope(x); }, [](const Dense& x) { return dense_rope(x, {}); },
        random<double, Shard<1>, Shard<2>>(two, {2, 5, 3, 4}, 1));
}

template <class P, class Documents>
void check_rope_of_documents(const auto& mesh) {
  Dense numbers({2, 6});
  numbers.values = {0, 0, 0, 4, 4, -1, -3, 0, 1, 4, 4, 4};
  const auto documents = place<Tensor<std::int32_t, 2, Mesh<tp>, Documents>>(mesh, numbers);
  const llm::RopeOptions options{.theta = 50, .first_position = 2};
  check([&](const auto& x) { return llm::rope(x, documents, options); },
        [&](const Dense& x) {
          return dense_rope(x, options, {0, 1, 2, 0, 1, 0, 0, 0, 0, 0, 1, 2});
        },
        random<double, P>(mesh, {2, 6, 3, 4}, 1));
}

constexpr Index begins[] = {300, 0};

template <class P>
void check_rope_of_rows(const auto& mesh) {
  const llm::RopeOptions options{.theta = 50, .first_position = 2, .row_positions = begins};
  check([&](const auto& x) { return llm::rope(x, options); },
        [&](const Dense& x) {
          return dense_rope(x, options, {300, 301, 302, 0, 1, 2});
        },
        random<double, P>(mesh, {2, 3, 3, 4}, 1));
}

TEST_CASE("rope of rows that begin at different positions") {
  const auto mesh = line();
  check_rope_of_rows<Replicate>(mesh);
  check_rope_of_rows<Shard<0>>(mesh);
  check_rope_of_rows<Shard<1>>(mesh);
  check_rope_of_rows<Shard<2>>(mesh);
}

Dense dense_cat_shared(const Dense& x, const Dense& shared) {
  const Index heads = x.extent(2), own = x.extent(3), common = shared.extent(2);
  Dense y({x.extent(0), x.extent(1), heads, own + common});
  for (Index i = 0; i < y.size(); ++i) {
    const Index row = i / (own + common), at = i % (own + common);
    y[i] = at < own ? x[row * own + at] : shared[row / heads * common + at - own];
  }
  return y;
}

template <class T, class P, class Shared>
void check_cat_shared(const auto& mesh) {
  check([](const auto& x, const auto& shared) { return cat_shared(x, shared); }, dense_cat_shared,
        random<T, P>(mesh, {2, 5, 3, 4}, 1), random<T, Shared>(mesh, {2, 5, 2}, 2));
}

TEST_CASE("cat_shared: each head gets the numbers that all heads share") {
  const auto mesh = line();
  check_cat_shared<double, Replicate, Replicate>(mesh);
  check_cat_shared<double, Shard<1>, Shard<1>>(mesh);
  check_cat_shared<double, Shard<2>, Reduced>(mesh);
  check_cat_shared<double, Partial<>, Partial<>>(mesh);
  check_cat_shared<Eigen::bfloat16, Shard<2>, Reduced>(mesh);
  check_operation(mesh, CatSharedOp(), Shape<4>{2, 3, 2, 3}, Shape<3>{2, 3, 2});
  const auto x = random<double, Replicate>(mesh, {2, 3, 2, 4}, 1);
  CHECK_THROWS_WITH_AS(
      cat_shared(x, random<double, Replicate>(mesh, {2, 2, 4}, 1)),
      "cat_shared: x is [2 x 3 x 2 x 4], but what its heads share is [2 x 2 x 4]: they differ in "
      "batch or sequence",
      std::invalid_argument);
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
          llm::rope(random<double, Reduced>(mesh, {1, 2, 1, 4}, 1),
                    random_ids<std::int32_t, Reduced>(mesh, {1, 3}, 2, 1));
        }) == "rope: the documents are [1 x 3], but x is [1 x 2 x 1 x 4]: they are numbers of its tokens");
  const auto refusal = [&](Index head_dim, const llm::RopeOptions& options) {
    return message_of<std::invalid_argument>([&] {
      llm::rope(random<double, Reduced>(mesh, {1, 2, 1, head_dim}, 1), options);
    });
  };
  CHECK(refusal(5, {}) == "rope: head_dim is 5, but it must be even: its numbers are rotated in pairs");
  CHECK(refusal(5, {.dims = 3}) == "rope: dims is 3, but it must be even: its numbers are rotated in pairs");
  CHECK(refusal(4, {.dims = 6}) == "rope: dims is 6, but it must be 0 to head_dim, 4");
  CHECK(refusal(4, {.theta = 0}) == "rope: theta is 0, but it must be positive");
  CHECK(refusal(4, {.first_position = -1}) == "rope: first_position is -1, but positions count from 0");
  CHECK(refusal(4, {.row_positions = begins}) ==
        "rope: there are 2 row_positions, but x is [1 x 2 x 1 x 4]: one for each row");
  const Index before_begin[] = {-3};
  CHECK(refusal(4, {.row_positions = before_begin}) ==
        "rope: a row's position is -3, but positions count from 0");
  CHECK(message_of<std::invalid_argument>([&] {
          llm::rope(random<double, Reduced>(mesh, {1, 2, 1, 4}, 1),
                    random_ids<std::int32_t, Reduced>(mesh, {1, 2}, 2, 1), {.row_positions = before_begin});
        }) == "rope: row_positions are given, but positions restart in each document");
  CHECK(refusal(4, {.scaling = llm::RopeScaling{.factor = -2}}) ==
        "rope: the scaling factor is -2, but it must be positive");
  CHECK(refusal(4, {.scaling = llm::RopeScaling{.low_freq_factor = 4}}) ==
        "rope: low_freq_factor is 4, but it must be less than high_freq_factor, 4");
  CHECK(refusal(4, {.scaling = llm::RopeScaling{.original_max_position_embeddings = 0}}) ==
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
static_assert(why_not<llm::RopeOp, On1<4, Shard<3>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<llm::RopeOp, On1<3, Reduced>> == Reason::operands_do_not_fit_in_rank);
static_assert(why_not<llm::RopeOp, On1<4, Partial<Max>>> ==
              Reason::pending_maximum_or_minimum_must_be_reduced_first);
static_assert(why_not<SwigluOp, On1<2, Partial<>>, On1<2, Reduced>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_not<SwigluOp, On1<2, Shard<0>>, On1<2, Shard<1>>> ==
              Reason::operands_sharded_on_different_dimensions);
static_assert(why_not<SwigluOp, On1<2, Reduced>, On1<1, Reduced>> == Reason::operands_do_not_fit_in_rank);

}  // namespace
}  // namespace shardwise::testing::ops_llama
