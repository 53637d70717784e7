// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Values bring the type of their elements; only what makes them, as `randn`, is told it.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::remove_the_element_type>>

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
