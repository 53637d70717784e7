// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `eigsh`: the smallest or largest eigenvalues of a symmetric matrix whose rows are cut, and their eigenvectors. It
/// takes tensors only, and has no gradient.
///
/// ```
/// auto [values, vectors] = eigsh(a, 10);                                // a: [n, n]; vectors: [n, 10], cut as a
/// auto [values, vectors] = eigsh(a, 10, {.end = SpectrumEnd::largest});
/// ```
/// A space of vectors grows by products with Chebyshev polynomials of the matrix (linalg/chebyshev_space.hpp).

#include <shardwise/linalg/chebyshev_space.hpp>
#include <shardwise/linalg/functions.hpp>
#include <shardwise/linalg/spectral.hpp>
#include <shardwise/linalg/symmetry.hpp>

namespace shardwise {

enum class SpectrumEnd { smallest, largest };

/// How `eigsh` computes.
struct EigshOptions {
  SpectrumEnd end = SpectrumEnd::smallest;
  double tolerance = 0;  ///< of ‖a v - λ v‖, relative to ‖a‖; 0 stands for ε · max(10, √n)
  int max_steps = 100;   ///< extensions of the first space
  bool check_symmetry = true;
};

/// a: [n, n], float or double, symmetric; rows cut over any number of axes, or whole. With 1 ≤ k ≤ n, `values` is
/// [k], on every rank, in increasing order, of either end; `vectors` is [n, k], laid out as a, and its columns are
/// orthonormal. ‖a v - λ v‖ is at most the tolerance times ‖a‖, the largest magnitude of an eigenvalue; by default ε
/// · max(10, √n) times. If n ≤ 320 or 4 k > n, every rank gathers a and calls `eigh`: that is slow, and needs much
/// memory, for large n. It does so for n ≤ 8192, too, when values are so close together that products have taken
/// twice that work. Results are the same on any mesh, except for rounding.
///
/// Throws `std::invalid_argument` if a is not square, or not symmetric (as `eigh` and `CholeskyFactor`), or k is not in
/// 1…n. All ranks throw the same `std::runtime_error` if a is not finite, or if `max_steps` do not suffice. A dry run
/// counts the first space, and no refinement. Collective.
template <Operand A, WellFormed Vectors = detail::factored_off_tape<detail::QrLayout, A>>
constexpr auto eigsh(const A& a, Index k, EigshOptions options = {}) {
  using Whole = typename detail::WholeOf<tensor_of<Vectors>>::type;
  if constexpr (AbstractOperand<A>) {
    return Eigh<result_of<detail::VectorOfMatrix, Abstract<Whole, false, false>>, Vectors>{};
  } else {
    const auto& mesh = common_mesh(a);
    const Index n = a.shape()[0];
    detail::check_square("eigsh", a.shape());
    if (k < 1 || k > n)
      detail::fail({"eigsh: ", k, " eigenvalues of a matrix ", a.shape(), "; expected 1 to ", n});
    Eigh<result_of<detail::VectorOfMatrix, Whole>, A> y{{mesh, {k}}, {mesh, {n, k}}};
    const bool smallest = options.end == SpectrumEnd::smallest;
    const Index own = a.local_shape()[0];
    const double unit = detail::unit_of("eigsh", a);
    const auto take_from_all = [&] {
      const auto all = eigh(redistribute_to<Whole>(a));
      const Index first = smallest ? 0 : n - k, row = y.vectors.box().begin[0];
      for (Index j = 0; j < k && !mesh.dry(); ++j) {
        y.values.writable().data[j] = all.values.data()[first + j];
        for (Index i = 0; i < own; ++i)
          y.vectors.writable().data[i * k + j] = all.vectors.data()[(row + i) * n + first + j];
      }
    };
    if (n <= 320 || 4 * k > n) {
      take_from_all();
      return y;
    }
    if (options.check_symmetry) detail::check_symmetric("eigsh", a);
    const double scale = smallest ? 1 : -1;
    using T = typename A::Element;
    const double tolerance =
        options.tolerance > 0
            ? options.tolerance
            : std::numeric_limits<T>::epsilon() * std::max(10., detail::root(2, static_cast<double>(n)));
    detail::ChebyshevSpace<A> space(a, k, static_cast<T>(scale / unit), tolerance, options.max_steps);
    if (!space.solve()) {
      take_from_all();
      return y;
    }
    for (Index j = 0; j < k && !mesh.dry(); ++j) {
      const Index from = smallest ? j : k - 1 - j;
      y.values.writable().data[j] = static_cast<T>(scale * unit * space.value(from));
      for (Index i = 0; i < own; ++i)
        y.vectors.writable().data[i * k + j] = space.vectors()[i * space.columns() + from];
    }
    return y;
  }
}
template <class A, IllFormed Why = detail::factored_off_tape<detail::QrLayout, A>>
Why eigsh(const A&, Index, EigshOptions = {});  // see Why

}  // namespace shardwise
