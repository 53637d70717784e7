// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Products, thin QR, Cholesky and equations beside ScaLAPACK's, on the same ranks, with the same BLAS, in turn.
/// ScaLAPACK gets the grid and, of three, the block size with which it is fastest, and a copy of its operands before
/// each call, which is not counted. The matrices of both have equal elements, and a check compares some elements of the
/// results.

#ifndef WITH_SCALAPACK
#include <cstdio>
int main() {
  std::fputs(
      "linear_algebra: ScaLAPACK was not found when this was built (Debian: libscalapack-openmpi-dev)\n",
      stderr);
  return 1;
}
#else

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/linalg/interchange.hpp>
#include <shardwise/linalg/matrix_product.hpp>
#include <shardwise/linalg/qr.hpp>
#include <shardwise/linalg/solve_mixed.hpp>

#include <array>
#include <cmath>
#include <functional>

#include "support.hpp"

extern "C" {
void Cblacs_get(int, int, int*);
void Cblacs_gridinit(int*, const char*, int, int);
void Cblacs_gridinfo(int, int*, int*, int*, int*);
void Cblacs_gridexit(int);
int numroc_(const int*, const int*, const int*, const int*, const int*);
void descinit_(int*, const int*, const int*, const int*, const int*, const int*, const int*, const int*,
               const int*, int*);
void pdgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
             const int*, const int*, const int*, const double*, const int*, const int*, const int*,
             const double*, double*, const int*, const int*, const int*);
void pdpotrf_(const char*, const int*, double*, const int*, const int*, const int*, int*);
void pdgesv_(const int*, const int*, double*, const int*, const int*, const int*, int*, double*, const int*,
             const int*, const int*, int*);
void pdgeqrf_(const int*, const int*, double*, const int*, const int*, const int*, double*, double*,
              const int*, int*);
void pdgemr2d_(const int*, const int*, const double*, const int*, const int*, const int*, double*, const int*,
               const int*, const int*, const int*);
void pdorgqr_(const int*, const int*, const int*, double*, const int*, const int*, const int*, const double*,
              double*, const int*, int*);
}

namespace sw = shardwise;
using sw::Index;

namespace {

struct rows {
  static constexpr const char* name = "rows";
};
struct columns {
  static constexpr const char* name = "columns";
};
using Grid = sw::Mesh<rows, columns>;
using Line = sw::Mesh<rows>;

/// An element of a matrix by its indices, in [-1, 1).
double element(Index i, Index j) {
  std::uint64_t z =
      (static_cast<std::uint64_t>(i) << 32 | static_cast<std::uint64_t>(j)) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}
using Element = std::function<double(Index, Index)>;
Element positive(Index n) {
  return [n](Index i, Index j) {
    return element(std::min(i, j), std::max(i, j)) + (i == j ? static_cast<double>(n) : 0);
  };
}

template <class X>
X filled(const typename X::MeshOf& mesh, Index m, Index n, const Element& f) {
  X x(mesh, {m, n});
  const auto view = x.writable();
  for (Index i = 0; i < view.size[0]; ++i) {
    for (Index j = 0; j < view.size[1]; ++j)
      view.data[i * view.size[1] + j] = f(view.begin[0] + i, view.begin[1] + j);
  }
  return x;
}

/// ScaLAPACK's ranks and blocks.
struct Blacs {
  int context = 0, p = 0, q = 0, row = 0, column = 0, block = 64;
  Blacs(int rows_of_grid, int columns_of_grid, int size) : block(size) {
    Cblacs_get(-1, 0, &context);
    Cblacs_gridinit(&context, "Row", rows_of_grid, columns_of_grid);
    Cblacs_gridinfo(context, &p, &q, &row, &column);
  }
  Blacs(const Blacs&) = delete;
  ~Blacs() { Cblacs_gridexit(context); }
};
struct Dealt {
  int m, n, descriptor[9]{};
  std::vector<double> first, now;
  Dealt(const Blacs& on, Index extent, Index width, const Element& f)
      : m(static_cast<int>(extent)), n(static_cast<int>(width)) {
    const int zero = 0, local = std::max(1, numroc_(&m, &on.block, &on.row, &zero, &on.p)),
              wide = numroc_(&n, &on.block, &on.column, &zero, &on.q);
    int info = 0;
    descinit_(descriptor, &m, &n, &on.block, &on.block, &zero, &zero, &on.context, &local, &info);
    first.resize(static_cast<std::size_t>(local) * static_cast<std::size_t>(std::max(1, wide)));
    const auto global = [&](int i, int at, int ranks) {
      return Index{i / on.block * ranks + at} * on.block + i % on.block;
    };
    for (int j = 0; j < wide; ++j) {
      for (int i = 0; i < numroc_(&m, &on.block, &on.row, &zero, &on.p); ++i) {
        first[static_cast<std::size_t>(j) * static_cast<std::size_t>(local) + static_cast<std::size_t>(i)] =
            f(global(i, on.row, on.p), global(j, on.column, on.q));
      }
    }
    now = first;
  }
};
/// Runs ScaLAPACK's routine on operands that `reset` has restored.
struct Theirs {
  std::function<void()> reset, run;
};
using Maker = std::function<Theirs(const Blacs&)>;

int repetitions = 7;

void compare(const std::string& what, const std::function<void()>& ours, const Maker& make) {
  const int ranks = sw::world().size();
  std::array<int, 3> best{1, ranks, 64};
  double least = 1e30;
  for (int p = 1; p <= ranks; ++p) {
    for (const int block : {32, 64, 128}) {
      if (ranks % p != 0) continue;
      const Blacs on(p, ranks / p, block);
      const Theirs theirs = make(on);
      for (int i = 0; i < 2; ++i) {
        theirs.reset();
        const double seconds = benchmarks::seconds_of_slowest(theirs.run);
        if (i > 0 && seconds < least) least = seconds, best = {p, ranks / p, block};
      }
    }
  }
  const Blacs on(best[0], best[1], best[2]);
  const Theirs theirs = make(on);
  std::vector<double> mine, peer, ratios;
  for (int i = 0; i < repetitions + 1; ++i) {
    theirs.reset();
    double own = 0;
    if (i % 2 == 0) own = benchmarks::seconds_of_slowest(ours);
    const double other = benchmarks::seconds_of_slowest(theirs.run);
    if (i % 2 == 1) own = benchmarks::seconds_of_slowest(ours);
    if (i == 0) continue;
    mine.push_back(own), peer.push_back(other), ratios.push_back(other / own);
  }
  if (sw::world().rank() != 0) return;
  std::printf(
      "%-28s %8.4f s, ScaLAPACK %8.4f s (%d x %d, blocks of %d): %.2f times as fast (quartiles %.2f, %.2f)\n",
      what.c_str(), benchmarks::median(mine), benchmarks::median(peer), best[0], best[1], best[2],
      benchmarks::median(ratios), benchmarks::quantile(ratios, 0.25), benchmarks::quantile(ratios, 0.75));
  std::fflush(stdout);
}

std::string sizes(const char* what, Index m, Index n, Index k = 0) {
  return std::string(what) + " " + std::to_string(m) + " x " + std::to_string(n) +
         (k > 0 ? " x " + std::to_string(k) : "");
}
constexpr int one = 1;

void check(const char* what, double found, double expected, double scale) {
  if (std::abs(found - expected) <= 1e-10 * scale) return;
  throw std::runtime_error(std::string("linear_algebra: ") + what + " is wrong: " + std::to_string(found) +
                           ", expected " + std::to_string(expected));
}

template <class A, class B, class C>
void product(const typename A::MeshOf& mesh, Index m, Index n, Index k) {
  const auto of_b = [](Index i, Index j) { return element(i + 77777, j); };
  const A a = filled<A>(mesh, m, k, element);
  const B b = filled<B>(mesh, k, n, of_b);
  C c;
  const auto multiply = [&]<class... To>(sw::Tensor<double, 2, typename A::MeshOf, To...>&) {
    c = sw::matrix_product<To...>(a, b);
  };
  multiply(c);
  const auto view = c.view();
  for (const Index i : {Index{0}, view.size[0] / 2}) {
    if (view.elements() == 0) break;
    double sum = 0;
    for (Index l = 0; l < k; ++l) sum += element(view.begin[0] + i, l) * of_b(l, view.begin[1]);
    check("a product", view.data[i * view.size[1]], sum, static_cast<double>(k));
  }
  compare(
      sizes("product", m, n, k), [&] { multiply(c); },
      [&](const Blacs& on) -> Theirs {
        auto x = std::make_shared<Dealt>(on, m, k, element), y = std::make_shared<Dealt>(on, k, n, of_b),
             z = std::make_shared<Dealt>(on, m, n, [](Index, Index) { return 0.; });
        return {[] {},
                [=] {
                  const double alpha = 1, beta = 0;
                  pdgemm_("N", "N", &x->m, &y->n, &x->n, &alpha, x->now.data(), &one, &one, x->descriptor,
                          y->now.data(), &one, &one, y->descriptor, &beta, z->now.data(), &one, &one,
                          z->descriptor);
                }};
      });
}

void thin_qr(const Line& mesh, Index m, Index n, sw::QrMethod method, const char* what) {
  using X = sw::Tensor<double, 2, Line, sw::Shard<0> >;
  const X x = filled<X>(mesh, m, n, element);
  compare(
      sizes(what, m, n), [&] { sw::qr(x, {.method = method}); },
      [&](const Blacs& on) -> Theirs {
        auto a = std::make_shared<Dealt>(on, m, n, element);
        auto tau = std::make_shared<std::vector<double> >(static_cast<std::size_t>(n)),
             work = std::make_shared<std::vector<double> >(1);
        int info = 0, ask = -1;
        double best = 0;
        pdgeqrf_(&a->m, &a->n, a->now.data(), &one, &one, a->descriptor, tau->data(), work->data(), &ask,
                 &info);
        pdorgqr_(&a->m, &a->n, &a->n, a->now.data(), &one, &one, a->descriptor, tau->data(), &best, &ask,
                 &info);
        work->resize(static_cast<std::size_t>(std::max(best, work->front())) + 1);
        return {[=] { a->now = a->first; },
                [=] {
                  int failed = 0;
                  const int size = static_cast<int>(work->size());
                  pdgeqrf_(&a->m, &a->n, a->now.data(), &one, &one, a->descriptor, tau->data(), work->data(),
                           &size, &failed);
                  pdorgqr_(&a->m, &a->n, &a->n, a->now.data(), &one, &one, a->descriptor, tau->data(),
                           work->data(), &size, &failed);
                }};
      });
}

void cholesky(const Line& mesh, Index n, bool check, const char* what) {
  using X = sw::Tensor<double, 2, Line, sw::Shard<0> >;
  const X a = filled<X>(mesh, n, n, positive(n));
  compare(
      sizes(what, n, n), [&] { const sw::CholeskyFactor factor(a, {.check_symmetry = check}); },
      [&](const Blacs& on) -> Theirs {
        auto x = std::make_shared<Dealt>(on, n, n, positive(n));
        return {[=] { x->now = x->first; },
                [=] {
                  int info = 0;
                  pdpotrf_("L", &x->m, x->now.data(), &one, &one, x->descriptor, &info);
                }};
      });
}

/// The seconds of one function beside those of another, in turn.
void compare_own(const std::string& what, const std::function<void()>& ours,
                 const std::function<void()>& plain) {
  std::vector<double> mine, other, ratios;
  for (int i = 0; i < repetitions + 1; ++i) {
    const double before = benchmarks::seconds_of_slowest(plain), own = benchmarks::seconds_of_slowest(ours);
    if (i == 0) continue;
    mine.push_back(own), other.push_back(before), ratios.push_back(before / own);
  }
  if (sw::world().rank() != 0) return;
  std::printf("%-28s %8.4f s, in double %8.4f s: %.2f times as fast (quartiles %.2f, %.2f)\n", what.c_str(),
              benchmarks::median(mine), benchmarks::median(other), benchmarks::median(ratios),
              benchmarks::quantile(ratios, 0.25), benchmarks::quantile(ratios, 0.75));
  std::fflush(stdout);
}

void equations(const Line& mesh, Index n, Index r) {
  using X = sw::Tensor<double, 2, Line, sw::Shard<0> >;
  const X a = filled<X>(mesh, n, n, element),
          b = filled<X>(mesh, n, r, [](Index i, Index j) { return element(i + 77777, j); });
  compare_own(
      sizes("solve_mixed", n, n, r), [&] { sw::solve_mixed(a, b); }, [&] { sw::solve(a, b); });
  compare(
      sizes("solve", n, n, r), [&] { sw::solve(a, b); },
      [&](const Blacs& on) -> Theirs {
        auto x = std::make_shared<Dealt>(on, n, n, element),
             y = std::make_shared<Dealt>(on, n, r, [](Index i, Index j) { return element(i + 77777, j); });
        auto pivots = std::make_shared<std::vector<int> >(static_cast<std::size_t>(n + on.block * 2));
        return {[=] { x->now = x->first, y->now = y->first; },
                [=] {
                  int info = 0;
                  pdgesv_(&x->m, &y->n, x->now.data(), &one, &one, x->descriptor, pivots->data(),
                          y->now.data(), &one, &one, y->descriptor, &info);
                }};
      });
}

/// From ScaLAPACK's blocks to rows, and back.
void interchange(const Line& mesh, Index n) {
  const int p = sw::world().size();
  const auto elements = [](Index i, Index j) { return element(i, j); };
  std::shared_ptr<Dealt> mine;
  std::optional<Blacs> on;
  compare(
      sizes("from blocks, and to them,", n, n),
      [&] {
        const sw::BlockCyclic blocks{mine->descriptor, on->p, on->q, on->row, on->column};
        const auto x = sw::from_block_cyclic<sw::Shard<0> >(mesh, blocks, mine->now.data());
        sw::to_block_cyclic(x, blocks, mine->now.data());
      },
      [&](const Blacs& grid) -> Theirs {
        on.emplace(grid.p, grid.q, grid.block);
        mine = std::make_shared<Dealt>(*on, n, n, elements);
        auto a = std::make_shared<Dealt>(grid, n, n, elements);
        auto line = std::make_shared<Blacs>(p, 1, static_cast<int>((n + p - 1) / p));
        auto rows = std::make_shared<Dealt>(*line, n, n, elements);
        return {[] {},
                [=, context = grid.context, alive = line] {
                  pdgemr2d_(&a->m, &a->n, a->now.data(), &one, &one, a->descriptor, rows->now.data(), &one,
                            &one, rows->descriptor, &context);
                  pdgemr2d_(&a->m, &a->n, rows->now.data(), &one, &one, rows->descriptor, a->now.data(), &one,
                            &one, a->descriptor, &context);
                }};
      });
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    CLI::App app{"Products, QR, Cholesky and equations, in double, beside ScaLAPACK"};
    std::vector<Index> squares{1024, 2048, 4096}, factors{2048, 4096};
    std::string only;
    app.add_option("--squares", squares, "extents of square products");
    app.add_option("--factors", factors, "extents of matrices to factorize");
    app.add_option("--repetitions", repetitions, "of each, in turn");
    app.add_option("--only", only, "product, qr, cholesky, solve or interchange");
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    const int ranks = sw::world().size(), tall = ranks % 2 == 0 && ranks > 2 ? 2 : 1;
    const Grid grid(sw::world(), {tall, sw::any});
    const Line line(sw::world(), {sw::any});
    const auto runs = [&](const char* what) { return only.empty() || only == what; };
    if (runs("product")) {
      using Blocks = sw::Tensor<double, 2, Grid, sw::Shard<0>, sw::Shard<1> >;
      using Rows = sw::Tensor<double, 2, Line, sw::Shard<0> >;
      for (const Index n : squares) product<Blocks, Blocks, Blocks>(grid, n, n, n);
      product<Rows, Rows, Rows>(line, 65536, 256, 256);
    }
    if (runs("qr")) {
      thin_qr(line, 65536, 64, sw::QrMethod::automatic, "qr, automatic");
      thin_qr(line, 65536, 64, sw::QrMethod::tsqr, "qr, tsqr");
    }
    for (const Index n : factors) {
      if (runs("cholesky")) {
        cholesky(line, n, true, "Cholesky");
        cholesky(line, n, false, "Cholesky, unchecked");
      }
      if (runs("solve")) equations(line, n, 1);
      if (runs("interchange")) interchange(line, n);
    }
    return 0;
  });
}

#endif
