// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `Expected` has the arguments that `apply` passes to the member: see
/// [Adding an operation](../learn/adding-an-operation.md).
// expect: LayoutError<Reason::member_of_the_operation_is_missing_or_does_not_fit, Expected<void.?\(View<float, 2>, void.?\*, View<const float, 2>\)>, Cure<Hint::let_forward_take_what_is_Expected>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<float, 2, Mesh<tp>, Shard<0>>;

struct CopyOp {
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{};
  static void pull_back(auto dy, auto, const void*, auto x) {
    kernel::copy(dy.elements(), dy.data, x.gradient);
  }

#ifdef SHOULD_FAIL
  static void forward(auto y, auto x) {
    kernel::copy(x.elements(), x.data, y.data);
  }
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#else
  static void forward(auto y, void*, auto x) {
    kernel::copy(x.elements(), x.data, y.data);
  }
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#endif
