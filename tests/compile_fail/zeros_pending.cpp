// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A constant or random number on every rank is the value itself, not a term of
/// a sum. In a pending sum it would count once per rank. (`distribute` and
/// `from_local` can make pending sums: from a matrix, or from each rank's term.)
// expect: LayoutError<Reason::finished_tensor_cannot_be_made_pending, Got<Partial<>>, Cure<Hint::make_it_Replicate_then_redistribute>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto start(const Mesh<tp>& mesh) {
  return zeros<float, Partial<>>(mesh, {64, 32});
}
#else
auto start(const Mesh<tp>& mesh) {
  return redistribute<tp, Partial<>>(zeros<float, Replicate>(mesh, {64, 32}));
}
#endif
