// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::only_floating_point_numbers_are_communicated_as_another_type, Expected<float, double, Eigen::bfloat16>, Got<communicate_as<int(, int)?>>, Cure<Hint::leave_communicate_as_out_or_name_one_of_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;
using Line = Mesh<tp>;
template <class Forward>
using Down = Linear<Line, RowwiseParallel<tp, communicate_as<Forward>>>;

#ifdef SHOULD_FAIL
auto call(const Down<int>& down, const Tensor<float, 2, Line, Shard<1>>& x) {
  return down(x);
}
#else
auto call(const Down<Eigen::bfloat16>& down, const Tensor<float, 2, Line, Shard<1>>& x) {
  return down(x);
}
#endif
