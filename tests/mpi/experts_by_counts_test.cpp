// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Mixtures of experts whose tokens are exchanged by counts, against gathered tokens and against one rank.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/parallel/zero.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/reduce_gradients.hpp>

#include "module_check.hpp"
#include "ops_check.hpp"

namespace shardwise::testing::counted_experts {
namespace {

constexpr double tolerance = 3e-15;

template <class Style>
struct Make {
  Index features;
  MixtureOptions options;

  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return MixtureOfExperts<MeshType, Style, double>(mesh, features, options);
  }
};

/// Bytes of one kind, summed over all ranks.
template <class PlanType>
Index total(const PlanType& plan, Collective kind) {
  Index sum = 0;
  for (const auto& phase : plan.record().traffic) {
    for (const Traffic& cell : phase[static_cast<std::size_t>(kind)]) sum += cell.bytes;
  }
  world().all_reduce(&sum, &sum, 1, data_type<Index>, ReduceOp::sum);
  return sum;
}

/// The calls of both plans, of each kind, phase and set of axes.
template <class PlanType>
bool same_calls(const PlanType& a, const PlanType& b) {
  for (std::size_t phase = 0; phase < phases; ++phase) {
    for (std::size_t kind = 0; kind < collective_kinds; ++kind) {
      for (std::size_t axes = 0; axes < 1 << max_axes; ++axes) {
        if (a.record().traffic[phase][kind][axes].calls != b.record().traffic[phase][kind][axes].calls)
          return false;
      }
    }
  }
  return true;
}

/// A mixture with the style `Counts` on `mesh`, against `Gathered` there and against one rank. What it communicates is
/// what the plan says, but for bytes, of which the plan has a bound; and MPI sees what is recorded.
template <class Counts, class Gathered, MeshAxis... Axes, class Input, class WholeInput>
CommunicationPlan<Axes...> check(const Mesh<Axes...>& mesh, const MixtureOptions& options, Input input,
                                 WholeInput whole_input) {
  const Index features = input.shape[2];
  const RoundTrip counted(Make<Counts>{features, options}, input);
  const RoundTrip gathered(Make<Gathered>{features, options}, input);
  const RoundTrip dense(Make<NoParallel>{features, options}, whole_input);
  const auto planned = dry_plan(mesh, counted);
  CommunicationPlan<Axes...> recorded;
  {
    mpi_counter::reset();
    Recording recording(mesh);
    counted(mesh);
    recorded = recording.plan();
    if (mpi_counter::counting()) {
      const auto seen = seen_by_mpi(mesh);
      INFO(plan_table("recorded", recorded, "seen by MPI", seen));
      CHECK(same_traffic(recorded, seen));
      CHECK(recorded.record().sequence == seen.record().sequence);
    }
  }
  INFO(plan_table("planned", planned, "recorded", recorded));
  CHECK(same_calls(planned, recorded));
  CHECK(planned.record().flops == recorded.record().flops);
  CHECK(total(recorded, Collective::all_to_all) <= total(planned, Collective::all_to_all));
  for (const Collective kind : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
    CHECK(total(recorded, kind) == total(planned, kind));
  const Mesh<tp> own = alone();
  gathered(mesh);
  dense(own);
  const Outcome found = counted.outcome(), expected = gathered.outcome();
  check_outcome(found, dense.outcome());
  for (const auto& each : found) {
    INFO(each.first);
    CHECK(error(each.second, expected.at(each.first)) <= tolerance);
  }
  return recorded;
}
template <class Counts, class Gathered, class MeshType, class Input>
auto check(const MeshType& mesh, const MixtureOptions& options, Input input) {
  return check<Counts, Gathered>(mesh, options, input, Normal<Replicate>{input.shape});
}

using Counts = ExpertParallel<ep, by_counts>;
using Gathered = ExpertParallel<ep>;

constexpr MixtureOptions with_all{.experts = 6,
                                  .hidden = 3,
                                  .routing = {.k = 3,
                                              .scores = ScoreFunction::sigmoid,
                                              .scale = 2.5,
                                              .choice = {.groups = 3, .kept_groups = 2}},
                                  .shared_hidden = 5,
                                  .bias = true};

TEST_CASE("tokens exchanged by counts give what gathered tokens give") {
  const Mesh<ep> mesh(world(), {any});
  const std::string five = mesh.size() == 1 ? " / " : "all_to_all 5 / all_to_all 3";
  for (const Index k : {1, 2, 3}) {
    CAPTURE(k);
    CHECK(traffic(check<Counts, Gathered>(
              mesh, {.experts = 8, .hidden = 6, .routing = {.k = k, .normalized = k > 1}},
              Normal<Shard<0>>{{9, 3, 16}})) == five);
  }
  CHECK(traffic(check<Counts, Gathered>(mesh, {.experts = 63, .hidden = 3, .routing = {.k = 2}},
                                        Normal<Shard<1>>{{9, 5, 5}})) == five);
  CHECK(traffic(check<Counts, Gathered>(mesh, with_all, Normal<Shard<1>>{{2, 9, 7}})) == five);
  // Ranks without experts, and ranks without tokens.
  check<Counts, Gathered>(mesh, {.experts = 2, .hidden = 3, .routing = {.k = 2}},
                          Normal<Shard<0>>{{9, 2, 5}});
  check<Counts, Gathered>(mesh, {.experts = 5, .hidden = 3, .routing = {.k = 2}},
                          Normal<Shard<0>>{{2, 3, 5}});
  // Tokens that all ranks have are divided first.
  check<Counts, Gathered>(mesh, with_all, Normal<Replicate>{{3, 5, 7}});
  check<Counts, Gathered>(mesh, with_all, Normal<Shard<2>>{{3, 5, 7}});
  check<Counts, Gathered>(mesh, with_all, Constant<Shard<0>>{{3, 5, 7}}, Constant<Replicate>{{3, 5, 7}});
}

TEST_CASE("on two axes") {
  for (const auto& mesh : all_meshes<dp, ep>()) {
    check<Counts, Gathered>(mesh, with_all, Normal<Shard<0>, Shard<0>>{{5, 3, 7}});
    check<Styles<Zero<2, dp>, Counts>, Gathered>(mesh, with_all, Normal<Shard<0>, Shard<1>>{{5, 3, 7}});
    check<ExpertParallel<AxisList<dp, ep>, by_counts>, Gathered>(mesh, with_all,
                                                                 Normal<Shard<0>, Shard<0>>{{5, 3, 7}});
    check<Styles<ExpertParallel<dp>, Counts>, Gathered>(mesh, with_all,
                                                        Normal<Shard<0>, Shard<1>>{{5, 3, 7}});
  }
  using OverHidden = ExpertTensorParallel<tp>;
  for (const auto& mesh : all_meshes<tp, ep>()) {
    check<Styles<Counts, OverHidden>, Styles<Gathered, OverHidden>>(mesh, with_all,
                                                                    Normal<Replicate, Shard<0>>{{5, 3, 7}});
    check<Styles<Counts, OverHidden>, Styles<Gathered, OverHidden>>(mesh, with_all,
                                                                    Normal<Shard<1>, Shard<0>>{{3, 5, 7}});
  }
}

/// A mixture of k experts for each token, whose bias may send all tokens to the first k.
template <class Style>
struct Mixed {
  Mesh<ep> mesh;
  MixtureOfExperts<Mesh<ep>, Style, double> moe;

  explicit Mixed(const Mesh<ep>& on, Index k = 2)
      : mesh(on),
        moe(mesh, 5, {.experts = 8, .hidden = 3, .routing = {.k = k, .normalized = k > 1}, .bias = true}) {
    initialize(moe, 4);
  }
  /// The gradients after two micro-batches, and the results.
  Outcome operator()(bool all_to_one, bool again) {
    std::vector<double> bias(8, 0.);
    if (all_to_one) bias[0] = 99, bias[1] = 9;
    moe.bias->assign(distribute<Reduced>(mesh, Shape<1>{8}, std::span<const double>(bias)));
    Outcome all;
    for (const int batch : {0, 1}) {
      Tape tape;
      const auto x = tape.input(randn<double, Shard<0>>(mesh, {7, 3, 5}, static_cast<std::uint64_t>(batch)));
      const auto y = again ? recompute(moe, x) : moe(x);
      tape.backward(detail::whole_on_every_rank(sum(mul(y, y))));
      all.emplace("y" + std::to_string(batch), whole(y.value()));
      all.emplace("x" + std::to_string(batch), whole(x.gradient()));
    }
    reduce_gradients(moe);
    all.merge(gradients_of(moe));
    clear_gradients(moe);
    return all;
  }
};

TEST_CASE("all tokens to one expert or two, micro-batches, and recomputation") {
  const Mesh<ep> mesh(world(), {any});
  for (const Index k : {1, 2}) {
    Mixed<Counts> counted(mesh, k);
    Mixed<Gathered> gathered(mesh, k);
    for (const bool all_to_one : {true, false}) {
      CAPTURE(k);
      CAPTURE(all_to_one);
      const Outcome found = counted(all_to_one, false), expected = gathered(all_to_one, false);
      REQUIRE(found.size() == expected.size());
      for (const auto& each : found) {
        INFO(each.first);
        CHECK(error(each.second, expected.at(each.first)) <= tolerance);
      }
      CHECK(counted(all_to_one, true) == found);  // bit by bit
      CHECK(counted(all_to_one, false) == found);
    }
  }
}

TEST_CASE("an id that is not one of an expert is an error on all ranks") {
  const Mesh<ep> mesh(world(), {any});
  Mixed<Counts> mixed(mesh);
  const auto x = randn<double, Shard<0>>(mesh, {mesh.size(), 1, 5}, 1);
  const auto in = mixed.moe.take(x);
  auto routing = mixed.moe.route(in);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(2 * mesh.size()), 3);
  ids.back() = 8;
  routing.ids = distribute<Shard<0>>(mesh, Shape<3>{mesh.size(), 1, 2}, std::span<const std::int64_t>(ids));
  const std::string message = message_of<std::out_of_range>([&] { mixed.moe.mix(in, routing, x); });
  if (mesh.rank<ep>() == mesh.size() - 1) {
    CHECK(message ==
          "experts: id 8 at [" + std::to_string(mesh.size() - 1) + ", 0, 1] is not one of the 8 experts");
  } else {
    CHECK(message == "experts: rank " + std::to_string(mesh.size() - 1) + " of the " +
                         std::to_string(mesh.size()) +
                         " that share them has an id that is not one of the 8 experts");
  }
}

TEST_CASE("bytes beside gathered tokens") {
  const Mesh<ep> mesh(world(), {any});
  const MixtureOptions options{.experts = 16, .hidden = 8, .routing = {.k = 2}};
  const Normal<Shard<0>> input{{64, 8, 64}};
  const auto counted = check<Counts, Gathered>(mesh, options, input);
  const auto gathered = dry_plan(mesh, RoundTrip(Make<Gathered>{64, options}, input));
  const Index ranks = mesh.size();
  const double by_counts_bytes = static_cast<double>(total(counted, Collective::all_to_all)),
               gathered_bytes = static_cast<double>(total(gathered, Collective::all_gather) +
                                                    total(gathered, Collective::reduce_scatter));
  if (ranks == 1) return;
  const double ratio = by_counts_bytes / gathered_bytes;
  CAPTURE(ratio);
  // Counts, ids and weights are less than a tenth of 64 features.
  CHECK(ratio <= 1.1 * static_cast<double>(std::min<Index>(2, ranks)) / static_cast<double>(ranks));
}

}  // namespace
}  // namespace shardwise::testing::counted_experts
