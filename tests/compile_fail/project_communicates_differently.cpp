// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::styles_communicate_in_different_types, Got<communicate_as<Eigen::bfloat16.*CommunicateAsStored>, Cure<Hint::give_all_the_same_communicate_as>, In<detail::Project>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/project.hpp>

using namespace shardwise;
using Line = Mesh<tp>;
using Layer = Linear<Line, ColwiseParallel<tp>>;
using Narrow = Linear<Line, ColwiseParallel<tp, communicate_as<Eigen::bfloat16>>>;

#ifdef SHOULD_FAIL
auto both(const Narrow& a, const Layer& b, const Tensor<float, 2, Line, Replicate>& x) {
  return project(x, a, b);
}
#else
auto both(const Narrow& a, const Narrow& b, const Tensor<float, 2, Line, Replicate>& x) {
  return project(x, a, b);
}
#endif
