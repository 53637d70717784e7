// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_the_element_type_in_angle_brackets>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Ids = Tensor<int, 1, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto targets(const Ids& ids) {
  return one_hot(ids, 10);
}
#else
auto targets(const Ids& ids) {
  return one_hot<float>(ids, 10);
}
#endif
