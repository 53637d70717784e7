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
/// A Chebyshev polynomial of the matrix enlarges the wanted parts of a block of vectors (Zhou, Saad, Tiago and
/// Chelikowsky, "Self-consistent-field calculations using Chebyshev-filtered subspace iteration", 2006). `eigsh` keeps
/// each block, not only the last one: a block Krylov space of the polynomial (Fang and Saad, "A filtered Lanczos
/// procedure for extreme and interior eigenvalue problems", 2012). Few eigenvectors are not accurate then. The space
/// grows by their filtered residuals, which may be computed in float (Kodali, Ramakrishnan and Motamarri,
/// "Residual-based Chebyshev filtered subspace iteration", 2025), each with the degree that it needs (Winkelmann,
/// Springer and Di Napoli, "ChASE", 2019). At last a filtered block of random vectors looks for what was missed.

#include <shardwise/linalg/functions.hpp>
#include <shardwise/linalg/lstsq.hpp>

namespace shardwise {

enum class SpectrumEnd { smallest, largest };

/// How `eigsh` computes.
struct EigshOptions {
  SpectrumEnd end = SpectrumEnd::smallest;
  double tolerance = 0;  ///< of ‖a v - λ v‖, relative to ‖a‖; 0 stands for ε · max(10, √n)
  int max_steps = 100;   ///< extensions of the first space
  bool check_symmetry = true;
};

namespace detail {

/// A space that comes to contain the eigenvectors of the k smallest eigenvalues of scale · a.
template <TensorType A>
class ChebyshevSpace {
  using T = typename A::Element;
  using Low = tensor_with<float, 2, typename A::MeshOf, packed(A::layout)>;
  using Numbers = std::vector<double>;

 public:
  constexpr ChebyshevSpace(const A& a, Index k, T scale, const EigshOptions& options)
      : a_(a),
        n_(a.shape()[0]),
        m_(a.local_shape()[0]),
        k_(k),
        kept_(k + k / 2 + 32),
        scale_(scale),
        steps_(options.max_steps),
        relative_(options.tolerance),
        v_(a.mesh(), {n_, 3 * k + 80}),
        av_(a.mesh(), v_.shape()) {
    if (relative_ <= 0)
      relative_ = std::numeric_limits<T>::epsilon() * std::max(10., root(2, static_cast<double>(n_)));
    if (dry()) return;
    low_.resize(static_cast<std::size_t>(m_ * n_));
    std::transform(a.data(), a.data() + m_ * n_, low_.begin(),
                   [=](T x) { return static_cast<float>(x * scale); });
  }
  /// Returns false where `eigh` of the whole matrix is the shorter way.
  constexpr bool solve() {
    const int degree = estimate();
    A z = random(std::max<Index>(16, k_ / 7), 1);
    while (append(z)) z = enlarged(z, degree);
    rayleigh_ritz();
    int steps = 0;
    for (bool checked = false; !checked; ++steps) {
      const std::vector<Index> left = unfinished();
      const double last = value(k_ - 1);
      checked = left.empty();
      if (!checked && is_expensive()) return false;
      if (steps >= steps_) fail_to_converge(left, steps);
      if (steps % 8 == 7) compute_again();
      checked ? look_for_missed() : refine(left);
      rayleigh_ritz();
      // A vector that was missed makes values smaller.
      checked = checked && (dry() || (value(k_ - 1) > last - 4 * tolerance() && unfinished().empty()));
    }
    return true;
  }
  constexpr double value(Index i) const { return dry() ? 0 : values_[static_cast<std::size_t>(i)]; }
  /// The vectors, and the number of columns of a row.
  constexpr const T* vectors() const { return v_.data(); }
  constexpr Index columns() const { return v_.shape()[1]; }

 private:
  constexpr bool dry() const { return a_.mesh().dry(); }
  /// Whether products have taken more than twice the work of `eigh` on every rank, of a matrix that fits there.
  constexpr bool is_expensive() const {
    constexpr AxisSet cut = A::layout.axes_sharding(0);
    const double n = static_cast<double>(n_);
    return n_ <= 8192 && columns_multiplied_ > 10 * n * group_size(a_.mesh().sizes(), A::MeshOf::axes, cut);
  }
  constexpr double tolerance() const { return relative_ * norm(); }
  double norm() const { return std::max(std::abs(lowest_), std::abs(upper_)); }
  constexpr double center() const { return (cut_ + upper_) / 2; }
  constexpr double half() const { return (upper_ - cut_) / 2; }
  /// The degree that enlarges what belongs to this eigenvalue by a factor. The lowest one grows faster: by at most
  /// `spread` more, because its rounding errors hide the others.
  int degree_for(double factor, double value, double spread, int most) const {
    const auto growth_of = [&](double x) { return std::acosh(std::max(1 + 1e-6, (center() - x) / half())); };
    const double growth = growth_of(value), faster = growth_of(lowest_) - growth;
    double degree = std::ceil(std::log(2 * factor) / growth);
    if (faster > 0) degree = std::min(degree, std::log(spread) / faster);
    return static_cast<int>(std::clamp(degree, 1., static_cast<double>(most)));
  }
  constexpr void sum(auto* data, Index count) const {
    constexpr AxisSet cut = A::layout.axes_sharding(0);
    constexpr DataType type = data_type_of<std::remove_pointer_t<decltype(data)>>();
    MeshView(a_.mesh()).all_reduce(data, count, type, ReduceOp::sum, cut);
  }
  constexpr A random(Index columns, std::uint64_t seed) const {
    A z(a_.mesh(), {n_, columns});
    fill_normal(z, seed);
    return z;
  }
  /// The products of the columns of x with those of y.
  template <class X>
  constexpr Numbers products(const X& x, const X& y) const {
    const Index w = x.shape()[1];
    Numbers sums(static_cast<std::size_t>(w), 0.);
    for (Index i = 0; i < m_ * w && !dry(); ++i)
      sums[static_cast<std::size_t>(i % w)] +=
          static_cast<double>(x.data()[i]) * static_cast<double>(y.data()[i]);
    sum(sums.data(), w);
    return sums;
  }
  /// x · diag(of_x) + y · diag(of_y), written to x.
  template <class X>
  void combine(X& x, const Numbers& of_x, const X& y, const Numbers& of_y) const {
    using E = typename X::Element;
    const std::vector<E> f(of_x.begin(), of_x.end()), g(of_y.begin(), of_y.end());
    const Index w = std::ssize(f);
    E* to = x.writable().data;
    const E* from = y.data();
    for (Index i = 0; i < m_; ++i, to += w, from += w) {
      for (Index j = 0; j < w; ++j)
        to[j] = f[static_cast<std::size_t>(j)] * to[j] + g[static_cast<std::size_t>(j)] * from[j];
    }
  }
  /// y += scale · a · x · diag(factors), where every rank gathers x.
  template <class X>
  constexpr void add_product(X& y, const X& x, const Numbers& factors) {
    using E = typename X::Element;
    const Index w = x.shape()[1];
    auto whole = redistribute_to<whole_of<X>>(x);
    columns_multiplied_ += static_cast<double>(w);
    count_work(a_.mesh(), 2 * m_ * n_ * w, (m_ * (n_ + w) + n_ * w) * Index{sizeof(E)}, "eigsh");
    if (dry()) return;
    const E *matrix, scale = std::is_same_v<E, float> ? E{1} : static_cast<E>(scale_);
    if constexpr (std::is_same_v<E, float>) {
      matrix = low_.data();
    } else {
      matrix = a_.data();
    }
    E* const z = whole.writable().data;
    for (Index i = 0; i < n_ * w; ++i)
      z[i] *= scale * static_cast<E>(factors[static_cast<std::size_t>(i % w)]);
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, m_, w, n_, matrix, n_, z, w, y.writable().data,
                 w, true);
  }
  template <class X>
  constexpr X zero(Index columns) const {
    X y(a_.mesh(), {n_, columns});
    if (!dry()) std::fill_n(y.writable().data, m_ * columns, 0);
    return y;
  }
  constexpr A product(const A& x) {
    A y = zero<A>(x.shape()[1]);
    add_product(y, x, Numbers(static_cast<std::size_t>(x.shape()[1]), 1.));
    return y;
  }

  /// Bounds of the spectrum, and the end of the kept eigenvalues, by Lanczos's iteration from four random vectors: the
  /// squares of first components are a density of eigenvalues. Returns a degree for the first space.
  constexpr int estimate() {
    constexpr Index runs = 4, steps = 20;
    const Numbers ones(runs, 1.);
    Low v(a_.mesh(), {n_, runs}), before = zero<Low>(runs);
    fill_normal(v, 2);
    Numbers alpha(runs, 0.), beta(runs, 0.), t(runs * steps * steps, 0.);
    const auto normalize = [&](Low& x) {
      beta = products(x, x);
      for (double& b : beta) b = dry() ? 1 : std::sqrt(b);
      Numbers inverse(runs, 0.);
      for (std::size_t j = 0; j < runs; ++j) inverse[j] = beta[j] > 0 ? 1 / beta[j] : 0;
      if (!dry()) combine(x, inverse, x, Numbers(runs, 0.));
    };
    normalize(v);
    beta.assign(runs, 0.);
    for (Index step = 0; step < steps; ++step) {
      if (!dry()) combine(before, {-beta[0], -beta[1], -beta[2], -beta[3]}, v, Numbers(runs, 0.));
      add_product(before, v, ones);
      alpha = products(before, v);
      if (!dry()) combine(before, ones, v, {-alpha[0], -alpha[1], -alpha[2], -alpha[3]});
      normalize(before);
      std::swap(before, v);
      for (std::size_t j = 0; j < runs; ++j) {
        double* const place = t.data() + (static_cast<Index>(j) * steps + step) * steps + step;
        *place = alpha[j];
        if (step + 1 < steps) place[1] = place[steps] = beta[j];
      }
    }
    if (dry()) return 8;
    bound(t, beta);
    return degree_for(10, cut_of_[0], 1e10, 24);
  }
  void bound(const Numbers& t, const Numbers& beta) {
    const std::size_t steps = 20, runs = 4;
    std::vector<std::pair<double, double>> density;
    upper_ = -HUGE_VAL;
    for (std::size_t j = 0; j < runs; ++j) {
      Numbers w(steps), y(steps * steps);
      kernel::eigh<double>(static_cast<Index>(steps), t.data() + j * steps * steps, w.data(), y.data());
      double largest = 0;
      for (std::size_t i = 0; i < steps; ++i) {
        density.emplace_back(w[i], y[i] * y[i] / static_cast<double>(runs));
        largest = std::max(largest, std::abs(y[(steps - 1) * steps + i]));
      }
      upper_ = std::max(upper_, w.back() + beta[j] * largest);
    }
    std::sort(density.begin(), density.end());
    lowest_ = density[0].first;
    const double size = std::max(std::abs(lowest_), std::abs(upper_));
    upper_ += size > 0 ? 1e-4 * size : 1;
    const auto end_of = [&](Index count) {
      double sum = 0, last = 0, at = lowest_;
      for (const auto& [value, weight] : density) {
        const double now = sum + weight / 2, share = static_cast<double>(count) / static_cast<double>(n_);
        if (now >= share) return now > last ? at + (value - at) * (share - last) / (now - last) : value;
        sum += weight, last = now, at = value;
      }
      return upper_;
    };
    cut_of_ = {end_of(k_), end_of(kept_)};
    set_cut(cut_of_[0], cut_of_[1], 0.005);
  }
  /// A filter needs some distance between the wanted eigenvalues and what it damps.
  void set_cut(double wanted, double end, double least) {
    const double range = upper_ - lowest_;
    cut_ = std::min(std::max(end, wanted + least * range), upper_ - 0.1 * range);
  }

  /// Continues a Chebyshev recurrence from its terms 0 and 1 to `degree`, with `residual`, if given, added in each step.
  /// Columns are divided by the value of the polynomial at `at`, which is at most -1.
  template <class X>
  constexpr X filtered(X before, X now, const X* residual, const Numbers& at, int degree) {
    const std::size_t w = at.size();
    Numbers ratio(w, 1.), of_before(w, 1.), of_now(w, 1.), factors(w, 1.);
    for (std::size_t j = 0; j < w; ++j) ratio[j] = 1 / at[j];
    for (int d = 2; d <= degree; ++d) {
      for (std::size_t j = 0; j < w && !dry(); ++j) {
        const double next = 1 / (2 * at[j] - ratio[j]);
        of_before[j] = -ratio[j] * next;
        ratio[j] = next;
        factors[j] = 2 * next / half();
        of_now[j] = -center() * factors[j];
      }
      if (!dry()) combine(before, of_before, now, of_now);
      if (!dry() && residual) combine(before, Numbers(w, 1.), *residual, factors);
      add_product(before, now, factors);
      std::swap(before, now);
    }
    return now;
  }
  /// A polynomial of the matrix times z, of which `product_` is the product.
  constexpr A enlarged(const A& z, int degree) {
    const std::size_t w = static_cast<std::size_t>(z.shape()[1]);
    const double at = dry() ? -1 : std::min(-1., (lowest_ - center()) / half());
    A now = product_;
    if (!dry()) combine(now, Numbers(w, 1 / (at * half())), z, Numbers(w, -center() / (at * half())));
    return filtered<A>(z, std::move(now), nullptr, Numbers(w, at), degree);
  }

  /// Makes z orthonormal, also to the space.
  constexpr void orthonormalize(A& z) const {
    using enum kernel::Transpose;
    const Index w = z.shape()[1], bytes = Index{sizeof(T)};
    bool done = false;
    for (int pass = 0; pass < 4 && !done; ++pass) {
      if (size_ > 0) {
        whole_of<A> along(a_.mesh(), {size_, w});
        T* const sums = dry() ? nullptr : along.writable().data;
        count_work(a_.mesh(), 4 * m_ * size_ * w, 2 * m_ * (size_ + w) * bytes, "eigsh");
        if (!dry()) kernel::gemm(yes, no, size_, w, m_, v_.data(), columns(), z.data(), w, sums, w, false);
        sum(sums, size_ * w);
        if (!dry())
          kernel::subtract_product(no, no, m_, w, size_, v_.data(), columns(), sums, w, z.writable().data, w);
      }
      auto f = qr(z);
      z = std::move(f.q);
      T least = 1;
      for (Index i = 0; i < w && !dry(); ++i) least = std::min(least, f.r.data()[i * (w + 1)]);
      done = pass > 0 && least > T{0.5};  // else z was nearly dependent, and is made of rounding errors
    }
  }
  /// Makes z orthonormal, adds it to the space, and computes its product. Returns false if there is no room for more.
  constexpr bool append(A& z) {
    const Index w = std::min(z.shape()[1], columns() - size_);
    if (w < z.shape()[1]) {
      A first(a_.mesh(), {n_, w});
      copy(z, 0, first, 0, w);
      z = std::move(first);
    }
    orthonormalize(z);
    product_ = product(z);
    copy(z, 0, v_, size_, w);
    copy(product_, 0, av_, size_, w);
    size_ += w;
    return size_ < columns();
  }
  constexpr void copy(const A& from, Index first, A& to, Index at, Index count) const {
    const Index wide = from.shape()[1], width = to.shape()[1];
    T* const y = dry() ? nullptr : to.writable().data;
    for (Index i = 0; i < m_ && !dry(); ++i)
      std::copy_n(from.data() + i * wide + first, count, y + i * width + at);
  }

  /// Reduces the space to its approximate eigenvectors of the smallest values.
  constexpr void rayleigh_ritz() {
    using enum kernel::Transpose;
    whole_of<A> small(a_.mesh(), {size_, size_}), y(a_.mesh(), {size_, size_});
    T* const h = dry() ? nullptr : small.writable().data;
    count_work(a_.mesh(), 2 * m_ * size_ * (size_ + 2 * kept_) + 9 * size_ * size_ * size_, 0, "eigsh");
    if (!dry())
      kernel::gemm(yes, no, size_, size_, m_, v_.data(), columns(), av_.data(), columns(), h, size_, false);
    sum(h, size_ * size_);
    A x(a_.mesh(), {n_, kept_}), ax(a_.mesh(), {n_, kept_});
    if (!dry()) {
      std::vector<T> values(static_cast<std::size_t>(size_));
      if (!kernel::eigh(size_, h, values.data(), y.writable().data))
        throw std::runtime_error(
            "eigsh: the iteration for the eigenvalues of a small matrix did not converge");
      values_.assign(values.begin(), values.begin() + kept_);
      const auto times_y = [&](const A& from, A& to) {
        kernel::gemm(no, no, m_, kept_, size_, from.data(), columns(), y.data(), size_, to.writable().data,
                     kept_, false);
      };
      times_y(v_, x);
      times_y(av_, ax);
      lowest_ = std::min(lowest_, values_[0]);
      upper_ = std::max(upper_, static_cast<double>(values.back()));
      set_cut(values_[static_cast<std::size_t>(k_ - 1)], values_.back(), 0.0002);
    }
    copy(x, 0, v_, 0, kept_);
    copy(ax, 0, av_, 0, kept_);
    size_ = kept_;
    if (!dry()) {
      Numbers minus(values_);
      for (double& value : minus) value = -value;
      combine(ax, Numbers(minus.size(), 1.), x, minus);
    }
    residuals_ = products(ax, ax);
    for (double& r : residuals_) r = dry() ? 0 : std::sqrt(r);
    residual_vectors_ = std::move(ax);
  }
  /// The wanted vectors that are not accurate, and all others that are kept if some are far from it.
  constexpr std::vector<Index> unfinished() const {
    std::vector<Index> left;
    if (dry()) return left;
    for (Index i = 0; i < k_; ++i)
      if (!(residual(i) <= tolerance())) left.push_back(i);
    const auto far = [&](Index i) { return residual(i) > 1e-5 * norm(); };
    if (!std::any_of(left.begin(), left.end(), far)) return left;
    for (Index i = k_; i < kept_; ++i) left.push_back(i);
    return left;
  }
  constexpr double residual(Index i) const { return residuals_[static_cast<std::size_t>(i)]; }

  /// Adds filtered residuals.
  void refine(const std::vector<Index>& left) {
    const Index count = std::ssize(left), groups = std::max<Index>(1, count / 64);
    A all(a_.mesh(), {n_, count});
    for (Index group = 0; group < groups; ++group) {
      const Index begin = count * group / groups, w = count * (group + 1) / groups - begin;
      Low r(a_.mesh(), {n_, w});
      Numbers at(static_cast<std::size_t>(w)), first(at);
      int degree = 1;
      for (Index j = 0; j < w; ++j) {
        const Index from = left[static_cast<std::size_t>(begin + j)];
        const double size = residual(from), place = std::min(-1., (value(from) - center()) / half());
        // In float a filter gains at most five digits.
        const double factor = std::clamp(4 * size / tolerance(), 4., 1e5);
        if (from < k_) degree = std::max(degree, degree_for(factor, value(from), 1e4, 400));
        at[static_cast<std::size_t>(j)] = place;
        first[static_cast<std::size_t>(j)] = 1 / (place * half());
        for (Index i = 0; i < m_; ++i) {
          const T x = residual_vectors_.data()[i * kept_ + from];
          r.writable().data[i * w + j] = size > 0 ? static_cast<float>(static_cast<double>(x) / size) : 0;
        }
      }
      Low now = zero<Low>(w);
      combine(now, first, r, first);
      const Low z = filtered<Low>(zero<Low>(w), std::move(now), &r, at, degree);
      for (Index i = 0; i < m_ * w; ++i)
        all.writable().data[i / w * count + begin + i % w] = static_cast<T>(z.data()[i]);
    }
    append(all);
  }
  /// Each reduction of the space adds rounding errors to its vectors and their products.
  constexpr void compute_again() {
    A z(a_.mesh(), {n_, size_});
    copy(v_, 0, z, 0, size_);
    size_ = 0;
    append(z);
    rayleigh_ritz();
  }
  constexpr void look_for_missed() {
    A z = random(16, 3);
    orthonormalize(z);
    product_ = product(z);
    z = enlarged(z, dry() ? 8 : degree_for(1e3, value(k_ - 1), 1e10, 100));
    append(z);
  }
  [[noreturn]] void fail_to_converge(const std::vector<Index>& left, int steps) const {
    Index wanted = 0;
    double largest = 0;
    for (const Index i : left) {
      if (i < k_) ++wanted, largest = std::max(largest, residual(i));
    }
    fail<std::runtime_error>({"eigsh: after ", steps, " steps, ", wanted, " of ", k_,
                              " eigenvectors have not converged: the largest residual is ", largest / norm(),
                              " of the norm, and the tolerance ", relative_});
  }

  A a_;
  Index n_, m_, k_, kept_, size_ = 0;
  T scale_;
  int steps_;
  double relative_, columns_multiplied_ = 0, lowest_ = 0, cut_ = 0, upper_ = 0;
  std::array<double, 2> cut_of_{};
  std::vector<float> low_;  ///< scale · a
  A v_, av_;                ///< an orthonormal basis in the first `size_` columns, and its products
  A product_, residual_vectors_;
  Numbers values_, residuals_;
};

template <TensorType A>
constexpr void check_symmetric(const char* name, const A& a) {
  using T = typename A::Element;
  const RankLine line{MeshView(a.mesh()), data_type_of<T>()};
  const AnyTensor x = redistributed_to(AnyTensor(a), line.rows(), line.type);
  check_symmetric<T>(name, line, x, [&](auto visit) {
    for (Index i = 0; i < x.box().size[0]; ++i)
      visit(i, static_cast<const T*>(x.buffer->data) + i * x.shape[1]);
  });
}

}  // namespace detail

/// a: [n, n], float or double, symmetric; rows cut over any number of axes, or whole. With 1 ≤ k ≤ n, `values` is [k], on
/// every rank, in increasing order, of either end; `vectors` is [n, k], laid out as a, and its columns are orthonormal.
/// ‖a v - λ v‖ is at most the tolerance times ‖a‖, the largest magnitude of an eigenvalue; by default ε · max(10, √n)
/// times. If n ≤ 320 or 4 k > n, every rank gathers a and calls `eigh`: that is slow, and needs much memory, for large
/// n. So it does for n ≤ 8192 if values are so close together that products have taken twice that work. Results are the same on any mesh, except for rounding. Throws `std::invalid_argument` if a is not square, or not
/// symmetric (as `eigh` and `CholeskyFactor`), or k is not in 1…n. All ranks throw the same `std::runtime_error` if a
/// is not finite, or if `max_steps` do not suffice. A dry run counts the first space, and no refinement. Collective.
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
    detail::ChebyshevSpace<A> space(a, k, static_cast<typename A::Element>(scale / unit), options);
    if (!space.solve()) {
      take_from_all();
      return y;
    }
    for (Index j = 0; j < k && !mesh.dry(); ++j) {
      const Index from = smallest ? j : k - 1 - j;
      y.values.writable().data[j] = static_cast<typename A::Element>(scale * unit * space.value(from));
      for (Index i = 0; i < own; ++i)
        y.vectors.writable().data[i * k + j] = space.vectors()[i * space.columns() + from];
    }
    return y;
  }
}
template <class A, IllFormed Why = detail::factored_off_tape<detail::QrLayout, A>>
Why eigsh(const A&, Index, EigshOptions = {});  // see Why

}  // namespace shardwise
