// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::style_does_not_suit_the_module, Got<Zero<3, tp>>, Cure<Hint::name_a_data_axis>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void make(const Mesh<dp, tp>& mesh) {
  Linear<Mesh<dp, tp>, FullyShard<tp>> layer(mesh, 4, 4);
}
#else
void make(const Mesh<dp, tp>& mesh) {
  Linear<Mesh<dp, tp>, FullyShard<dp>> layer(mesh, 4, 4);
}
#endif
