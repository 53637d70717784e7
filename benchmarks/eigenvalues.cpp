// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `eigsh` beside ELPA, which computes the same number of eigenvectors, on the same ranks, in turn; with `--full`,
/// `eigh` by ELPA and by ScaLAPACK, with its copies, beside a call of these on blocks of their own. The libraries get
/// the solver, the grid and the block size with which they are fastest. A check compares the eigenvalues.

#ifndef WITH_ELPA
#include <cstdio>
int main() {
  std::fputs("eigenvalues: ELPA was not found when this was built (Debian: libelpa-dev)\n", stderr);
  return 1;
}
#else

#include <elpa/elpa.h>

#include <array>
#include <cmath>
#include <functional>

#include <shardwise/linalg/eigh_linked.hpp>
#include <shardwise/linalg/eigsh.hpp>

#include "support.hpp"

extern "C" {
int Csys2blacs_handle(MPI_Comm);
void Cfree_blacs_system_handle(int);
void Cblacs_gridinit(int*, const char*, int, int);
void Cblacs_gridexit(int);
void pdsyevd_(const char*, const char*, const int*, double*, const int*, const int*, const int*, double*,
              double*, const int*, const int*, const int*, double*, const int*, int*, const int*, int*);
}

namespace sw = shardwise;
using sw::Index;

namespace {

struct rows {
  static constexpr const char* name = "rows";
};
using Line = sw::Mesh<rows>;
using Element = std::function<double(Index, Index)>;

double noise(Index i, Index j) {
  return sw::kernel::normal(1, static_cast<std::uint64_t>(std::max(i, j) * 65536 + std::min(i, j)));
}

using Rows = sw::Tensor<double, 2, Line, sw::Shard<0> >;

/// A matrix in blocks on a grid of all ranks, column by column, and room for its vectors.
struct Blocks {
  int rank = sw::world().rank(), q, row, column, rows = 0, columns = 0;
  std::vector<double> first, now, vectors, values;
  Blocks(int n, int p, int block, const Element& f)
      : q(sw::world().size() / p), row(rank / q), column(rank % q), values(static_cast<std::size_t>(n)) {
    const auto own = [&](int at, int ranks) {
      std::vector<Index> indices;
      for (Index i = 0; i < n; ++i)
        if (i / block % ranks == at) indices.push_back(i);
      return indices;
    };
    const auto of_rows = own(row, p), of_columns = own(column, q);
    rows = static_cast<int>(of_rows.size()), columns = static_cast<int>(of_columns.size());
    for (const Index j : of_columns)
      for (const Index i : of_rows) first.push_back(f(i, j));
    now = vectors = first;
  }
};

class Elpa {
 public:
  static constexpr const char* name = "ELPA";
  static constexpr int solvers = 2;
  Elpa(int n, int wanted, int p, int block, int solver, const Element& f) : blocks(n, p, block, f) {
    int error = 0;
    handle_ = elpa_allocate(&error);
    const auto set = [&](const char* key, int value) { elpa_set_integer(handle_, key, value, &error); };
    set("na", n), set("nev", wanted), set("nblk", block);
    set("local_nrows", blocks.rows), set("local_ncols", blocks.columns);
    set("mpi_comm_parent", MPI_Comm_c2f(MPI_COMM_WORLD)), set("process_row", blocks.row),
        set("process_col", blocks.column);
    if (elpa_setup(handle_) != ELPA_OK) throw std::runtime_error("eigenvalues: ELPA refuses the grid");
    set("solver", solver);
  }
  Elpa(const Elpa&) = delete;
  ~Elpa() {
    int error = 0;
    elpa_deallocate(handle_, &error);
  }
  void run() {
    int error = 0;
    elpa_eigenvectors_a_h_a_d(handle_, blocks.now.data(), blocks.values.data(), blocks.vectors.data(),
                              &error);
    if (error != ELPA_OK) throw std::runtime_error("eigenvalues: ELPA failed");
  }

  Blocks blocks;

 private:
  elpa_t handle_;
};

#ifdef WITH_SCALAPACK
class Pdsyevd {
 public:
  static constexpr const char* name = "pdsyevd";
  static constexpr int solvers = 1;
  Pdsyevd(int n, int, int p, int block, int, const Element& f)
      : blocks(n, p, block, f), context_(Csys2blacs_handle(MPI_COMM_WORLD)) {
    Cblacs_gridinit(&context_, "Row", p, blocks.q);
    descriptor_ = {1, context_, n, n, block, block, 0, 0, blocks.rows};
    integers_.resize(static_cast<std::size_t>(7 * n + 8 * blocks.q + 2));
    work_.resize(static_cast<std::size_t>(9 * n + 2 * (blocks.rows + block) * (blocks.columns + 2 * block)));
  }
  Pdsyevd(const Pdsyevd&) = delete;
  ~Pdsyevd() { Cblacs_gridexit(context_); }
  void run() {
    const int one = 1, n = descriptor_[2], length = static_cast<int>(work_.size()),
              count = static_cast<int>(integers_.size());
    int info = 0;
    pdsyevd_("V", "L", &n, blocks.now.data(), &one, &one, descriptor_.data(), blocks.values.data(),
             blocks.vectors.data(), &one, &one, descriptor_.data(), work_.data(), &length, integers_.data(),
             &count, &info);
    if (info != 0) throw std::runtime_error("eigenvalues: pdsyevd failed");
  }

  Blocks blocks;

 private:
  int context_;
  std::array<int, 9> descriptor_{};
  std::vector<double> work_;
  std::vector<int> integers_;
};
#endif

/// `ours` returns the k-th value. `best`: rows of the grid, block and solver, unless they are looked for.
template <class Theirs>
void compare(const char* what, const Line& mesh, Index n, Index k, int repetitions, bool quick,
             std::array<int, 3> best, const Element& f, const std::function<double(const Rows&)>& ours) {
  Rows a(mesh, {n, n});
  const auto block = a.writable();
  for (Index i = 0; i < block.size[0]; ++i)
    for (Index j = 0; j < n; ++j) block.data[i * n + j] = f(block.begin[0] + i, j);
  const int ranks = sw::world().size();
  const auto make = [&](const std::array<int, 3>& with) {
    return std::make_unique<Theirs>(static_cast<int>(n), static_cast<int>(k), with[0], with[1], with[2], f);
  };
  double least = 1e30;
  for (int p = 1; p <= ranks && !quick; ++p) {
    for (const int width : {16, 32, 64}) {
      for (int solver = 1; solver <= Theirs::solvers; ++solver) {
        if (ranks % p != 0) continue;
        const std::array<int, 3> with{p, width, solver};
        const auto theirs = make(with);
        const double seconds = benchmarks::seconds_of_slowest([&] { theirs->run(); });
        if (seconds < least) least = seconds, best = with;
      }
    }
  }
  const auto theirs = make(best);
  std::vector<double> mine, peer, ratios;
  double value = 0;
  for (int i = 0; i < repetitions; ++i) {
    theirs->blocks.now = theirs->blocks.first;
    const auto run = [&] { value = ours(a); };
    double own = 0;
    if (i % 2 == 0) own = benchmarks::seconds_of_slowest(run);
    const double other = benchmarks::seconds_of_slowest([&] { theirs->run(); });
    if (i % 2 == 1) own = benchmarks::seconds_of_slowest(run);
    mine.push_back(own), peer.push_back(other), ratios.push_back(other / own);
  }
  const std::vector<double>& expected = theirs->blocks.values;
  if (std::abs(value - expected[static_cast<std::size_t>(k - 1)]) > 1e-10 * std::abs(expected[0]))
    throw std::runtime_error(std::string("eigenvalues: ") + what + " is wrong");
  if (sw::world().rank() != 0) return;
  std::printf(
      "%-12s n %5ld, k %4ld: %7.3f s, %s %7.3f s (%d x %d, blocks of %d, %d stages): %.2f times as fast "
      "(quartiles %.2f, %.2f; least %.3f, %.3f s)\n",
      what, static_cast<long>(n), static_cast<long>(k), benchmarks::median(mine), Theirs::name,
      benchmarks::median(peer), best[0], ranks / best[0], best[1], best[2], benchmarks::median(ratios),
      benchmarks::quantile(ratios, 0.25), benchmarks::quantile(ratios, 0.75), benchmarks::quantile(mine, 0),
      benchmarks::quantile(peer, 0));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    CLI::App app{"The smallest or all eigenvalues, in double, beside ELPA"};
    Index n = 4096;
    std::vector<double> shares{0.01, 0.05, 0.1};
    int repetitions = 3;
    bool quick = false, full = false;
    std::string only;
    app.add_option("--extent", n, "of the matrices")->check(CLI::Range(400, 40000));
    app.add_option("--shares", shares, "of the eigenvalues");
    app.add_option("--repetitions", repetitions, "of each, in turn");
    app.add_option("--only", only, "random, covariance or laplacian");
    app.add_flag("--quick", quick,
                 "without looking for the best: two stages and blocks of 32; with --full as `eigh`");
    app.add_flag("--full", full,
                 "all eigenvalues of random, by ELPA and by ScaLAPACK, and these on their own blocks");
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    const Line mesh(sw::world(), {sw::any});
    elpa_init(20211125);
    const int tall = sw::world().size() > 2 ? 2 : 1;
    const auto side = static_cast<Index>(std::lround(std::sqrt(static_cast<double>(n))));
    const auto laplacian = [side](Index i, Index j) {
      const Index apart = std::abs(i / side - j / side) + std::abs(i % side - j % side);
      return apart == 0 ? 4. : apart == 1 ? -1. : 0.;
    };
    // The largest eigenvalues of this covariance, whose sign is changed, fall off with the square of their number.
    const auto covariance = [n](Index i, Index j) {
      const double apart = 60 * static_cast<double>(i - j) / static_cast<double>(n);
      return -std::exp(-std::abs(apart)) - (i == j ? 1e-3 : 0);
    };
    if (full) {
      const auto last = [n](const auto& found) { return found.values.data()[n - 1]; };
      compare<Elpa>("all", mesh, n, n, repetitions, quick, {tall, sw::Elpa{}.block, 1}, noise,
                    [&](const Rows& a) { return last(sw::eigh<sw::Shard<0> >(a, sw::Elpa{})); });
#ifdef WITH_SCALAPACK
      compare<Pdsyevd>("all", mesh, n, n, repetitions, quick, {tall, sw::Scalapack{}.block, 1}, noise,
                       [&](const Rows& a) { return last(sw::eigh<sw::Shard<0> >(a, sw::Scalapack{})); });
#endif
      return 0;
    }
    for (const double share : shares) {
      const auto k = static_cast<Index>(std::lround(share * static_cast<double>(n)));
      const auto runs = [&](const char* what, const Element& f) {
        if (only.empty() || only == what)
          compare<Elpa>(what, mesh, n, k, repetitions, quick, {tall, 32, 2}, f,
                        [k](const Rows& a) { return sw::eigsh(a, k).values.data()[k - 1]; });
      };
      runs("random", noise), runs("covariance", covariance), runs("laplacian", laplacian);
    }
    return 0;
  });
}

#endif
