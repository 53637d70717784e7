// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `attention`: causal or not, grouped queries, sharded batch and heads; and with a `KeyValueCache`, where a sequence in
/// pieces gives what the whole one gives.

#include <shardwise/llm/decoding/key_value_cache.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/attention.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

#include "ops_check.hpp"

namespace shardwise::testing {
namespace {

const auto causal = [](const auto& q, const auto& k, const auto& v) { return attention(q, k, v); };
const auto full = [](const auto& q, const auto& k, const auto& v) {
  return attention(q, k, v, {.causal = false, .scale = 0.3});
};

Dense dense_attention(const Dense& q, const Dense& k, const Dense& v, bool is_causal, double scale,
                      Index window = 1 << 20) {
  Dense o(q.shape);
  const Index queries = q.extent(1), heads = q.extent(2), dim = q.extent(3);
  const Index keys = k.extent(1), kv_heads = k.extent(2);
  for (Index b = 0; b < q.extent(0); ++b) {
    for (Index i = 0; i < queries; ++i) {
      for (Index h = 0; h < heads; ++h) {
        const Index g = h / (heads / kv_heads), at = ((b * queries + i) * heads + h) * dim;
        const Index position = i + keys - queries;
        double sum = 0;
        for (Index j = 0; j < keys; ++j) {
          if ((is_causal && j > position) || std::abs(j - position) >= window) continue;
          const Index at_kv = ((b * keys + j) * kv_heads + g) * dim;
          double score = 0;
          for (Index d = 0; d < dim; ++d) score += q[at + d] * k[at_kv + d];
          const double weight = std::exp(scale * score);
          sum += weight;
          for (Index d = 0; d < dim; ++d) o[at + d] += weight * v[at_kv + d];
        }
        for (Index d = 0; d < dim && sum > 0; ++d) o[at + d] /= sum;
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

TEST_CASE("attention: ranks have some of the queries, and all keys") {
  const auto mesh = line();
  check_shared<double, Shard<1>, Reduced>(mesh, 2, 4, 2);
  const auto two = grid();
  const auto q = random<double, Shard<1>, Shard<2>>(two, {2, 7, 2 * two.size<tp>(), 4}, 1);
  const auto k = random<double, Reduced, Shard<2>>(two, {2, 5, two.size<tp>(), 4}, 2),
             v = random<double, Reduced, Shard<2>>(two, {2, 5, two.size<tp>(), 4}, 3);
  check(full, dense_full, q, k, v);
  Recording recording(two);
  attention(random<double, Shard<1>, Replicate>(two, {2, 7, 2, 4}, 1),
            random<double, Reduced, Replicate>(two, {2, 7, 2, 4}, 2),
            random<double, Reduced, Replicate>(two, {2, 7, 2, 4}, 3));
  std::int64_t pairs = 0;
  const Range own = balanced_block(7, two.size<dp>(), two.coordinates()[0]);
  for (Index i = own.begin; i < own.end(); ++i) pairs += i + 1;
  CHECK(recording.plan().flops() == 4 * pairs * 2 * 2 * 4);
}

TEST_CASE("attention: a window") {
  const auto mesh = line();
  for (const Index window : {2, 4, 9}) {
    for (const bool is_causal : {true, false}) {
      const AttentionOptions options{.causal = is_causal, .window = window, .scale = 0.3};
      const auto some = [&](const auto& q, const auto& k, const auto& v) {
        return attention(q, k, v, options);
      };
      const auto dense = [&](const Dense& q, const Dense& k, const Dense& v) {
        return dense_attention(q, k, v, is_causal, 0.3, window);
      };
      const auto q = random<double, Shard<2>>(mesh, {1, 6, 5, 3}, 1),
                 k = random<double, Shard<2>>(mesh, {1, 8, 5, 3}, 2),
                 v = random<double, Shard<2>>(mesh, {1, 8, 5, 3}, 3);
      check(some, dense, q, k, v);
      check(some, dense, random<double, Shard<1>>(mesh, {1, 6, 2, 3}, 1),
            random<double, Reduced>(mesh, {1, 8, 2, 3}, 2), random<double, Reduced>(mesh, {1, 8, 2, 3}, 3));
    }
  }
}

TEST_CASE("attention: options out of range") {
  const auto q = random<double, Replicate>(line(), {1, 2, 4, 4}, 1);
  const auto with = [&](const AttentionOptions& options) {
    return message_of<std::invalid_argument>([&] { attention(q, q, q, options); });
  };
  CHECK(with({.window = 0}) == "attention: the window is 0, but a query sees at least its own position: 1");
  CHECK(with({.dropout = 1}) == "attention: the probability of dropout, 1, is not in [0, 1)");
}

TEST_CASE("attention: key/value heads replicated over the wrong axis") {
  const auto mesh = grid();
  if (mesh.size() != 4) return;
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
  check([&](const auto& v) { return attention(alongside(q, v), alongside(k, v), v); },
        [&](const Dense& v) { return dense_causal(all_q, all_k, v); }, q);
  check([&](const auto& x) { return attention(x, alongside(k, x), alongside(q, x)); },
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
  CHECK(with(2 * 5, 5).empty() == (5 % mesh.size() == 0));
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
                 "attention: k and v differ in more than head_dim"));
}

/// o, and the gradients of q, k and v where that of o is `d_o`, from whole matrices of weights. `documents`: [batch, keys],
/// or nothing.
struct DenseAttention {
  Dense o, q, k, v;

  DenseAttention(const Dense& at_q, const Dense& at_k, const Dense& at_v, const Dense& d_o,
                 const AttentionOptions& options, const Dense* documents)
      : o(at_q.shape), q(at_q.shape), k(at_k.shape), v(at_k.shape) {
    const Index queries = o.extent(1), heads = o.extent(2), keys = k.extent(1), kv_heads = k.extent(2);
    const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(o.extent(3)));
    std::vector<double> weight(static_cast<std::size_t>(keys)), kept(weight), slope(weight);
    for (Index row = 0; row < o.extent(0) * queries * heads; ++row) {
      const Index h = row % heads, i = row / heads % queries, b = row / heads / queries,
                  p = i + keys - queries;
      const auto dot = [&](const Dense& x, Index at, const Dense& y, Index at_y) {
        double sum = 0;
        for (Index c = 0; c < o.extent(3); ++c) sum += x[at * o.extent(3) + c] * y[at_y * o.extent(3) + c];
        return sum;
      };
      const auto add = [&](double factor, const Dense& x, Index at, Dense& y, Index at_y) {
        for (Index c = 0; c < o.extent(3); ++c) y[at_y * o.extent(3) + c] += factor * x[at * o.extent(3) + c];
      };
      const auto key = [&](Index j) { return (b * keys + j) * kv_heads + h / (heads / kv_heads); };
      const auto each = [&](auto f) {
        for (Index j = 0; j < keys; ++j) f(j, static_cast<std::size_t>(j));
      };
      double sum = 0, delta = 0;
      Index first = documents ? p : 0, last = documents ? p : keys - 1;  // of the document around p
      if (documents) {
        const auto number = [&](Index t) { return (*documents)[b * keys + t]; };
        while (first > 0 && number(first - 1) == number(p)) --first;
        while (last + 1 < keys && number(last + 1) == number(p)) ++last;
        if (number(p) < 0) last = first - 1;  // padding
      }
      each([&](Index j, std::size_t at) {
        const bool sees = j >= first && j <= last && !(options.causal && j > p) &&
                          !(options.window && std::abs(j - p) >= *options.window);
        weight[at] = sees ? std::exp(scale * dot(at_q, row, at_k, key(j))) : 0;
        sum += weight[at];
      });
      each([&](Index j, std::size_t at) {
        if (weight[at] == 0) return;
        weight[at] /= sum;
        kept[at] = 1;
        if (options.dropout > 0) {
          const Index index = ((b * heads + h) * keys + j) * queries + i;
          kept[at] = kernel::dropout_keeps(options.dropout, options.seed, static_cast<std::uint64_t>(index))
                         ? 1 / (1 - options.dropout)
                         : 0;
        }
        add(kept[at] * weight[at], at_v, key(j), o, row);
        add(kept[at] * weight[at], d_o, row, v, key(j));
        slope[at] = kept[at] * dot(d_o, row, at_v, key(j));
        delta += weight[at] * slope[at];
      });
      each([&](Index j, std::size_t at) {
        if (weight[at] == 0) return;
        const double gradient = scale * weight[at] * (slope[at] - delta);
        add(gradient, at_k, key(j), q, row);
        add(gradient, at_q, row, k, key(j));
      });
    }
  }
};

/// Rows of documents: one, many with padding between and behind, one and padding, only padding.
Dense document_numbers(Index batch, Index tokens) {
  Dense numbers({batch, tokens});
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < tokens; ++t) {
      double& number = numbers[b * tokens + t];
      if (b % 4 == 0) number = t < 7 ? 0 : t < 8 ? -1 : t < 8 + 33 ? 3 : t + 4 < tokens ? 9 : -1;
      if (b % 4 == 1) number = t < tokens / 2 ? 0 : -1;
      if (b % 4 == 2) number = t < 3 ? -1 : 5;
      if (b % 4 == 3) number = -2;
    }
  }
  return numbers;
}

template <class PQ, class PK, class PD>
void check_masks(const auto& mesh, Index batch, Index queries, Index keys, Index heads, Index kv_heads) {
  using Axes = std::remove_cvref_t<decltype(mesh)>;
  const Index head_dim = 7;
  const Dense q = random_dense({batch, queries, heads, head_dim}, 1),
              k = random_dense({batch, keys, kv_heads, head_dim}, 2),
              v = random_dense({batch, keys, kv_heads, head_dim}, 3),
              w = random_dense({batch, queries, heads, head_dim}, 4), numbers = document_numbers(batch, keys);
  using Q = Tensor<double, 4, Axes, PQ>;
  using K = Tensor<double, 4, Axes, PK>;
  const auto documents = place<Tensor<std::int32_t, 2, Axes, PD>>(mesh, numbers);
  for (int combination = 0; combination < 16; ++combination) {
    CAPTURE(combination);
    AttentionOptions options{.causal = combination % 2 == 0, .seed = 8};
    if (combination & 2) options.window = 5;
    if (combination & 4) options.dropout = 0.3;
    const bool packed = combination & 8;
    if (packed && queries > keys) continue;
    const DenseAttention expected(q, k, v, w, options, packed ? &numbers : nullptr);
    Tape tape;
    const auto vq = tape.input(place<Q>(mesh, q));
    const auto vk = tape.input(place<K>(mesh, k)), vv = tape.input(place<K>(mesh, v));
    const auto o = packed ? attention(vq, vk, vv, documents, options) : attention(vq, vk, vv, options);
    static_assert(std::is_same_v<typename decltype(o)::TensorOf, Q>);
    tape.backward(redistribute<tp, Replicate>(sum(mul(o, tape.constant(place<Q>(mesh, w))))));
    CHECK(difference(gather(o.value()), expected.o) <= 1e-13);
    CHECK(difference(gather(vq.gradient()), expected.q) <= 1e-12);
    CHECK(difference(gather(vk.gradient()), expected.k) <= 1e-12);
    CHECK(difference(gather(vv.gradient()), expected.v) <= 1e-12);
  }
}

TEST_CASE("attention: all masks and their combinations") {
  const auto mesh = line();
  for (const auto& lengths : {std::pair<Index, Index>{61, 61}, {37, 61}, {61, 37}, {1, 61}, {1, 1}}) {
    const Index queries = lengths.first, keys = lengths.second;
    CAPTURE(queries);
    CAPTURE(keys);
    check_masks<Shard<2>, Shard<2>, Replicate>(mesh, 4, queries, keys, 7, 7);
    check_masks<Shard<2>, Reduced, Reduced>(mesh, 3, queries, keys, 6, 3);
    check_masks<Shard<1>, Reduced, Replicate>(mesh, 3, queries, keys, 4, 2);
    check_masks<Shard<0>, Shard<0>, Shard<0>>(mesh, 5, queries, keys, 4, 2);
  }
  check_masks<Shard<2>, Shard<2>, Replicate>(mesh, 1, 301, 301, 5, 5);  // many blocks of keys
}

TEST_CASE("attention: numbers that are not of documents") {
  const auto mesh = line();
  const auto q = random<double, Replicate>(mesh, {1, 4, 4, 4}, 1);
  CHECK(
      message_of<std::invalid_argument>([&] {
        const std::array<std::int32_t, 4> tokens{1, 5, -1, 4};
        attention(q, q, q,
                  distribute<Replicate>(mesh, Shape<2>{1, 4}, std::span<const std::int32_t>(tokens)));
      }) ==
      "documents: row 0 of this rank has 4 at token 3, after 5: documents are numbered in the order of their "
      "tokens, and padding is negative");
}

TEST_CASE("attention: documents of another shape") {
  const auto mesh = line();
  const auto q = random<double, Replicate>(mesh, {2, 3, 4, 4}, 1);
  CHECK(message_of<std::invalid_argument>([&] {
          attention(q, q, q, random_ids<std::int32_t, Replicate>(mesh, {2, 4}, 3, 1));
        }) ==
        "attention: the documents are [2 x 4], but q is [2 x 3 x 4 x 4] and k [2 x 3 x 4 x 4]: they are "
        "numbers of the "
        "keys' tokens, of which the last are the queries'");
}

template <class Q, class K = Q>
constexpr Reason why = why_not<AttentionOp, On1<4, Q>, On1<4, K>, On1<4, K>>;
static_assert(why<Shard<0>> == Reason::none && why<Shard<2>> == Reason::none);
static_assert(why<Shard<1>> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Shard<3>> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Shard<1>, Reduced> == Reason::none);  // queries
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
/// Documents are cut as the batch is, and whole otherwise.
template <class Q, class Documents, class Id = std::int64_t>
constexpr Reason why_documents = why_not<AttentionOp, On1<4, Q>, On1<4, Q>, On1<4, Q>, On1<2, Documents, Id>>;
static_assert(why_documents<Shard<2>, Replicate> == Reason::none);
static_assert(why_documents<Shard<2>, Reduced> == Reason::none);
static_assert(why_documents<Shard<0>, Shard<0>> == Reason::none);
static_assert(why_documents<Shard<0>, Replicate> == Reason::dimension_sharded_on_one_side_only);
static_assert(why_documents<Reduced, Shard<1>> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_documents<Reduced, Reduced, float> == Reason::operand_must_hold_integers);
template <class X>
concept Attends = requires(X x) {
  attention(x, x, x);
};
static_assert(Attends<On1<4, Shard<2>>> && !Attends<On1<4, Shard<1>>>);

/// Counted in the compiler: 8 heads over 4 ranks; only the causal half; nothing quadratic is kept.
constexpr auto plan = trace<Mesh<tp>>({4}, [](auto mesh) {
  Tape tape;
  auto q = tape.input(empty<float, Shard<2>>(mesh, {2, 64, 8, 16}));
  auto k = tape.input(empty<float, Shard<2>>(mesh, {2, 64, 4, 16}));
  auto o = attention(q, k, k);
});
static_assert(plan.flops() == 2 * 2 * 64 * 2 * 16 * (64 + 1) && plan.collectives() == 0);
static_assert(plan.peak_activation_bytes() == (2 * 2 * 64 * 2 * 16 + 2 * 64 * 16) * 4 + 2 * 64 * 2 * 4);

/// Tokens [first, first + count) of [batch, tokens, heads, head_dim].
Dense tokens(const Dense& x, Index first, Index count) {
  Dense piece({x.extent(0), count, x.extent(2), x.extent(3)});
  const Index token = x.extent(2) * x.extent(3);
  for (Index b = 0; b < x.extent(0); ++b) {
    for (Index i = 0; i < count * token; ++i) {
      piece[b * count * token + i] = x[(b * x.extent(1) + first) * token + i];
    }
  }
  return piece;
}

/// A prompt of five tokens, then two, then one after the other.
template <class Q, class K>
void check_pieces(const typename Q::MeshOf& mesh, Index heads, Index kv_heads, Index head_dim) {
  const Index batch = 3, total = 11;
  const Dense q = random_dense({batch, total, heads, head_dim}, 1),
              k = random_dense({batch, total, kv_heads, head_dim}, 2),
              v = random_dense({batch, total, kv_heads, head_dim}, 3);
  const Dense whole = gather(attention(place<Q>(mesh, q), place<K>(mesh, k), place<K>(mesh, v)));
  llm::KeyValueCache<K> cache(mesh, batch, total + 1, kv_heads, head_dim);
  CHECK(cache.capacity() == total + 1);
  for (int round = 0; round < 2; ++round) {
    CHECK(cache.length() == 0);
    for (Index first = 0, count = 5; first < total; first += count, count = first == 5 ? 2 : 1) {
      CAPTURE(first);
      Recording recording(mesh);
      cache.append(place<K>(mesh, tokens(k, first, count)), place<K>(mesh, tokens(v, first, count)));
      const auto o = attention(place<Q>(mesh, tokens(q, first, count)), cache);
      CHECK(recording.plan().collectives() == 0);
      static_assert(std::is_same_v<decltype(o), const Q>);
      CHECK(cache.length() == first + count);
      const bool exact = std::is_same_v<typename Q::Element, double>;
      CHECK(difference(gather(o), tokens(whole, first, count)) <= (exact ? 1e-14 : 1e-2));
    }
    cache.clear();
  }
}

template <class T, class... P>
using Heads = Tensor<T, 4, Mesh<tp>, P...>;

TEST_CASE("the key/value cache agrees with attention over the whole sequence") {
  const auto mesh = line();
  const Index ranks = mesh.size();
  check_pieces<Heads<double, Replicate>, Heads<double, Replicate>>(mesh, 4, 2, 8);
  check_pieces<Heads<double, Shard<0>>, Heads<double, Shard<0>>>(mesh, 4, 2, 3);
  check_pieces<Heads<double, Shard<2>>, Heads<double, Shard<2>>>(mesh, 3 * ranks, ranks, 8);
  check_pieces<Heads<double, Shard<2>>, Heads<double, Shard<2>>>(mesh, 5, 5, 4);
  check_pieces<Heads<double, Shard<2>>, Heads<double, Reduced>>(mesh, 6, 3, 8);
  check_pieces<Heads<Eigen::bfloat16, Shard<2>>, Heads<Eigen::bfloat16, Reduced>>(mesh, 6, 3, 16);
  using Two = Mesh<dp, tp>;
  const auto two = grid();
  check_pieces<Tensor<double, 4, Two, Shard<2>, Shard<2>>, Tensor<double, 4, Two, Shard<2>, Reduced>>(
      two, 6 * two.size<dp>(), 2 * two.size<dp>(), 16);
}

TEST_CASE("options reach attention to a cache") {
  const auto mesh = line();
  const auto q = random<double, Reduced>(mesh, {1, 4, 2, 8}, 1),
             k = random<double, Reduced>(mesh, {1, 3, 2, 8}, 2);
  llm::KeyValueCache<On1<4, Reduced>> cache(mesh, 1, 9, 2, 8);
  cache.append(k, k);
  const AttentionOptions options{.causal = false, .scale = 0.2};
  CHECK(difference(gather(attention(q, cache, options)), gather(attention(q, k, k, options))) <= 1e-14);
}

TEST_CASE("rows of different lengths: each attends to its own tokens, wherever it lies") {
  const auto mesh = line();
  const Index heads = 2 * mesh.size();
  using K = On1<4, Shard<2>>;
  const auto part = [&](Index sequence, Index first, Index count, std::uint64_t what) {
    const Dense all = random_dense({1, 9, heads, 4}, 10 * what + static_cast<std::uint64_t>(sequence));
    return tokens(all, first, count);
  };
  llm::KeyValueCache<K> cache(mesh, 4, 9, heads, 4);
  const Index lengths[] = {5, 1, 8}, rows[] = {2, 0, 3};
  for (std::size_t s = 0; s < 3; ++s) {
    cache.select(std::array{rows[s]});
    const auto of = [&](std::uint64_t what) {
      return place<K>(mesh, part(static_cast<Index>(s), 0, lengths[s], what));
    };
    cache.append(of(1), of(2));
  }
  CHECK(cache.length(1) == 0);
  cache.select(rows);
  CHECK(cache.positions() == std::vector<Index>{5, 1, 8});
  const auto next = [&](std::uint64_t what) {
    Dense all({3, 1, heads, 4});
    for (Index s = 0; s < 3; ++s) {
      const Dense one = part(s, lengths[s], 1, what);
      for (Index i = 0; i < one.size(); ++i) all[s * one.size() + i] = one[i];
    }
    return place<K>(mesh, all);
  };
  cache.append(next(1), next(2));
  for (const std::optional<Index> window : {std::optional<Index>(), std::optional<Index>(4)}) {
    const Dense together = gather(attention(next(3), cache, {.window = window}));
    for (Index s = 0; s < 3; ++s) {
      const Index length = lengths[s] + 1;
      const auto of = [&](Index first, std::uint64_t what) {
        return place<K>(mesh, part(s, first, length - first, what));
      };
      const Dense alone = gather(attention(of(length - 1, 3), of(0, 1), of(0, 2), {.window = window}));
      for (Index i = 0; i < alone.size(); ++i)
        CHECK(std::abs(together[s * alone.size() + i] - alone[i]) <= 1e-14);
    }
  }
}

TEST_CASE("what the key/value cache refuses") {
  const auto mesh = line();
  using K = On1<4, Reduced>;
  llm::KeyValueCache<K> cache(mesh, 2, 4, 1, 8);
  const auto three = random<double, Reduced>(mesh, {2, 3, 1, 8}, 1),
             two = random<double, Reduced>(mesh, {2, 2, 1, 8}, 1);
  cache.append(three, three);
  CHECK(message_of<std::length_error>([&] { cache.append(two, two); }) ==
        "KeyValueCache: 2 more tokens do not fit: row 0 holds 3 of at most 4");
  CHECK(message_of<std::invalid_argument>([&] { cache.append(three, two); }) ==
        "KeyValueCache: k is [2 x 3 x 1 x 8] and v [2 x 2 x 1 x 8], but the cache takes [2 x 3 x 1 x 8] and "
        "[2 x 3 x 1 x 8]");
  CHECK(message_of<std::invalid_argument>([&] {
          const auto other = random<double, Reduced>(mesh, {2, 1, 2, 8}, 1);
          cache.append(other, other);
        }) ==
        "KeyValueCache: k is [2 x 1 x 2 x 8] and v [2 x 1 x 2 x 8], but the cache takes [2 x 1 x 1 x 8] and "
        "[2 x 1 x 1 x 8]");
  CHECK(message_of<std::invalid_argument>([&] {
          const Mesh<tp> other(world(), {any});
          const auto k = random<double, Reduced>(other, {2, 1, 1, 8}, 1);
          cache.append(k, k);
        }) == "KeyValueCache: k or v lives on another mesh than the cache");
  CHECK(cache.length() == 3);
  CHECK(message_of<std::invalid_argument>([&] {
          attention(random<double, Shard<2>>(mesh, {2, 4, 3, 8}, 1), cache);
        }) == "attention: q has 4 tokens, but row 0 of the cache only 3: append their keys and values first");
  CHECK(contains(message_of<std::invalid_argument>([&] {
                   attention(random<double, Shard<2>>(mesh, {1, 1, 3, 8}, 1), cache);
                 }),
                 "attention: batch or head_dim differ between q and k"));
}

template <class K>
concept Cachable = std::is_constructible_v<llm::KeyValueCache<K>, Mesh<tp>, Index, Index, Index, Index>;
static_assert(Cachable<On1<4, Shard<2>>> && Cachable<On1<4, Reduced>> && Cachable<On1<4, Shard<0>>>);
static_assert(!Cachable<On1<4, Shard<1>>> && !Cachable<On1<4, Partial<>>> && !Cachable<On1<3, Reduced>>);
static_assert(!std::is_copy_constructible_v<llm::KeyValueCache<On1<4, Reduced>>>);
template <class Q, class K>
concept AttendsCache = requires(Q q, const llm::KeyValueCache<K>& cache) {
  attention(q, cache);
};
static_assert(AttendsCache<On1<4, Shard<2>>, On1<4, Reduced>> &&
              !AttendsCache<On1<4, Reduced>, On1<4, Shard<2>>>);

/// Counted in the compiler: the last of four tokens, then one more, 2 of 8 heads on this rank.
constexpr auto plan_of_cache = trace<Mesh<tp>>({4}, [](auto mesh) {
  llm::KeyValueCache<Tensor<float, 4, decltype(mesh), Reduced>> cache(mesh, 2, 8, 2, 16);
  const auto prompt = empty<float, Reduced>(mesh, {2, 4, 2, 16}),
             token = empty<float, Reduced>(mesh, {2, 1, 2, 16});
  cache.append(prompt, prompt);
  cache.append(token, token);
  attention(empty<float, Shard<2>>(mesh, {2, 1, 8, 16}), cache);
});
static_assert(plan_of_cache.flops() == 4 * 5 * 2 * 2 * 16 && plan_of_cache.collectives() == 0);

}  // namespace
}  // namespace shardwise::testing
