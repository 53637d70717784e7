// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// An operation is one small struct, which `apply` runs on the local blocks (ops/apply.hpp):
///
/// ```
/// struct MyOp {
///   static constexpr Signature signature = Signature::of("...c, c -> ...c");   // which index each dimension is
///   static constexpr Saved saved{…};                                           // what the pullback reads
///   static void forward(View<T, R> y, void* residual, View<const T, R>... x);
///   static void pull_back(View<const T, R> dy, View<const T, R> y, const void* residual, Input<T, R>... x);
/// };
/// ```
/// The types may be `auto`. These members are optional: `name`, for errors and logs; `check()`, which throws if a
/// member is out of range; `shape(x...)`, from global extents to the result's, if the letters do not determine them;
/// `flops(y, x...)` and `gradient_flops(wanted, y, x...)` (`wanted`: a set of operands, as below), or the numbers for
/// each element of y, `flops_each` and `gradient_flops_each`; `residual_bytes(y, x...)`; `moved_bytes(y, x...)`, if
/// `forward` does not read all operands; `accumulates`, if `pull_back` can add to an existing gradient; `passes`, the
/// set of operands whose gradient is the result's gradient itself (bit i is operand i): it is handed on, not copied;
/// `leaves_gradient`, if `leave(…)` may keep a parameter's gradient in another form, and then settles its slot (see
/// `EmbeddingOp`); `reads_crosswise`, if the gradient of operand 0 needs operand 1, the gradient of operand 1 needs
/// operand 0, and no other gradient needs them; `parameters_first`, if `pull_back` may be called for some gradients and
/// again for the others, so that the gradients of parameters, which are communicated, come first; `takes_integers`, if
/// the operation accepts integers too; and `recomputed`, if operations that need the result in their pullback should
/// compute it again instead of keeping it.

#include <shardwise/layout/signature.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise {

/// The values that `pull_back` reads besides the gradient: operands (bit i is operand i), the result.
struct Saved {
  unsigned inputs = 0;
  bool output = false;
};

/// An operand in `pull_back`: its block (without data unless saved), and where its gradient goes (null if
/// none is wanted). With `accumulate` the pullback must add the gradient to the numbers that are there.
template <class T, int Rank>
struct Input : View<const T, Rank> {
  T* gradient = nullptr;
  bool accumulate = false;
};

namespace detail {

/// In place of the `data` that `saved` does not name, so that an operation that reads it does not compile.
struct NotNamedInSaved {};
template <class Block>
struct WithoutData : Block {
  NotNamedInSaved data{};
};

/// The signature of an operation on operands of these ranks. It has no operands if the ranks do not fit.
template <class Op, int... Ranks>
constexpr Signature find_signature() {
  if constexpr (requires { Op::signature.count; }) {
    return Op::signature.of_ranks({Ranks...}, sizeof...(Ranks));
  } else {
    return Op::template signature<Ranks...>().of_ranks({Ranks...}, sizeof...(Ranks));
  }
}
template <class Op, int... Ranks>
inline constexpr Signature signature_of = find_signature<Op, Ranks...>();

/// Throws because the extents of operand `i` in dimension `dim` and of operand `j` in dimension `at` differ.
[[noreturn, gnu::cold]] void fail_to_fit(const char* operation,
                                         std::span<const std::span<const Index>> shapes, int i, int dim,
                                         int j, int at);

constexpr void fit_here(const Signature& op, const char* operation,
                        std::span<const std::span<const Index>> shapes, Index* result) {
  const auto extent = [&](int i, int dim) {
    return shapes[static_cast<std::size_t>(i)][static_cast<std::size_t>(dim)];
  };
  for (int i = 0; i < op.count; ++i) {
    for (int dim = 0; dim < op.operands[i].rank; ++dim) {
      const char letter = op.operands[i][dim];
      for (int j = 0; j < i; ++j) {
        const int at = op.operands[j].find(letter);
        if (at >= 0 && extent(j, at) != extent(i, dim)) fail_to_fit(operation, shapes, i, dim, j, at);
      }
      const int to = op.result.find(letter);
      if (to >= 0) result[to] = extent(i, dim);
    }
  }
}
/// Writes the extents of the result: those of the operands at the same letter. Throws `std::invalid_argument` if two
/// operands differ there.
SHARDWISE_ONCE(void, fit,
               (const Signature& op, const char* operation, std::span<const std::span<const Index>> shapes,
                Index* result),
               (op, operation, shapes, result), fit_here(op, operation, shapes, result))

/// Null if it has none.
template <class Op>
constexpr const char* name_of_operation() {
  if constexpr (requires { Op::name; }) {
    return Op::name;
  } else {
    return nullptr;
  }
}

/// The extents of the result of `op`. Throws `std::invalid_argument` if the operands' extents do not fit, or a member
/// of `op` is out of range.
template <class Op, int... Ranks>
constexpr auto shape_of_result(const Op& op, const Shape<Ranks>&... x) {
  if constexpr (requires { op.check(); }) op.check();
  if constexpr (requires { op.shape(x...); }) {
    return op.shape(x...);
  } else {
    const char* name = name_of_operation<Op>();
    const std::span<const Index> shapes[]{{x.data(), Ranks}...};
    Shape<signature_of<Op, Ranks...>.result.rank> y{};
    fit(signature_of<Op, Ranks...>, name ? name : "an operation", shapes, y.data());
    return y;
  }
}

/// The operands that the pullback reads to compute the gradients of the operands in `tracked`.
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
Folded folded(const View<T, Rank>& x, int dim_or_negative) {
  const int dim = dimension(dim_or_negative, Rank);
  return {x.extent(0, dim), x.size[dim], x.extent(dim + 1, Rank), static_cast<double>(x.shape[dim])};
}

/// A number beside a tensor.
template <class N>
concept Arithmetic = std::is_arithmetic_v<N>;

/// Elementwise operations of two operands: b has the last dimensions of a, and is used for each row of the others.
inline constexpr Signature with_rows = Signature::of("r*c*, c* -> r*c*");

/// The number of times that b is used.
template <class A, int RankA, class B, int RankB>
Index rows_of(const View<A, RankA>& a, const View<B, RankB>&) {
  return a.extent(0, RankA - RankB);
}

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void fail_to_fit(const char* operation, std::span<const std::span<const Index>> shapes,
                                  int i, int dim, int j, int at) {
  std::string operands;
  for (const auto& shape : shapes) {
    const bool last = &shape == &shapes.back();
    operands += text({operands.empty() ? "" : last ? " and " : ", ", shape});
  }
  const auto extent = [&](int k, int d) {
    return shapes[static_cast<std::size_t>(k)][static_cast<std::size_t>(d)];
  };
  fail({operation, ": the operands ", operands, " do not fit: dimension ", at, " of operand ", j, " has ",
        extent(j, at), " elements, dimension ", dim, " of operand ", i, " has ", extent(i, dim)});
}

#endif

}  // namespace detail

}  // namespace shardwise
