// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Elements of a layer are float, double or bfloat16.
// expect: LayoutError<Reason::unsupported_element_type, Got<(Eigen::)?half>, Cure<Hint::use_float_double_bfloat16_int32_int64_or_uint8>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, NoParallel, Eigen::half>(mesh, 4, 4);
}
#else
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, NoParallel, Eigen::bfloat16>(mesh, 4, 4);
}
#endif
