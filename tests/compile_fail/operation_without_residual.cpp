// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::member_of_the_operation_is_missing_or_does_not_fit, Expected<void.?\(View<const float, 1>, View<const float, 1>, const void.?\*, Input<float, 1>\)>, Cure<Hint::let_pull_back_take_what_is_Expected>>

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

#ifdef SHOULD_FAIL
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, Input<T, Rank> x) {
    for (Index i = 0; i < dy.elements(); ++i) x.gradient[i] = 2 * dy.data[i];
  }
};
auto twice(const Vector& x) {
  return apply(TwiceOp{}, x);
}
#else
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x) {
    for (Index i = 0; i < dy.elements(); ++i) x.gradient[i] = 2 * dy.data[i];
  }
};
auto twice(const Vector& x) {
  return apply(TwiceOp{}, x);
}
#endif
