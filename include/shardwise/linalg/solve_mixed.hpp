// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `solve_mixed`: `solve` in mixed precision, by LU in float and refinement of the solution in double, as LAPACK's
/// `dsgesv`.
///
/// ```
/// const auto x = solve_mixed(a, b);   // a: [n, n], b: [n] or [n, r], of double, in any layouts; x has that of b
/// ```

#include <cmath>
#include <optional>

#include <shardwise/linalg/solve.hpp>

namespace shardwise {

namespace detail {

/// The largest magnitude in each column of x [rows, columns]: infinity where one is not finite.
template <class T>
std::vector<T> largest_of_columns(Index rows, Index columns, const T* x) {
  std::vector<T> largest(static_cast<std::size_t>(columns), T{0});
  for (Index i = 0; i < rows; ++i) {
    for (std::size_t c = 0; c < largest.size(); ++c, ++x)
      largest[c] = std::max(largest[c], is_finite(*x) ? std::abs(*x) : std::numeric_limits<T>::infinity());
  }
  return largest;
}
/// The exponent of a power of 2 near x, such that both it and its inverse are numbers.
template <class T>
int exponent_near(T x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::clamp(exponent, -1000, 1000);
}

/// x [n, r], on every rank, with ‖b - A x‖ ≤ √n ε ‖A‖ ‖x‖ in the norm of largest elements, and row sums, for each
/// column. Nothing if it is not found: A is singular in float, a step does not halve the largest quotient of both
/// sides, or numbers overflow. All ranks have the same norms, so they decide alike. A dry run counts two refinements.
constexpr std::optional<AnyTensor> refined_solution(const AnyTensor& a, const AnyTensor& b) {
  using T = double;
  using enum kernel::Transpose;
  check_extents("solve", a, b);
  const RankLine line{a.mesh, a.type}, single{a.mesh, DataType::f32};
  const AnyTensor rows = redistributed_to(AnyTensor(a), line.rows(), line.type),
                  sides = redistributed_to(AnyTensor(b), line.rows(), line.type);
  const Index n = a.shape[0], columns = b.shape[1], own = rows.box().size[0];
  const bool dry = a.mesh.dry();
  if (n * columns == 0) return {};
  const auto numbers = [](const AnyTensor& x) { return static_cast<T*>(x.buffer->data); };
  const auto floats = [](const AnyTensor& x) { return static_cast<float*>(x.buffer->data); };

  T norm = 0;  // the largest sum of a row
  line.compute(2 * own * n, 3 * own * n * static_cast<Index>(sizeof(T)));
  for (Index i = 0; i < own && !dry; ++i) {
    const T sum = kernel::detail::mapped(1, n, numbers(rows) + i * n).cwiseAbs().sum();
    norm = std::max(norm, is_finite(sum) ? sum : std::numeric_limits<T>::infinity());
  }
  a.mesh.all_reduce(&norm, 1, DataType::f64, ReduceOp::max);
  if (!is_finite(norm)) return {};
  const int scale = dry ? 0 : exponent_near(norm);
  const T near_1 = dry ? T{1} : std::ldexp(T{1}, -scale);
  norm *= near_1;
  const Equations<float> factor(rows, single.tensor({n, 0}, single.rows()), "solve", near_1);
  if (factor.failed() >= 0) return {};

  const AnyTensor x = line.tensor({n, columns}, everywhere(a.mesh.axes(), replicate)),
                  rest = line.tensor({n, columns}, line.rows()),
                  rest_in_float = single.tensor({n, columns}, line.rows());
  if (!dry) {
    std::fill_n(numbers(x), n * columns, T{0});
    std::copy_n(numbers(sides), own * columns, numbers(rest));
  }
  T last = std::numeric_limits<T>::infinity();
  for (int step = 0; step <= 30; ++step) {
    std::vector<T> sizes(static_cast<std::size_t>(columns), T{0});
    std::vector<int> exponents(static_cast<std::size_t>(columns), 0);
    if (!dry) sizes = largest_of_columns(own, columns, numbers(rest));
    a.mesh.all_reduce(sizes.data(), columns, DataType::f64, ReduceOp::max);
    if (dry && step == 3) return x;
    if (!dry) {
      const std::vector<T> of_x = largest_of_columns(n, columns, numbers(x));
      T worst = 0;
      for (std::size_t c = 0; c < sizes.size(); ++c) {
        if (!is_finite(sizes[c])) return {};
        exponents[c] = exponent_near(sizes[c]);
        const T limit = std::sqrt(static_cast<T>(n)) * std::numeric_limits<T>::epsilon() * norm * of_x[c];
        if (const T size = std::ldexp(sizes[c], -scale); size > limit) worst = std::max(worst, size / limit);
      }
      if (worst <= 1) return x;
      if (step > 0 && !(worst < last / 2)) return {};
      last = worst;
      for (Index i = 0; i < own * columns; ++i) {
        floats(rest_in_float)[i] = static_cast<float>(
            std::ldexp(numbers(rest)[i], -exponents[static_cast<std::size_t>(i % columns)]));
      }
    }
    const AnyTensor change = factor.solve(rest_in_float);
    line.compute(2 * own * n * columns, own * n * static_cast<Index>(sizeof(T)));
    if (dry) continue;
    for (Index i = 0; i < n * columns; ++i) {
      numbers(x)[i] += std::ldexp(static_cast<T>(floats(change)[i]),
                                  exponents[static_cast<std::size_t>(i % columns)] - scale);
    }
    std::copy_n(numbers(sides), own * columns, numbers(rest));
    kernel::subtract_product(no, no, own, columns, n, numbers(rows), n, numbers(x), columns, numbers(rest),
                             columns);
  }
  return {};
}

/// x by refinement, or else by LU in double.
constexpr AnyTensor mixed_solution(const AnyTensor& a, const AnyTensor& b) {
  if (auto x = refined_solution(a, b)) return std::move(*x);
  return lu_solution<double>(a, b);
}

/// The type of x, or why `solve_mixed` is refused.
template <class A, class B>
struct MixedSolveResult : SolveResult<A, B> {};
template <class A, class B>
  requires std::is_same_v < typename SolveResult<A, B>::X::Element,
float > struct MixedSolveResult<A, B> : TypeIs<LayoutError<Reason::unsupported_element_type, Got<float>,
                                                           Cure<Hint::call_solve_which_computes_in_float>>> {
};

}  // namespace detail

/// x with a x = b, as `solve` finds it, of tensors of double: a is factorized in float, and x is refined in double
/// until its backward error is as small as that of LU in double: ‖b - a x‖ ≤ √n ε ‖a‖ ‖x‖. That mostly takes one to
/// five steps up to a condition number of about 1e6. If a step does not halve the error, as above about 1e7, or
/// numbers overflow, it starts again in double, with the result and the errors of `solve`, and takes the time of
/// both. A plan counts two steps. Collective over the mesh.
template <Operand A, Operand B, TensorType X = typename detail::MixedSolveResult<A, B>::type>
constexpr auto solve_mixed(const A& a, const B& b) {
  return detail::solve_by<X, detail::mixed_solution>(a, b);
}
template <Operand A, Operand B, AbstractOperand X = typename detail::MixedSolveResult<A, B>::type>
constexpr X solve_mixed(const A&, const B&) {
  return {};
}
template <class A, class B, IllFormed Why = typename detail::MixedSolveResult<A, B>::type>
Why solve_mixed(const A&, const B&);  // see Why

}  // namespace shardwise
