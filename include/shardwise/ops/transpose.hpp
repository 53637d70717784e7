// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `transpose` exchanges two dimensions: a local copy. A sharded dimension stays sharded in its new place,
/// and a pending sum passes.
///
/// ```
/// y = transpose(x);         // the last two dimensions
/// y = transpose<1, 2>(x);   // [batch, sequence, heads, dim] to [batch, heads, sequence, dim]
/// ```

#include <shardwise/kernel/permute.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <int A, int B>
struct TransposeOp {
  static constexpr const char* name = "transpose";
  static constexpr Saved saved{};
  static constexpr bool accumulates = true;
  static constexpr bool takes_integers = true;
  static constexpr int flops_each = 0;

  template <int Rank>
  static constexpr Signature signature() {
    if (!detail::has_dimension(A, Rank) || !detail::has_dimension(B, Rank))
      return {.no_such_dimension = true};
    Indices x = Indices::range('a', Rank), y = x;
    std::swap(y.letters[detail::dimension(A, Rank)], y.letters[detail::dimension(B, Rank)]);
    return Signature::of(x, y).linear_in_each();
  }

  template <int Rank>
  static constexpr auto shape(const Shape<Rank>& x) {
    Shape<Rank> y = x;
    std::swap(y[detail::dimension(A, Rank)], y[detail::dimension(B, Rank)]);
    return y;
  }

  static void forward(auto y, void*, auto x) { copy(y.size, x.data, y.data, false); }
  static void pull_back(auto dy, auto, const void*, auto x) {
    copy(x.size, dy.data, x.gradient, x.accumulate);
  }

 private:
  /// `size`: the extents of the target.
  template <class T, int Rank>
  static void copy(const Shape<Rank>& size, const T* from, T* to, bool accumulate) {
    const Shape<Rank> target = detail::row_major_strides(size);
    const Shape<Rank> source = shape(detail::row_major_strides(shape(size)));
    if (accumulate) {
      kernel::add_box(Rank, size.data(), from, source.data(), to, target.data());
    } else {
      kernel::copy_box(Rank, size.data(), from, source.data(), to, target.data());
    }
  }
};

/// x with the dimensions `A` and `B` exchanged; negative ones count from the end.
template <int A = -2, int B = -1, Operand X, class Result = result_of<TransposeOp<A, B>, X>>
constexpr auto transpose(const X& x) {
  return apply(TransposeOp<A, B>{}, x);
}
template <int A = -2, int B = -1, Operand X, IllFormed Why = result_of<TransposeOp<A, B>, X>>
Why transpose(const X&);  // see Why

}  // namespace shardwise
