// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A plan's entry that matches nothing
// thread: pytorch/pytorch #157182
// thread: huggingface/transformers #37893
// there: A plan had an entry for a module that the model does not have. The entry was ignored, with a warning at most, and the intended module stayed whole on every rank.
// here: does not compile
// expect: LayoutError<Reason::plan_names_an_unknown_module, Expected<Name<down>>, Got<Name<donw>>, Cure<Hint::use_the_name_in_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/plan_problem.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
using Ranks = Mesh<tp>;
using Input = Tensor<float, 2, Ranks, Replicate>;

template <class PlanType>
struct FeedForward : Module<FeedForward<PlanType>> {
  static constexpr std::array modules{ModuleName{"up", ModuleKind::linear},
                                      ModuleName{"down", ModuleKind::linear}};
  using Problem = plan_problem<Ranks, PlanType, modules>;

  explicit FeedForward(const Ranks& mesh) requires WellFormed<Problem> : up(mesh, 4, 6), down(mesh, 6, 4) {}
  template <IllFormed Why = Problem>
  explicit FeedForward(const Ranks&) = delete;
  auto forward(const auto& x) const { return down(up(x)); }
  void visit(auto&& f) { f("up", up), f("down", down); }

  Linear<Ranks, style_of<PlanType, "up">> up;
  Linear<Ranks, style_of<PlanType, "down">> down;
};

#ifdef SHOULD_FAIL
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"donw", RowwiseParallel<tp>>>;
auto make(const Ranks& mesh) { return FeedForward<Parallel>(mesh); }
#else
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;
using Whole = Plan<Use<"up", NoParallel>, Use<"down", NoParallel>>;

TEST_CASE("a model does not depend on its plan") {
  const Ranks mesh(world(), {any});
  FeedForward<Parallel> parallel(mesh);
  FeedForward<Whole> whole(mesh);
  initialize(parallel, 1);
  initialize(whole, 1);
  const Input x = full<float, Replicate>(mesh, {3, 4}, 1.F);
  CHECK(full_tensor(parallel(x)).isApprox(full_tensor(whole(x))));
}
#endif
