// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Only Eigen matrices have a shape of their own. For other values, give the shape before the values.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_shape_before_the_values>>

#include <vector>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto spread(const Mesh<tp>& mesh, const std::vector<float>& values) {
  return distribute<Shard<0>>(mesh, values);
}
#else
auto spread(const Mesh<tp>& mesh, const std::vector<float>& values) {
  return distribute<Shard<0>>(mesh, {2, 3}, values);
}
#endif
