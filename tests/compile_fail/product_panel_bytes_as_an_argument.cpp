// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_options_in_braces_by_name>>

#include <shardwise/linalg/matrix_product.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto product(const Matrix& a, const Matrix& b) {
  return matrix_product<Shard<0>>(a, b, 1 << 20);
}
#else
auto product(const Matrix& a, const Matrix& b) {
  return matrix_product<Shard<0>>(a, b, {.panel_bytes = 1 << 20});
}
#endif
