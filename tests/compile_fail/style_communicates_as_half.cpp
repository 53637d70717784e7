// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::only_floating_point_numbers_are_communicated_as_another_type, Expected<float, double, Eigen::bfloat16>, Got<communicate_as<Eigen::half(, Eigen::half)?>>, Cure<Hint::leave_communicate_as_out_or_name_one_of_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;
using Line = Mesh<tp>;
template <class T>
using Down = Linear<Line, RowwiseParallel<tp, communicate_as<T>>>;

#ifdef SHOULD_FAIL
Down<Eigen::half> down(const Line& mesh) {
  return Down<Eigen::half>(mesh, 8, 4);
}
#else
Down<Eigen::bfloat16> down(const Line& mesh) {
  return Down<Eigen::bfloat16>(mesh, 8, 4);
}
#endif
