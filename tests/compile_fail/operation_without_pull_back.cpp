// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::member_of_the_operation_is_missing_or_does_not_fit, Cure<Hint::define_saved_with_inputs_or_output_forward_and_pull_back>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<float, 2, Mesh<tp>, Shard<0>>;

struct CopyOp {
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{};
  static void forward(auto y, void*, auto x) {
    kernel::copy(x.elements(), x.data, y.data);
  }

#ifdef SHOULD_FAIL
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#else
  static void pull_back(auto dy, auto, const void*, auto x) {
    kernel::copy(dy.elements(), dy.data, x.gradient);
  }
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#endif
