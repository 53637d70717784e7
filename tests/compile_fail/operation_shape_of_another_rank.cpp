// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::member_of_the_operation_is_missing_or_does_not_fit, Expected<Array<long.*, 2>.?\(Array<long.*, 2>\)>, Cure<Hint::let_shape_take_and_return_what_is_Expected>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<float, 2, Mesh<tp>, Shard<0>>;

struct CopyOp {
  static constexpr Saved saved{};
  static constexpr Signature signature = Signature::of("rc -> rk");
  static void forward(auto y, void*, auto x) {
    kernel::copy(x.elements(), x.data, y.data);
  }
  static void pull_back(auto dy, auto, const void*, auto x) {
    kernel::copy(dy.elements(), dy.data, x.gradient);
  }

#ifdef SHOULD_FAIL
  static constexpr Shape<3> shape(const Shape<2>& x) {
    return {x[0], x[1], 1};
  }
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#else
  static constexpr Shape<2> shape(const Shape<2>& x) {
    return x;
  }
};
auto call(const Table& x) {
  return apply(CopyOp(), x);
}
#endif
