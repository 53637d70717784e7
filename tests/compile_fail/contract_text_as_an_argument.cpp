// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_the_text_in_angle_brackets>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Whole = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto product(const Whole& a, const Whole& b) {
  return contract("mk, kn -> mn", a, b);
}
#else
auto product(const Whole& a, const Whole& b) {
  return contract<"mk, kn -> mn">(a, b);
}
#endif
