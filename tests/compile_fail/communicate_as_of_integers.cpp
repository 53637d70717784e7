// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Messages carry integers as they are: a rounded index would be another index.
// expect: LayoutError<Reason::only_floating_point_numbers_are_communicated_as_another_type, Expected<float, double, Eigen::bfloat16>, Got<int>, Cure<Hint::leave_communicate_as_out_or_name_one_of_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>

using namespace shardwise;
using Line = Mesh<tp>;

#ifdef SHOULD_FAIL
auto whole(const Tensor<std::int32_t, 2, Line, Shard<0>>& tokens) {
  return redistribute<Replicate>(tokens, communicate_as<Eigen::bfloat16>());
}
#else
auto whole(const Tensor<float, 2, Line, Shard<0>>& x) {
  return redistribute<Replicate>(x, communicate_as<Eigen::bfloat16>());
}
#endif
