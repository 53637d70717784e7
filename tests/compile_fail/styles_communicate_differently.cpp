// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// One collective may run over the axes of several styles, and it carries
/// one type. So all styles name the same type, or none names one.
// expect: LayoutError<Reason::styles_communicate_in_different_types, Got<ColwiseParallel<tp, communicate_as<Eigen::bfloat16.*CopyParallel<kvr.*Cure<Hint::give_all_the_same_communicate_as>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;
using Grid = Mesh<tp, kvr>;
using As = communicate_as<Eigen::bfloat16>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp, As>, CopyParallel<kvr>>>(mesh, 64, 256);
}
#else
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp, As>, CopyParallel<kvr, As>>>(mesh, 64, 256);
}
#endif
