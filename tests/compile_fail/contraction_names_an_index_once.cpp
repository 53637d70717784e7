// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// In the text of a contraction each index stands in both operands, in one of them and the result, or in all three
/// tensors. One that a single operand has is summed first: `sum<0>(a)`.
// expect: LayoutError<Reason::contraction_is_not_one_matrix_product, Got<Tensor<float, 2, Mesh<tp>, Replicate>, Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::name_each_index_in_two_or_all_three_tensors_and_once_in_each>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/contract.hpp>

using namespace shardwise;
using Whole = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto product(const Whole& a, const Whole& b) {
  return contract<"mk, kn -> nk">(a, b);
}
#else
auto product(const Whole& a, const Whole& b) {
  return contract<"mk, kn -> nm">(a, b);
}
#endif
