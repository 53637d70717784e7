// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Values bring the type of their elements; only what makes them, as `randn`, is told it.
// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::leave_the_element_type_out>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto spread(const Mesh<tp>& mesh, const Eigen::MatrixXf& matrix) {
  return distribute<float, Shard<0>>(mesh, matrix);
}
#else
auto spread(const Mesh<tp>& mesh, const Eigen::MatrixXf& matrix) {
  return distribute<Shard<0>>(mesh, matrix);
}
#endif
