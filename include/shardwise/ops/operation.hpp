// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What `apply` asks of an operation besides its signature: see there.

#include <shardwise/tensor/tensor.hpp>

namespace shardwise {

/// What `pull_back` reads besides the gradient: operands (bit i is operand i), the result.
struct Saved {
  unsigned inputs = 0;
  bool output = false;
};

/// An operand in `pull_back`: its block (without data unless saved), and where its gradient goes (null if
/// none is wanted). With `accumulate` the gradient is to be added to what is there.
template <class T, int Rank>
struct Input : View<const T, Rank> {
  T* gradient = nullptr;
  bool accumulate = false;
};

namespace detail {

/// Which operands the pullback reads that computes the gradients of those in `tracked`.
template <class Op>
constexpr unsigned saved_inputs(unsigned tracked) {
  if constexpr (requires { requires Op::reads_crosswise; }) {
    const unsigned others = (tracked & 1u) << 1 | (tracked >> 1 & 1u);
    return Op::saved.inputs & (others | ~0b11u);
  } else {
    return Op::saved.inputs;
  }
}

/// A set of operands: bit i is operand i.
constexpr unsigned operands_where(std::initializer_list<bool> holds) {
  unsigned set = 0, bit = 1;
  for (const bool each : holds) {
    if (each) set |= bit;
    bit <<= 1;
  }
  return set;
}

/// The operands whose gradient is the result's, element by element.
template <class Op>
constexpr unsigned passed_on() {
  if constexpr (requires { Op::passes; }) {
    return Op::passes;
  } else {
    return 0;
  }
}

template <class Op, class Y, class... X>
constexpr std::int64_t flops(const Op& op, const Y& y, const X&... x) {
  if constexpr (requires { op.flops(y, x...); }) {
    return op.flops(y, x...);
  } else if constexpr (requires { Op::flops_each; }) {
    return Op::flops_each * y.elements();
  } else {
    return y.elements();
  }
}

template <class Op, class Y, class... X>
constexpr std::int64_t gradient_flops(const Op& op, unsigned wanted, const Y& y, const X&... x) {
  if constexpr (requires { op.gradient_flops(wanted, y, x...); }) {
    return op.gradient_flops(wanted, y, x...);
  } else if constexpr (requires { Op::gradient_flops_each; }) {
    return Op::gradient_flops_each * y.elements();
  } else {
    return std::popcount(wanted) * flops(op, y, x...);
  }
}

/// Which dimension an operation works along: numbered from 0, or from the end as -1, -2, …
constexpr bool has_dimension(int dim, int rank) { return dim >= -rank && dim < rank; }

constexpr int dimension(int dim, int rank) { return dim < 0 ? dim + rank : dim; }

/// A block as [outer, n, inner], where n is the dimension.
struct Folded {
  Index outer, n, inner;
  double all;  ///< the global n
};
template <class T, int Rank>
Folded folded(const View<T, Rank>& x, int dim) {
  return {x.extent(0, dim), x.size[dim], x.extent(dim + 1, Rank), static_cast<double>(x.shape[dim])};
}

}  // namespace detail

}  // namespace shardwise
