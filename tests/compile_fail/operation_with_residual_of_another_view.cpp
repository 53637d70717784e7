// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// `residual_bytes` gets the result as a `View<const T, Rank>`, as pull_back does. With other arguments it is refused.
// expect: LayoutError<Reason::member_of_the_operation_is_missing_or_does_not_fit, Expected<long.*\(View<const float, 1>, View<const float, 1>\)>, Cure<Hint::let_residual_bytes_take_what_is_Expected>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Vector = Tensor<float, 1, Mesh<tp>, Replicate>;

struct TwiceOp {
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{};
  template <class T, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> x) {
    for (Index i = 0; i < y.elements(); ++i) y.data[i] = 2 * x.data[i];
  }
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x) {
    for (Index i = 0; i < dy.elements(); ++i) x.gradient[i] = 2 * dy.data[i];
  }
#ifdef SHOULD_FAIL
  template <class T, int Rank>
  static Index residual_bytes(View<T, Rank> y, View<const T, Rank>) {
    return y.elements();
  }
};
auto twice(const Vector& x) {
  return apply(TwiceOp{}, x);
}
#else
  template <class T, int Rank>
  static Index residual_bytes(View<const T, Rank> y, View<const T, Rank>) {
    return y.elements();
  }
};
auto twice(const Vector& x) {
  return apply(TwiceOp{}, x);
}
#endif
