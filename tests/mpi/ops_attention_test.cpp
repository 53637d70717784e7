// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `attention`: causal or not, grouped queries, sharded batch and heads.

#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/ops/attention.hpp>

#include "ops_check.hpp"

namespace shardwise::testing {
namespace {

const auto causal = [](const auto& q, const auto& k, const auto& v) { return attention(q, k, v); };
const auto full = [](const auto& q, const auto& k, const auto& v) {
  return attention(q, k, v, {.causal = false, .scale = 0.3});
};

Dense dense_attention(const Dense& q, const Dense& k, const Dense& v, bool is_causal, double scale) {
  Dense o(q.shape);
  const Index queries = q.extent(1), heads = q.extent(2), dim = q.extent(3);
  const Index keys = k.extent(1), kv_heads = k.extent(2);
  for (Index b = 0; b < q.extent(0); ++b) {
    for (Index i = 0; i < queries; ++i) {
      for (Index h = 0; h < heads; ++h) {
        const Index g = h / (heads / kv_heads), at = ((b * queries + i) * heads + h) * dim;
        const Index seen = is_causal ? i + 1 + keys - queries : keys;
        double sum = 0;
        for (Index j = 0; j < seen; ++j) {
          const Index at_kv = ((b * keys + j) * kv_heads + g) * dim;
          double score = 0;
          for (Index d = 0; d < dim; ++d) score += q[at + d] * k[at_kv + d];
          const double weight = std::exp(scale * score);
          sum += weight;
          for (Index d = 0; d < dim; ++d) o[at + d] += weight * v[at_kv + d];
        }
        for (Index d = 0; d < dim; ++d) o[at + d] /= sum;
      }
    }
  }
  return o;
}
Dense dense_causal(const Dense& q, const Dense& k, const Dense& v) {
  return dense_attention(q, k, v, true, 1 / std::sqrt(static_cast<double>(q.extent(3))));
}
Dense dense_full(const Dense& q, const Dense& k, const Dense& v) {
  return dense_attention(q, k, v, false, 0.3);
}

template <class T, class... P>
void check_both(const auto& mesh, Index batch, Index heads, Index kv_heads) {
  const auto q = random<T, P...>(mesh, {batch, 3, heads, 4}, 1);
  const auto k = random<T, P...>(mesh, {batch, 5, kv_heads, 4}, 2);
  const auto v = random<T, P...>(mesh, {batch, 5, kv_heads, 4}, 3);
  check(causal, dense_causal, q, k, v);
  check(full, dense_full, q, k, v);
}

TEST_CASE("attention") {
  const auto mesh = line();
  check_both<double, Replicate>(mesh, 2, 4, 4);
  check_both<double, Reduced>(mesh, 2, 4, 2);
  check_both<double, Shard<0>>(mesh, 5, 4, 2);
  check_both<double, Shard<2>>(mesh, 2, 5, 5);  // uneven
  check_both<double, Shard<2>>(mesh, 1, 3, 3);  // empty on the last of four
  check_both<double, Shard<2>>(mesh, 2, 2 * mesh.size(), mesh.size());
  check_both<Eigen::bfloat16, Shard<2>>(mesh, 2, 4, 4);
  const auto two = grid();
  check_both<double, Shard<0>, Shard<2>>(two, 3, 4 * two.size<tp>(), 2 * two.size<tp>());
}

/// Heads as in `Q`, key/value heads as in `KV`.
template <class T, class Q, class KV>
void check_shared(const auto& mesh, Index batch, Index heads, Index kv_heads) {
  const auto q = random<T, Q>(mesh, {batch, 3, heads, 4}, 1);
  const auto k = random<T, KV>(mesh, {batch, 5, kv_heads, 4}, 2),
             v = random<T, KV>(mesh, {batch, 5, kv_heads, 4}, 3);
  check(causal, dense_causal, q, k, v);
  check(full, dense_full, q, k, v);
}

TEST_CASE("attention: every rank holds all key/value heads") {
  const auto mesh = line();
  check_shared<double, Shard<2>, Reduced>(mesh, 2, 6, 3);  // blocks begin in the middle of a group
  check_shared<double, Shard<2>, Reduced>(mesh, 1, 5, 1);
  check_shared<double, Shard<2>, Reduced>(mesh, 1, 3, 3);  // the last of four ranks has no head
  check_shared<double, Shard<2>, Reduced>(mesh, 1, 2, 2);
  check_shared<Eigen::bfloat16, Shard<2>, Reduced>(mesh, 2, 6, 3);
  // <dp, tp> as <tp, kvr>: key/value heads over the first axis, copies of each over the second.
  const auto two = grid();
  const Index groups = two.size<dp>();
  const auto q = random<double, Shard<2>, Shard<2>>(two, {2, 3, 6 * groups, 4}, 1);
  const auto k = random<double, Shard<2>, Reduced>(two, {2, 3, 2 * groups, 4}, 2),
             v = random<double, Shard<2>, Reduced>(two, {2, 3, 2 * groups, 4}, 3);
  check(causal, dense_causal, q, k, v);
}

TEST_CASE("attention: key/value heads replicated over the wrong axis") {
  const auto mesh = grid();
  if (mesh.size() < 4) return;
  CHECK(message_of<std::invalid_argument>([&] {
          const auto k = random<double, Reduced, Shard<2>>(mesh, {1, 2, 2, 4}, 2);
          attention(random<double, Shard<2>, Shard<2>>(mesh, {1, 2, 8, 4}, 1), k, k);
        }) ==
        "attention: 8 heads and 2 key/value heads do not fit on dp 2 x tp 2: rank 1 there has heads 2 to 4, "
        "which "
        "need key/value heads 0 to 1, but it has 1 to 2; replicate the key/value heads (Reduced) along a "
        "mesh axis "
        "of its own, to the right of those that shard them");
}

TEST_CASE("attention: one wanted gradient is enough") {
  const auto mesh = line();
  const auto q = random<double, Shard<2>>(mesh, {1, 3, 4, 2}, 1),
             k = random<double, Shard<2>>(mesh, {1, 3, 4, 2}, 2);
  const Dense all_q = gather(q), all_k = gather(k);
  check([&](const auto& v) { return attention(q, k, v); },
        [&](const Dense& v) { return dense_causal(all_q, all_k, v); }, q);
  check([&](const auto& x) { return attention(x, k, q); },
        [&](const Dense& x) { return dense_causal(x, all_k, all_q); }, q);
}

TEST_CASE("attention: heads that cannot be shared out") {
  const auto mesh = line();
  auto with = [&](Index heads, Index kv_heads) {
    return message_of<std::invalid_argument>([&] {
      attention(random<double, Shard<2>>(mesh, {1, 2, heads, 4}, 1),
                random<double, Shard<2>>(mesh, {1, 2, kv_heads, 4}, 2),
                random<double, Shard<2>>(mesh, {1, 2, kv_heads, 4}, 3));
    });
  };
  const std::string axis = "tp " + std::to_string(mesh.size());
  CHECK(with(8, 3).find("attention: 8 heads are not a multiple of 3 key/value heads: q [1 x 2 x 8 x 4]") ==
        0);
  const bool fits = mesh.size() <= 2;
  CHECK(with(8, 2).empty() == fits);
  if (mesh.size() == 4) {
    CHECK(with(8, 2) ==
          "attention: 8 heads and 2 key/value heads do not fit on tp 4: rank 1 there has heads 2 to 4, which "
          "need key/value heads 0 to 1, but it has 1 to 2; replicate the key/value heads (Reduced) along a "
          "mesh "
          "axis of its own, to the right of those that shard them");
    CHECK(contains(with(4, 2),
                   "rank 1 there has heads 1 to 2, which need key/value heads 0 to 1, but it has 1 to 2"));
  }
  CHECK(with(2 * 5, 5).empty() == (mesh.size() == 1));
  CHECK(message_of<std::invalid_argument>([&] {
          const auto q = random<double, Replicate>(mesh, {1, 2, 4, 4}, 1);
          attention(q, random<double, Replicate>(mesh, {1, 2, 4, 3}, 1),
                    random<double, Replicate>(mesh, {1, 2, 4, 3}, 1));
        }) ==
        "attention: batch or head_dim differ between q and k: q [1 x 2 x 4 x 4], k [1 x 2 x 4 x 3], v [1 x 2 "
        "x 4 "
        "x 3]");
  CHECK(contains(message_of<std::invalid_argument>([&] {
                   const auto q = random<double, Replicate>(mesh, {1, 2, 4, 4}, 1);
                   attention(q, q, random<double, Replicate>(mesh, {1, 3, 4, 4}, 1));
                 }),
                 "attention: k and v differ in shape"));
}

template <class Q, class K = Q>
constexpr Reason why = why_not<AttentionOp, On1<4, Q>, On1<4, K>, On1<4, K>>;
static_assert(why<Shard<0>> == Reason::none && why<Shard<2>> == Reason::none);
static_assert(why<Shard<1>> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Shard<3>> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Shard<1>, Reduced> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Shard<2>, Reduced> == Reason::none);
static_assert(why<Shard<2>, Replicate> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why<Reduced, Shard<2>> == Reason::dimension_sharded_on_one_side_only);
static_assert(why<Shard<2>, Shard<0>> == Reason::operands_sharded_on_different_dimensions);
static_assert(why_not<AttentionOp, On1<4, Shard<2>>, On1<4, Shard<2>>, On1<4, Reduced>> ==
              Reason::dimension_sharded_on_one_side_only);
static_assert(why<Partial<>> == Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_not<AttentionOp, On1<3, Reduced>, On1<4, Reduced>, On1<4, Reduced>> ==
              Reason::operands_do_not_fit_in_rank);
template <class X>
concept Attends = requires(X x) {
  attention(x, x, x);
};
static_assert(Attends<On1<4, Shard<2>>> && !Attends<On1<4, Shard<1>>>);

/// Counted in the compiler: 8 heads over 4 ranks; only the causal half; nothing quadratic is kept.
constexpr auto plan = trace<DryMesh<tp>>({4}, [](auto mesh) {
  Tape tape;
  auto q = tape.input(empty<float, Shard<2>>(mesh, {2, 64, 8, 16}));
  auto k = tape.input(empty<float, Shard<2>>(mesh, {2, 64, 4, 16}));
  auto o = attention(q, k, k);
});
static_assert(plan.flops() == 2 * 2 * 64 * 2 * 16 * 64 && plan.collectives() == 0);
static_assert(plan.peak_activation_bytes() == (2 * 2 * 64 * 2 * 16 + 2 * 64 * 16) * 4 + 2 * 64 * 2 * 4);

}  // namespace
}  // namespace shardwise::testing
