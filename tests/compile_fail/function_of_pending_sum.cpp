// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// An operation of one's own, as a function and as a stage, is refused as any other.
// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate>, Got<Partial<>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>, Of<SquareOp>, In<.*>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class P>
using Rows = Tensor<float, 2, Mesh<tp>, P>;

struct SquareOp {
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{.inputs = 0b1};
  static void forward(auto y, void*, auto x) {
    for (Index i = 0; i < x.elements(); ++i) y.data[i] = x.data[i] * x.data[i];
  }
  static void pull_back(auto dy, auto, const void*, auto x) {
    for (Index i = 0; i < x.elements(); ++i) x.gradient[i] = 2 * x.data[i] * dy.data[i];
  }
};
inline constexpr Function<SquareOp> square;

#ifdef SHOULD_FAIL
auto fourth_power(const Rows<Partial<>>& x) {
  return sequential(x, square, square);
}
#else
auto fourth_power(const Rows<Reduced>& x) {
  return sequential(x, square, square);
}
#endif
