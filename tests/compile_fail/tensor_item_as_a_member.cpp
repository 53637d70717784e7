// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::write_it_as_a_function_of_the_tensor>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Loss = Tensor<float, 0, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
void tell(const Loss& loss) {
  std::printf("%g", loss.item());
}
#else
void tell(const Loss& loss) {
  std::printf("%g", item(loss));
}
#endif
