// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::contract_two_operands_and_the_result_with_the_next>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Whole = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto product(const Whole& a, const Whole& b, const Whole& c) {
  return contract<"ij, jk, kl -> il">(a, b, c);
}
#else
auto product(const Whole& a, const Whole& b, const Whole& c) {
  return contract<"ik, kl -> il">(contract<"ij, jk -> ik">(a, b), c);
}
#endif
