// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// With `SameBits`, no product is a sum over ranks, whose order depends on their number. A style that splits the outputs
/// instead, and gathers them, is one that has the same bits on every mesh.
// expect: LayoutError<Reason::same_bits_allow_no_sum_over_ranks_and_no_rounded_message, Got<RowwiseParallel<tp>, SameBits>, Cure<Hint::use_ColwiseParallel_with_output_Replicate_and_no_communicate_as>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
using Down = Styles<RowwiseParallel<tp>, SameBits>;
#else
using Down = Styles<ColwiseParallel<tp, output<Replicate> >, SameBits>;
#endif
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, Down>(mesh, 64, 256);
}
