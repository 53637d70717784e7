// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Sequences of all lengths that are sharded from end to end, with documents, windows and grouped heads: results and gradients
/// of one rank, by every style; and that a causal ring shares its work evenly, as counted, as recorded, and by the blocks that
/// the kernel computes.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/ring_attention.hpp>
#include <shardwise/parallel/context_parallel.hpp>
#include <shardwise/tensor/distribute.hpp>

#include <vector>

#include "module_check.hpp"

namespace shardwise::testing::context_lengths {
namespace {

struct Sight {
  Index length;
  bool documents;
  std::optional<Index> window;
  Index group = 2;  ///< heads of a key/value head
};

template <class Inner>
using With = PlanAnd<llm::LlamaPlan<NoParallel, NoParallel, NoParallel, NoParallel>,
                     Use<"layers.*.attention.inner_attention", Inner>>;

/// A Llama's attention, of two rows.
template <class MeshType, class Inner>
struct Seeing : Module<Seeing<MeshType, Inner>> {
  using Plan = PlanBelow<PlanBelow<With<Inner>, "layers.*">, "attention">;

  Seeing(const MeshType& mesh, const Sight& its_sight, Index kv_heads)
      : attention(mesh, {.features = 6,
                         .heads = its_sight.group * kv_heads,
                         .kv_heads = kv_heads,
                         .head_dim = 4,
                         .window = its_sight.window,
                         .deviation = 0.5}),
        sight(its_sight) {}
  constexpr auto forward(const auto& x) const {
    if (!sight.documents) return attention(x);
    std::vector<std::int32_t> numbers;
    for (Index i = 0; i < 2 * sight.length; ++i) {
      const Index row = i / sight.length, at = i % sight.length;
      numbers.push_back(at + 2 >= sight.length && at > 3 ? -1 : at > sight.length / 2 ? 2 : at > 2 * row);
    }
    return attention(x, distribute<Replicate>(x.value().mesh(), Shape<2>{2, sight.length},
                                              std::span<const std::int32_t>(numbers)));
  }
  constexpr void visit(auto&& f) { attention.visit(f); }

  llm::LlamaAttention<MeshType, Plan, double> attention;
  Sight sight;
};
template <class Inner>
struct Make {
  Sight sight;
  Index kv_heads;
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return Seeing<MeshType, Inner>(mesh, sight, kv_heads);
  }
};

template <class... Inner>
void check_styles(const Sight& sight) {
  CAPTURE(sight.length);
  CAPTURE(sight.documents);
  CAPTURE(sight.window.value_or(0));
  const Mesh<cp> mesh(world(), {any});
  const Index kv_heads = world().size();
  const Shape<3> shape{2, sight.length, 6};
  const RoundTrip dense(Make<NoParallel>{sight, kv_heads}, Normal<Replicate>{shape});
  const Mesh<tp> own = alone();
  dense(own);
  const Outcome expected = dense.outcome();
  const auto check = [&](auto make) {
    const RoundTrip parallel(make, Normal<Shard<1>>{shape});
    agreed_plan(mesh, parallel);
    check_outcome(parallel.outcome(), expected);
  };
  (check(Make<Inner>{sight, kv_heads}), ...);
}

/// Pairs of a query and a key that the kernel computes: of each block of queries, all keys from the first seen to the last.
std::int64_t computed_pairs(int ranks, int rank, Index length) {
  constexpr Layout lies = layout_of<Shard<1>>;
  const detail::RingSteps steps({ranks}, {rank}, 0, length, lies, length, lies, {});
  const Range block = balanced_block(length, ranks, rank);
  const View<const double, 4> x{nullptr, {1, block.size, 1, 4}, {0, block.begin, 0, 0}, {1, length, 1, 4}};
  const detail::RingPart<double, detail::Nothing> part{{}, steps, x, x, {}};
  std::int64_t pairs = 0;
  for (int step = 0; step < ranks; ++step) {
    part.for_ranges(step, [&](const kernel::AttentionShape& shape, const auto&) {
      kernel::detail::for_query_blocks(shape, 0, 0, [&](const kernel::detail::QueryBlock& queries) {
        pairs += queries.rows() * kernel::detail::SeenKeys(shape, queries).any.size;
      });
    });
  }
  return pairs;
}

}  // namespace

TEST_CASE("all lengths, documents, windows, grouped heads") {
  for (const Index length : {1, 7, 13, 64}) {
    for (const bool documents : {false, true}) {
      for (const std::optional<Index> window : {std::optional<Index>(), {5}, {length / 2 + 2}}) {
        check_styles<GatherKeys<cp>, Ulysses<cp>, Ring<cp>>({length, documents, window});
      }
    }
  }
}

TEST_CASE("long sequences" * doctest::test_suite("MPI")) {
  check_styles<GatherKeys<cp>, Ulysses<cp>, Ring<cp>>({2048, false, {}, 1});
  check_styles<GatherKeys<cp>, Ulysses<cp>, Ring<cp>>({2999, true, 1700, 1});
}

TEST_CASE("a causal ring is the same work for all ranks") {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    CAPTURE(ranks);
    const Index length = 2 * ranks * 128;
    double all = 0, most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto own = static_cast<double>(computed_pairs(ranks, rank, length));
      all += own;
      most = std::max(most, own);
    }
    CHECK(all >= static_cast<double>(length * (length + 1) / 2));
    CHECK(most <= 1.01 * all / ranks);
  }
  // Of a step on this job's ranks.
  const Mesh<cp> mesh(world(), {any});
  const int ranks = world().size();
  using QKV = Tensor<double, 4, Mesh<cp>, Shard<1>>;
  const QKV x = randn<double, Shard<1>>(mesh, {1, 2 * ranks * 64, 1, 4}, 1);
  Recording recording(mesh);
  Tape tape;
  const auto y = RingAttention<cp>()(tape.input(x), tape.input(x), tape.input(x));
  arrive(tape, y, cotangent_of<QKV>(y.value()));
  go_back(tape, mesh);
  const std::int64_t own = recording.plan().flops();
  std::int64_t all = 0, most = 0;
  world().all_reduce(&own, &all, 1, DataType::i64, ReduceOp::sum);
  world().all_reduce(&own, &most, 1, DataType::i64, ReduceOp::max);
  CHECK(own > 0);
  CHECK(100 * most * ranks <= 101 * all);
}

}  // namespace shardwise::testing::context_lengths
