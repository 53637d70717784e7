// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::unsupported_element_type, Got<long double>, Cure<Hint::use_float_double_bfloat16_int32_int64_or_uint8>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/factories.hpp>

/// Elements have the type float, double, bfloat16, int32, int64
/// or uint8, or a type with a specialisation of `data_type`.

using namespace shardwise;

#ifdef SHOULD_FAIL
auto sums(const Mesh<tp>& mesh) {
  return zeros<long double, Shard<0>>(mesh, {16});
}
#else
auto sums(const Mesh<tp>& mesh) {
  return zeros<double, Shard<0>>(mesh, {16});
}
#endif
