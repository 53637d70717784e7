// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `KeyValueCache`: a sequence in pieces gives what the whole one gives.

#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/ops/key_value_cache.hpp>

#include "ops_check.hpp"

namespace shardwise::testing {
namespace {

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
  KeyValueCache<K> cache(mesh, batch, total + 1, kv_heads, head_dim);
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
  KeyValueCache<On1<4, Reduced>> cache(mesh, 1, 9, 2, 8);
  cache.append(k, k);
  const AttentionOptions options{.causal = false, .scale = 0.2};
  CHECK(difference(gather(attention(q, cache, options)), gather(attention(q, k, k, options))) <= 1e-14);
}

TEST_CASE("what the key/value cache refuses") {
  const auto mesh = line();
  using K = On1<4, Reduced>;
  KeyValueCache<K> cache(mesh, 2, 4, 1, 8);
  const auto three = random<double, Reduced>(mesh, {2, 3, 1, 8}, 1),
             two = random<double, Reduced>(mesh, {2, 2, 1, 8}, 1);
  cache.append(three, three);
  CHECK(message_of<std::length_error>([&] { cache.append(two, two); }) ==
        "KeyValueCache: 2 more tokens do not fit: it holds 3 of at most 4");
  CHECK(message_of<std::invalid_argument>([&] { cache.append(three, two); }) ==
        "KeyValueCache: k is [2 x 3 x 1 x 8] and v [2 x 2 x 1 x 8], but the cache takes [2 x 3 x 1 x 8]");
  CHECK(message_of<std::invalid_argument>([&] {
          const auto other = random<double, Reduced>(mesh, {2, 1, 2, 8}, 1);
          cache.append(other, other);
        }) ==
        "KeyValueCache: k is [2 x 1 x 2 x 8] and v [2 x 1 x 2 x 8], but the cache takes [2 x 1 x 1 x 8]");
  CHECK(message_of<std::invalid_argument>([&] {
          const Mesh<tp> other(world(), {any});
          const auto k = random<double, Reduced>(other, {2, 1, 1, 8}, 1);
          cache.append(k, k);
        }) == "KeyValueCache: k or v lives on another mesh than the cache");
  CHECK(cache.length() == 3);
  CHECK(message_of<std::invalid_argument>([&] {
          attention(random<double, Shard<2>>(mesh, {2, 4, 3, 8}, 1), cache);
        }) == "attention: q has 4 tokens, but the cache only 3: append their keys and values first");
  CHECK(contains(message_of<std::invalid_argument>([&] {
                   attention(random<double, Shard<2>>(mesh, {1, 1, 3, 8}, 1), cache);
                 }),
                 "attention: batch or head_dim differ between q and k"));
}

template <class K>
concept Cachable = std::is_constructible_v<KeyValueCache<K>, Mesh<tp>, Index, Index, Index, Index>;
static_assert(Cachable<On1<4, Shard<2>>> && Cachable<On1<4, Reduced>> && Cachable<On1<4, Shard<0>>>);
static_assert(!Cachable<On1<4, Shard<1>>> && !Cachable<On1<4, Partial<>>> && !Cachable<On1<3, Reduced>>);
static_assert(!std::is_copy_constructible_v<KeyValueCache<On1<4, Reduced>>>);
template <class Q, class K>
concept Attends = requires(Q q, const KeyValueCache<K>& cache) {
  attention(q, cache);
};
static_assert(Attends<On1<4, Shard<2>>, On1<4, Reduced>> && !Attends<On1<4, Reduced>, On1<4, Shard<2>>>);

/// Counted in the compiler: the last of four tokens, then one more, 2 of 8 heads on this rank.
constexpr auto plan = trace<DryMesh<tp>>({4}, [](auto mesh) {
  KeyValueCache<Tensor<float, 4, decltype(mesh), Reduced>> cache(mesh, 2, 8, 2, 16);
  const auto prompt = empty<float, Reduced>(mesh, {2, 4, 2, 16}),
             token = empty<float, Reduced>(mesh, {2, 1, 2, 16});
  cache.append(prompt, prompt);
  cache.append(token, token);
  attention(empty<float, Shard<2>>(mesh, {2, 1, 8, 16}), cache);
});
static_assert(plan.flops() == 2 * (2 * 5 - 1) * 2 * 2 * 16 && plan.collectives() == 0);

}  // namespace
}  // namespace shardwise::testing
