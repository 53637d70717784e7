// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A template with a value among its arguments: its name alone, so that the plan does not stand once for each module.
// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<tp>>, Got<dp>, Cure<Hint::name_an_axis_of_the_mesh>, Of<detail::Redistribute<dp, Replicate>>, In<Name<PlannedFeed>>, In<detail::Repeat>, InA<PlannedModel>>

#include <vector>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using FeedPlan =
    Plan<Use<"layers.*.up", ColwiseParallel<tp>>, Use<"layers.*.down", RowwiseParallel<tp>>,
         Use<"layers.*.norm", SequenceParallel<tp>>, Use<"head", ColwiseParallel<tp, output<Replicate>>>>;
#ifdef SHOULD_FAIL
using Gathered = dp;
#else
using Gathered = tp;
#endif

template <class PlanType, int Hidden>
struct PlannedFeed : Module<PlannedFeed<PlanType, Hidden>> {
  Linear<Mesh<tp>, style_of<PlanType, "layers.*.up">> up;

  auto forward(const auto& x) const {
    return redistribute<Gathered, Replicate>(up(x));
  }
};

template <class PlanType>
struct PlannedModel : Module<PlannedModel<PlanType>> {
  std::vector<PlannedFeed<PlanType, 8>> layers;

  auto forward(const auto& x) const {
    return sequential(x, layers);
  }
};

auto call(const PlannedModel<FeedPlan>& model, const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return model(x);
}
