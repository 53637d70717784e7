// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_what_route_returns>>

#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Moe = MixtureOfExperts<Mesh<dp, ep>, ExpertParallel<ep>>;
using X = Tensor<float, 2, Mesh<dp, ep>, Shard<0>, Shard<0>>;

#ifdef SHOULD_FAIL
auto loss(const Moe& moe, const X& x) {
  return balance_loss(moe.route(moe.take(x)).logits);
}
#else
auto loss(const Moe& moe, const X& x) {
  return balance_loss(moe.route(moe.take(x)));
}
#endif
