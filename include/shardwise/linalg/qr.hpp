// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `qr` of a tall matrix whose rows are cut over any number of axes: x = q · r with orthonormal columns of q, and an
/// upper triangular r.
///
/// ```
/// auto [q, r] = qr(x);   // x: [m, n], Shard<0> or full on each axis; q is cut as x, and every rank has r
/// auto [q, r] = qr(x, {.method = QrMethod::tsqr});
/// ```
/// - `cholesky2` (Yamamoto et al., "Roundoff error analysis of the CholeskyQR2 algorithm", 2015) computes r from xᵀ ·
///   x, twice: two all-reduces of n² elements. It needs a condition number below 1e8 in double and 1e4 in float.
/// - `tsqr` (Demmel et al., "Communication-optimal parallel and sequential QR and LU factorizations", 2012) gathers
///   the r of blocks, one axis after the other. It takes any matrix, also one of dependent columns, and more time.
/// - `automatic` takes `cholesky2`. Where that fails or the condition number is above 1e7 (float: 1e3), it computes a
///   first r from a sketch of x (linalg/sketch.hpp) instead of xᵀ · x, which suffices unless columns are dependent.
///   In that case, and for less than 48 columns, it takes `tsqr`. All ranks have the same r, so they decide alike. A
///   dry run counts `cholesky2`.

#include <shardwise/kernel/householder_qr.hpp>
#include <shardwise/kernel/sums.hpp>
#include <shardwise/linalg/cholesky.hpp>
#include <shardwise/linalg/gram.hpp>
#include <shardwise/linalg/sketch.hpp>
#include <shardwise/linalg/solve_triangular.hpp>
#include <shardwise/ops/contract.hpp>

namespace shardwise {

enum class QrMethod { automatic, cholesky2, tsqr };

/// How `qr` computes. See `qr` for its choice.
struct QrOptions {
  QrMethod method = QrMethod::automatic;
};

/// The factors of x = q · r: see `qr`.
template <class Q, class R>
struct Qr {
  Q q;
  R r;
};

namespace detail {

struct QrLayout {
  static constexpr const char* name = "qr";
  static constexpr Signature signature = Signature::of("mn -> mn").whole('n');
};

/// `X` whole on every rank. An error stays.
template <class X>
struct WholeOf : TypeIs<X> {};
template <TensorType X>
struct WholeOf<X> : TypeIs<whole_of<X>> {};

/// x = q · lᵀ from the Cholesky factor l of xᵀ · x; if there is no such factor, l contains NaN.
template <Operand X>
constexpr auto cholesky_qr(const X& x) {
  auto products = gram(x);
  const auto l = apply(CholeskyOp{}, redistribute_to<finished_of<tensor_of<decltype(products)>>>(products));
  const auto q = solve_triangular<Side::right>(l, x, {.transposed = true});
  return Qr<std::remove_const_t<decltype(q)>, std::remove_const_t<decltype(l)>>{q, l};
}

/// The condition number of l [n, n] in the norm of largest row sums.
template <class T>
double condition_of(Index n, const T* l) {
  RowMajorMatrix<T> inverse = RowMajorMatrix<T>::Identity(n, n);
  kernel::solve_triangular<Side::left>(n, n, {}, l, n, inverse.data(), n);
  const auto norm = [](const auto& m) {
    return static_cast<double>(m.cwiseAbs().rowwise().sum().maxCoeff());
  };
  return norm(kernel::detail::mapped(n, n, l)) * norm(inverse);
}

/// Whether a Cholesky factor l has no NaN, and a condition number of at most `limit`.
template <TensorType L>
constexpr bool is_conditioned(const L& l, double limit) {
  const Index n = l.shape()[0];
  if (l.mesh().dry() || n == 0) return true;
  return failed_pivot(l, [](Index) { return Index{-1}; }) == no_failure && condition_of(n, l.data()) <= limit;
}

/// The two steps of CholeskyQR2 on a tape; nothing if they fail.
template <class Result, Operand X>
constexpr std::optional<Result> cholesky_qr2_on_tape(const X& x, double limit) {
  const auto first = cholesky_qr(x);
  if (!is_conditioned(value_of(first.r), limit)) return {};
  const auto second = cholesky_qr(first.q);
  if (!is_conditioned(value_of(second.r), 100)) return {};
  const auto r = contract<"km, nk -> mn">(second.r, first.r);
  return Result{second.q, redistribute_to<whole_of<tensor_of<decltype(r)>>>(r)};
}

/// q := x · l⁻ᵀ of [m, n], a block of rows at a time. Adds qᵀ · q to `products`, if given, while a block is in the
/// cache.
template <class T>
void divide_rows(Index m, Index n, const T* x, const T* l, T* q, T* products) {
  const Index height = std::max<Index>(64, 65536 / std::max<Index>(1, n));
  for (Index i = 0; i < m; i += height) {
    const Index rows = std::min(height, m - i);
    T* const block = q + i * n;
    if (q != x) std::copy_n(x + i * n, rows * n, block);
    kernel::solve_triangular<Side::right>(n, rows, {.transposed = true}, l, n, block, n);
    if (products) kernel::add_gram(rows, n, block, products);
  }
  if (products) kernel::mirror(n, products);
}

/// x = q · r by a first factor l [n, n], lower triangular on every rank, for which x · l⁻ᵀ is nearly orthonormal, and
/// one step of CholeskyQR; nothing if the condition number of x · l⁻ᵀ is above `limit`. If `x` is null, q holds it.
/// Columns of x · l⁻ᵀ from `rank` on must be at most `small` in norm: of these, only the products with q stay, in r.
template <TensorType X, TensorType L>
constexpr std::optional<Qr<X, whole_of<X>>> cholesky_qr_after(const X* x, X q, const L& l, double limit,
                                                              Index rank, double small = 0) {
  using T = typename X::Element;
  const auto& mesh = q.mesh();
  const Index m = q.local_shape()[0], n = q.shape()[1], bytes = m * n * Index{sizeof(T)};
  decltype(gram(q)) products(mesh, {n, n});
  count_work(mesh, m * n * (2 * n + 1), 2 * bytes, "qr");
  const bool dry = mesh.dry();
  T* const rows = dry ? nullptr : q.writable().data;
  if (!dry) {
    auto* const sums = products.writable().data;
    std::fill_n(sums, n * n, 0);
    divide_rows(m, n, x ? x->data() : rows, l.data(), rows, sums);
  }
  auto squares = redistribute_to<finished_of<decltype(products)>>(std::move(products));
  for (Index i = rank; i < n; ++i) {
    T& square = squares.writable().data[i * (n + 1)];
    if (!(static_cast<double>(square) <= small * small)) return {};
    square += 1;
  }
  const auto second = apply(CholeskyOp{}, squares);
  if (!is_conditioned(second, limit)) return {};
  count_work(mesh, m * n * n, 2 * bytes, "qr");
  if (!dry) divide_rows<T>(m, n, rows, second.data(), rows, nullptr);
  auto r = contract<"km, nk -> mn">(second, l);
  if (rank < n) {
    for (Index i = 0; i < m; ++i) std::fill(rows + i * n + rank, rows + (i + 1) * n, T{0});
    std::fill(r.writable().data + rank * n, r.writable().data + n * n, T{0});
  }
  return Qr<X, whole_of<X>>{std::move(q), redistribute_to<whole_of<decltype(q)>>(std::move(r))};
}

/// The two steps of CholeskyQR2; nothing if they fail, or if the first finds a condition number above `limit`.
template <TensorType X>
constexpr std::optional<Qr<X, whole_of<X>>> cholesky_qr2(const X& x, double limit) {
  auto products = gram(x);
  const auto l = apply(CholeskyOp{}, redistribute_to<finished_of<decltype(products)>>(std::move(products)));
  if (!is_conditioned(l, limit)) return {};
  return cholesky_qr_after(&x, X(x.mesh(), x.shape()), l, 100, x.shape()[1]);
}

/// Makes the diagonal of an upper triangular r [n, n] positive. Returns the signs it had, by which columns of q change.
template <class T>
auto make_positive(Index n, T* r) {
  Eigen::Array<T, 1, Eigen::Dynamic> signs(n);
  for (Index i = 0; i < n; ++i) {
    signs[i] = r[i * (n + 1)] < 0 ? T{-1} : T{1};
    for (Index j = i; j < n && signs[i] < 0; ++j) r[i * n + j] = -r[i * n + j];
  }
  return signs;
}

/// The same by the r of a sketch of x; nothing if columns are dependent.
template <TensorType X>
constexpr std::optional<Qr<X, whole_of<X>>> sketched_qr(const X& x) {
  auto rows = sketch(x, 1);
  const Index d = rows.shape()[0], n = x.shape()[1];
  count_work(x.mesh(), 4 * d * n * n, 0, "qr");
  finished_of<decltype(gram(x))> l(x.mesh(), {n, n});
  auto* const lower = l.writable().data;
  kernel::detail::qr_of_block(d, n, rows.writable().data, lower);
  make_positive(n, lower);
  kernel::detail::mapped(n, n, lower).transposeInPlace();
  return cholesky_qr_after(&x, X(x.mesh(), x.shape()), l, limit_after_a_sketch, n);
}

template <TensorType X>
constexpr Qr<X, whole_of<X>> tsqr(const X& x) {
  using T = typename X::Element;
  constexpr AxisSet cutting = X::layout.axes_sharding(0);
  const auto& mesh = x.mesh();
  const Index n = x.shape()[1], rows = x.local_shape()[0], k = std::min(rows, n);
  count_work(mesh, 4 * rows * n * k, 4 * rows * n * Index{sizeof(T)}, "qr");
  X reflections(mesh, x.shape()), q(mesh, x.shape());
  if (!mesh.dry()) std::copy_n(x.data(), rows * n, reflections.writable().data);
  if constexpr (cutting == 0) {
    whole_of<X> r(mesh, {n, n});
    if (!mesh.dry()) kernel::qr(rows, n, reflections.writable().data, r.writable().data, q.writable().data);
    return {q, r};
  } else {
    // Blocks of balanced rows give blocks of balanced min(rows, n), so the factors of all ranks are one tensor.
    const Index blocks = group_size(mesh.sizes(), X::MeshOf::axes, cutting);
    X factors(mesh, {x.shape()[0] / blocks >= n ? blocks * n : x.shape()[0], n});
    std::optional<kernel::HouseholderQr<T>> f;
    if (!mesh.dry()) f.emplace(rows, n, reflections.writable().data, factors.writable().data);
    constexpr int last = std::bit_width(cutting) - 1;
    constexpr Layout gathered =
        Layout::by_axis(X::MeshOf::axes, [](int axis) { return axis == last ? replicate : X::layout[axis]; });
    const auto upper = tsqr(redistribute_to<with_layout<X, packed(gathered)>>(std::move(factors)));
    const X own = redistribute_to<X>(upper.q);
    if (f) f->multiply(n, own.data(), q.writable().data);
    return {q, upper.r};
  }
}

/// a · w, where w is whole on every rank: its first `columns` columns.
template <TensorType A, TensorType W>
constexpr A times_columns(const A& a, const W& w, Index columns) {
  A y(a.mesh(), {a.shape()[0], columns});
  const Index m = a.local_shape()[0], k = a.shape()[1];
  count_work(a.mesh(), 2 * m * k * columns, m * (k + columns) * Index{sizeof(typename A::Element)});
  if (!a.mesh().dry()) {
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, m, columns, k, a.data(), k, w.data(),
                 w.shape()[1], y.writable().data, columns, false);
  }
  return y;
}

/// Throws unless the `count` elements of a factor are finite.
template <class T>
void check_finite(const char* name, Index count, const T* r) {
  const kernel::NonFinite bad = kernel::count_non_finite(count, r);
  if (bad.nans + bad.infinities > 0) {
    fail<std::runtime_error>({name, ": the matrix has NaN or infinity, or its norm overflows"});
  }
}

/// Makes the diagonal of r positive, and throws unless r is finite.
template <class Q, class R>
void make_unique(Qr<Q, R>& f) {
  const auto r = f.r.writable();
  const auto q = f.q.writable();
  const Index n = r.columns();
  check_finite("qr", r.elements(), r.data);
  const auto signs = make_positive(n, r.data);
  if ((signs < 0).any()) kernel::detail::mapped(q.rows(), n, q.data).array().rowwise() *= signs;
}

}  // namespace detail

/// x: [m, n] with m ≥ n, float or double; q: [m, n], laid out as x; r: [n, n] on every rank, with a positive diagonal,
/// which makes both unique. Columns that depend on the others give zeros, or rounding errors, on the diagonal of r.
/// Of a `Var`, q and r are `Var`s, and the method is `cholesky2`, the only one with a gradient. Throws
/// `std::invalid_argument` if m < n. All ranks throw the same `std::runtime_error` if x is not finite, or if
/// `cholesky2` fails and is the only choice. Collective over the axes that cut x.
template <Operand X, WellFormed Q = detail::factored<detail::QrLayout, X>>
constexpr auto qr(const X& x, QrOptions options = {}) {
  if constexpr (AbstractOperand<X>) {
    return Qr<Q, detail::abstract_result<typename detail::WholeOf<tensor_of<Q>>::type, X>>{};
  } else {
    const auto& block = value_of(x);
    common_mesh(block);
    if (block.shape()[0] < block.shape()[1]) {
      detail::fail({"qr: a matrix of ", block.shape(), " has more columns than rows"});
    }
    constexpr bool is_double = std::is_same_v<typename Q::Element, double>;
    const bool only = options.method == QrMethod::cholesky2 || any_on_tape<X>;
    const double limit = only ? std::numeric_limits<double>::max() : is_double ? 1e7 : 1e3;
    using Tensors = Qr<Q, whole_of<Q>>;
    using Vars = Qr<Var<Q, any_tracked<X>>, Var<whole_of<Q>, any_tracked<X>>>;
    if constexpr (any_on_tape<X>) {
      if (const auto found = detail::cholesky_qr2_on_tape<Vars>(x, limit)) return *found;
    } else {
      if (options.method != QrMethod::tsqr) {
        if (const auto found = detail::cholesky_qr2(block, limit)) return *found;
      }
      if (options.method == QrMethod::automatic && block.shape()[1] >= 48) {
        if (const auto found = detail::sketched_qr(block)) return *found;
      }
      if (options.method != QrMethod::cholesky2) {
        Tensors found = detail::tsqr(block);
        if (!block.mesh().dry()) detail::make_unique(found);
        return found;
      }
    }
    throw std::runtime_error(
        "qr: the columns of the matrix are too close to dependent for CholeskyQR2, or not finite");
  }
}
template <class X, IllFormed Why = detail::factored<detail::QrLayout, X>>
Why qr(const X&, QrOptions = {});  // see Why
template <class X>
WrittenOtherwise<Hint::write_options_in_braces_by_name> qr(const X&, QrMethod);

}  // namespace shardwise
