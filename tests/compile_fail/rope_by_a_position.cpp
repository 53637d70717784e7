// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_options_in_braces_by_name>>

#include <shardwise/llm/models/rope.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Heads = Tensor<float, 4, Mesh<tp>, Shard<2>>;

#ifdef SHOULD_FAIL
auto turn(const Heads& q) {
  return llm::rope(q, 5);
}
#else
auto turn(const Heads& q) {
  return llm::rope(q, {.first_position = 5});
}
#endif
