// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_std_span_of_the_pointer_and_the_number>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

using Rows = Shard<0>;

#ifdef SHOULD_FAIL
auto table(const Mesh<tp>& mesh, const double* numbers) {
  return from_local<Rows>(mesh, {4, 4}, numbers);
}
#else
auto table(const Mesh<tp>& mesh, const double* numbers) {
  return from_local<Rows>(mesh, {4, 4}, std::span(numbers, 16));
}
#endif
