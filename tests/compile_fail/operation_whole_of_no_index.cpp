// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The signature names an index that no operand has. So the index that was meant, here the columns, could be cut, and
/// the result would be wrong. The error names the letter.
// page: clang++ too
// expect: LayoutError<Reason::signature_of_the_operation_is_wrong, Got<Letter<d>>, Cure<Hint::pass_whole_a_letter_of_an_operand>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<float, 2, Mesh<tp>, Shard<0>>;

struct CumulativeSumOp {
  static constexpr Saved saved{};
  static void forward(auto y, void*, auto x) {
    for (Index i = 0, n = x.columns(); i < x.elements(); ++i)
      y.data[i] = x.data[i] + (i % n > 0 ? y.data[i - 1] : 0);
  }
  static void pull_back(auto dy, auto, const void*, auto x) {
    for (Index i = dy.elements(), n = dy.columns(); i-- > 0;) {
      x.gradient[i] = dy.data[i] + ((i + 1) % n > 0 ? x.gradient[i + 1] : 0);
    }
  }

#ifdef SHOULD_FAIL
  static constexpr Signature signature = Signature::of("rc -> rc").linear_in_each().whole('d');
};
auto call(const Table& x) {
  return apply(CumulativeSumOp(), x);
}
#else
  static constexpr Signature signature = Signature::of("rc -> rc").linear_in_each().whole('c');
};
auto call(const Table& x) {
  return apply(CumulativeSumOp(), x);
}
#endif
