// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reductions over one dimension, which the result lacks, or over all of them to a scalar: `sum`, `mean`,
/// `sum_of_squares`, `max` and `norm`, the 2-norm.
///
/// ```
/// y = sum<0>(x);   // y[c] = Σ_r x[r, c]; x sharded on 0 gives a Partial<Sum>, y's other dimensions keep
/// y = mean(x);     // a scalar; the divisor is the global number of elements, however x is sharded
/// ```
/// Over a sharded dimension `sum`, `mean` and `sum_of_squares` give `Partial<Sum>` and `max` gives
/// `Partial<Max>`, through which no gradient is defined; a `norm` does not compile there: take
/// `sum_of_squares`, redistribute, and then the root. `sum` and `mean` let a pending sum pass.

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

namespace detail {

/// Stands for all dimensions.
inline constexpr int all_dimensions = 1 << 20;

/// Each struct reduces a block with `forward` and `pull_back`, and has the constants for the signature.

template <bool Mean>
struct SumOrMeanOf {
  static constexpr Saved saved{};
  static constexpr Signature with(const Signature& plain) { return plain.linear_in_each(); }
  template <class T>
  static void forward(const Folded& f, const T* x, T* y) {
    kernel::sum(f.outer, f.n, f.inner, x, y);
    if constexpr (Mean) kernel::scale(f.outer * f.inner, factor<T>(f), y, y);
  }
  template <class T>
  static void pull_back(const Folded& f, const T*, const T*, const T* dy, T* dx) {
    kernel::sum_backward(f.outer, f.n, f.inner, dy, factor<T>(f), dx);
  }

 private:
  template <class T>
  static auto factor(const Folded& f) {
    return static_cast<kernel::compute_t<T>>(Mean ? 1 / f.all : 1);
  }
};
using SumOf = SumOrMeanOf<false>;
using MeanOf = SumOrMeanOf<true>;
struct SumOfSquaresOf {
  static constexpr Saved saved{.inputs = 0b1};
  static constexpr Signature with(const Signature& plain) { return plain; }
  template <class T>
  static void forward(const Folded& f, const T* x, T* y) {
    kernel::sum_squares(f.outer, f.n, f.inner, x, y);
  }
  template <class T>
  static void pull_back(const Folded& f, const T* x, const T*, const T* dy, T* dx) {
    kernel::sum_squares_backward(f.outer, f.n, f.inner, x, dy, kernel::compute_t<T>(2), dx);
  }
};

struct MaxOf {
  static constexpr Saved saved{.inputs = 0b1, .output = true};
  static constexpr Signature with(const Signature& plain) { return plain.combining(ReduceOp::max); }
  template <class T>
  static void forward(const Folded& f, const T* x, T* y) {
    kernel::max(f.outer, f.n, f.inner, x, y);
  }
  template <class T>
  static void pull_back(const Folded& f, const T* x, const T* y, const T* dy, T* dx) {
    kernel::max_backward(f.outer, f.n, f.inner, x, y, dy, dx);
  }
};

struct NormOf {
  static constexpr Saved saved{.inputs = 0b1, .output = true};
  static constexpr Signature with(const Signature& plain) { return plain.not_combining(); }
  template <class T>
  static void forward(const Folded& f, const T* x, T* y) {
    kernel::norm(f.outer, f.n, f.inner, x, y);
  }
  template <class T>
  static void pull_back(const Folded& f, const T* x, const T* y, const T* dy, T* dx) {
    kernel::norm_backward(f.outer, f.n, f.inner, x, y, dy, dx);
  }
};

}  // namespace detail

/// `Of`: one of the structs above.
template <class Of, int Dim>
struct ReductionOp {
  static constexpr const char* name = "reduction";
  static constexpr Saved saved = Of::saved;
  static constexpr bool all = Dim == detail::all_dimensions;

  template <int Rank>
  static constexpr Signature signature() {
    Indices x = Indices::range('a', Rank);
    if constexpr (all) {
      return Of::with(Signature::of(x, ""));
    } else {
      if (!detail::has_dimension(Dim, Rank)) return {.no_such_dimension = true};
      return Of::with(Signature::of(x, x.without(x[detail::dimension(Dim, Rank)])));
    }
  }

  static constexpr std::int64_t flops(const auto&, const auto& x) { return x.elements(); }

  static void forward(auto y, void*, auto x) { Of::forward(folded(x), x.data, y.data); }
  template <class T, int Rank, int XRank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank> y, const void*, Input<T, XRank> x) {
    Of::pull_back(folded(x), x.data, y.data, dy.data, x.gradient);
  }

  /// x as [outer, n, inner], of which n is reduced.
  static detail::Folded folded(const auto& x) {
    if constexpr (all) {
      return {1, x.elements(), 1, static_cast<double>(elements(x.shape))};
    } else {
      return detail::folded(x, Dim);
    }
  }
};

#define SHARDWISE_REDUCTION(name, Of)                                                                        \
  template <int Dim = detail::all_dimensions, Operand X, class Result = result_of<ReductionOp<Of, Dim>, X>>  \
  constexpr auto name(const X& x) {                                                                          \
    return apply(ReductionOp<Of, Dim>{}, x);                                                                 \
  }                                                                                                          \
  template <int Dim = detail::all_dimensions, Operand X, IllFormed Why = result_of<ReductionOp<Of, Dim>, X>> \
  Why name(const X&)

/// Σ x
SHARDWISE_REDUCTION(sum, detail::SumOf);

/// The sum divided by the global extent, or by the global number of elements.
SHARDWISE_REDUCTION(mean, detail::MeanOf);

/// Σ x²
SHARDWISE_REDUCTION(sum_of_squares, detail::SumOfSquaresOf);

/// The largest element, NaN if any element is, and -∞ if there are no elements. Backward, the first of the largest
/// elements, or the first NaN, gets the gradient.
SHARDWISE_REDUCTION(max, detail::MaxOf);

/// √(Σ x²). The squares must not overflow. Its gradient at 0 is taken to be 0.
SHARDWISE_REDUCTION(norm, detail::NormOf);
#undef SHARDWISE_REDUCTION

namespace detail {

using SumOfAllOp = ReductionOp<SumOf, all_dimensions>;
using MeanOfAllOp = ReductionOp<MeanOf, all_dimensions>;

}  // namespace detail

SHARDWISE_COMPILE_OPERATION(detail::SumOfAllOp, 0, 2)
SHARDWISE_COMPILE_OPERATION(detail::MeanOfAllOp, 0, 2)

}  // namespace shardwise
