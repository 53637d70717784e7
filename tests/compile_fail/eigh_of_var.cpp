// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `eigh`, `svd`, `pivoted_qr`, `lstsq`, `svd_lowrank`, `polar`, `sqrtm` and `inverse_root` have no gradient. Pass them the value of a
/// `Var` or a parameter; the result is then a constant.
// expect: LayoutError<Reason::operation_has_no_gradient, Got<Var<Tensor<float, 2, Mesh<tp>, Replicate>, true>>, Cure<Hint::use_its_value>>|LayoutError<Reason::operation_has_no_gradient, Got<Var<Tensor<float, 2, Mesh<tp>, Replicate>>>, Cure<Hint::use_its_value>>

#include <shardwise/linalg/spectral.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto spectrum(const Var<Matrix>& covariance) {
  return eigh(covariance).values;
}
#else
auto spectrum(const Var<Matrix>& covariance) {
  return eigh(covariance.value()).values;
}
#endif
