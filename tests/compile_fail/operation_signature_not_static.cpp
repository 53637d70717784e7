// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::signature_of_the_operation_is_wrong, Cure<Hint::define_a_public_static_constexpr_signature>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<float, 2, Mesh<tp>, Shard<0>>;

struct CopyOp {
  static constexpr Saved saved{};
  static void forward(auto y, void*, auto x) {
    kernel::copy(x.elements(), x.data, y.data);
  }
  static void pull_back(auto dy, auto, const void*, auto x) {
    kernel::copy(dy.elements(), dy.data, x.gradient);
  }

#ifdef SHOULD_FAIL
  Signature signature = Signature::of("... -> ...");
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#else
  static constexpr Signature signature = Signature::of("... -> ...");
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#endif
