// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::contraction_is_not_one_matrix_product, Got<Tensor<float, 2, Mesh<tp>, Replicate>, Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::write_an_arrow_and_the_indices_of_the_result>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/contract.hpp>

using namespace shardwise;
using Whole = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto product(const Whole& a, const Whole& b) {
  return contract<"mk, kn">(a, b);
}
#else
auto product(const Whole& a, const Whole& b) {
  return contract<"mk, kn -> mn">(a, b);
}
#endif
