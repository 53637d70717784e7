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

/// Instead of a dimension: reduce over all.
inline constexpr int all_dimensions = 1 << 20;

/// Each says how a block is reduced: `forward`, `pull_back`, and what the signature has to know.

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
  static constexpr Saved saved = Of::saved;
  static constexpr bool all = Dim == detail::all_dimensions;

  template <int Rank>
  static constexpr Signature signature() {
    Indices x = Indices::range('a', Rank);
    if constexpr (all) {
      return Of::with(Signature::of(x, ""));
    } else {
      if (!detail::has_dimension(Dim, Rank)) return {};
      return Of::with(Signature::of(x, x.without(x[detail::dimension(Dim, Rank)])));
    }
  }

  template <int Rank>
  static constexpr auto shape(const Shape<Rank>& x) {
    if constexpr (all) {
      return Shape<0>{};
    } else {
      constexpr auto dim = detail::dimension(Dim, Rank);
      Shape<Rank - 1> y{};
      for (int i = 0; i + 1 < Rank; ++i) y[i] = x[i < dim ? i : i + 1];
      return y;
    }
  }

  template <class Y, class X>
  static constexpr std::int64_t flops(const Y&, const X& x) {
    return x.elements();
  }

  template <class T, int RankY, int Rank>
  static void forward(View<T, RankY> y, void*, View<const T, Rank> x) {
    Of::forward(folded(x), x.data, y.data);
  }
  template <class T, int RankY, int Rank>
  static void pull_back(View<const T, RankY> dy, View<const T, RankY> y, const void*, Input<T, Rank> x) {
    Of::pull_back(folded<T, Rank>(x), x.data, y.data, dy.data, x.gradient);
  }

 private:
  template <class T, int Rank>
  static detail::Folded folded(const View<const T, Rank>& x) {
    if constexpr (all) {
      return {1, x.elements(), 1, static_cast<double>(elements(x.shape))};
    } else {
      return detail::folded(x, detail::dimension(Dim, Rank));
    }
  }
};

namespace detail {
template <class Of, int Dim, class X>
using reduction_of = result_of<ReductionOp<Of, Dim>, X>;
}  // namespace detail

/// Σ x
template <int Dim = detail::all_dimensions, Operand X,
          class Result = detail::reduction_of<detail::SumOf, Dim, X>>
constexpr auto sum(const X& x) {
  return apply(ReductionOp<detail::SumOf, Dim>{}, x);
}
template <int Dim = detail::all_dimensions, Operand X,
          IllFormed Why = detail::reduction_of<detail::SumOf, Dim, X>>
Why sum(const X&);  // see Why

/// The sum divided by the global extent, or by the global number of elements.
template <int Dim = detail::all_dimensions, Operand X,
          class Result = detail::reduction_of<detail::MeanOf, Dim, X>>
constexpr auto mean(const X& x) {
  return apply(ReductionOp<detail::MeanOf, Dim>{}, x);
}
template <int Dim = detail::all_dimensions, Operand X,
          IllFormed Why = detail::reduction_of<detail::MeanOf, Dim, X>>
Why mean(const X&);  // see Why

/// Σ x²
template <int Dim = detail::all_dimensions, Operand X,
          class Result = detail::reduction_of<detail::SumOfSquaresOf, Dim, X>>
constexpr auto sum_of_squares(const X& x) {
  return apply(ReductionOp<detail::SumOfSquaresOf, Dim>{}, x);
}
template <int Dim = detail::all_dimensions, Operand X,
          IllFormed Why = detail::reduction_of<detail::SumOfSquaresOf, Dim, X>>
Why sum_of_squares(const X&);  // see Why

/// The largest element, -∞ of none. Backward the gradient goes to the first of the largest.
template <int Dim = detail::all_dimensions, Operand X,
          class Result = detail::reduction_of<detail::MaxOf, Dim, X>>
constexpr auto max(const X& x) {
  return apply(ReductionOp<detail::MaxOf, Dim>{}, x);
}
template <int Dim = detail::all_dimensions, Operand X,
          IllFormed Why = detail::reduction_of<detail::MaxOf, Dim, X>>
Why max(const X&);  // see Why

/// √(Σ x²). The squares must not overflow. Its gradient at 0 is taken to be 0.
template <int Dim = detail::all_dimensions, Operand X,
          class Result = detail::reduction_of<detail::NormOf, Dim, X>>
constexpr auto norm(const X& x) {
  return apply(ReductionOp<detail::NormOf, Dim>{}, x);
}
template <int Dim = detail::all_dimensions, Operand X,
          IllFormed Why = detail::reduction_of<detail::NormOf, Dim, X>>
Why norm(const X&);  // see Why

}  // namespace shardwise
