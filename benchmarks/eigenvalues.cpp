// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `eigsh` beside ELPA, which computes the same number of eigenvectors, on the same ranks, in turn. ELPA gets the
/// solver, the grid and the block size with which it is fastest. A check compares the eigenvalues.

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

#include <shardwise/linalg/eigsh.hpp>

#include "support.hpp"

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

/// ELPA's blocks of a matrix on a grid, column by column.
class Elpa {
 public:
  Elpa(int n, int wanted, int p, int block, int solver, const Element& f)
      : values_(static_cast<std::size_t>(n)) {
    const int rank = sw::world().rank(), q = sw::world().size() / p, row = rank / q, column = rank % q;
    const auto own = [&](int at, int ranks) {
      std::vector<Index> indices;
      for (Index i = 0; i < n; ++i)
        if (i / block % ranks == at) indices.push_back(i);
      return indices;
    };
    const auto of_rows = own(row, p), of_columns = own(column, q);
    for (const Index j : of_columns)
      for (const Index i : of_rows) first_.push_back(f(i, j));
    now_ = vectors_ = first_;
    int error = 0;
    handle_ = elpa_allocate(&error);
    const auto set = [&](const char* name, int value) { elpa_set_integer(handle_, name, value, &error); };
    set("na", n), set("nev", wanted), set("nblk", block);
    set("local_nrows", static_cast<int>(of_rows.size())),
        set("local_ncols", static_cast<int>(of_columns.size()));
    set("mpi_comm_parent", MPI_Comm_c2f(MPI_COMM_WORLD)), set("process_row", row), set("process_col", column);
    if (elpa_setup(handle_) != ELPA_OK) throw std::runtime_error("eigenvalues: ELPA refuses the grid");
    set("solver", solver);
  }
  Elpa(const Elpa&) = delete;
  ~Elpa() {
    int error = 0;
    elpa_deallocate(handle_, &error);
  }
  void reset() { now_ = first_; }
  void run() {
    int error = 0;
    elpa_eigenvectors_a_h_a_d(handle_, now_.data(), values_.data(), vectors_.data(), &error);
    if (error != ELPA_OK) throw std::runtime_error("eigenvalues: ELPA failed");
  }
  double value(Index i) const { return values_[static_cast<std::size_t>(i)]; }

 private:
  elpa_t handle_;
  std::vector<double> first_, now_, vectors_, values_;
};

void compare(const char* what, const Line& mesh, Index n, Index k, int repetitions, bool quick,
             const Element& f) {
  sw::Tensor<double, 2, Line, sw::Shard<0> > a(mesh, {n, n});
  const auto block = a.writable();
  for (Index i = 0; i < block.size[0]; ++i)
    for (Index j = 0; j < n; ++j) block.data[i * n + j] = f(block.begin[0] + i, j);
  const int ranks = sw::world().size();
  const auto make = [&](const std::array<int, 3>& with) {
    return std::make_unique<Elpa>(static_cast<int>(n), static_cast<int>(k), with[0], with[1], with[2], f);
  };
  std::array<int, 3> best{ranks > 2 ? 2 : 1, 32, ELPA_SOLVER_2STAGE};
  double least = 1e30;
  for (int p = 1; p <= ranks && !quick; ++p) {
    for (const int width : {16, 32, 64}) {
      for (const int solver : {ELPA_SOLVER_1STAGE, ELPA_SOLVER_2STAGE}) {
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
    theirs->reset();
    const auto ours = [&] { value = sw::eigsh(a, k).values.data()[k - 1]; };
    double own = 0;
    if (i % 2 == 0) own = benchmarks::seconds_of_slowest(ours);
    const double other = benchmarks::seconds_of_slowest([&] { theirs->run(); });
    if (i % 2 == 1) own = benchmarks::seconds_of_slowest(ours);
    mine.push_back(own), peer.push_back(other), ratios.push_back(other / own);
  }
  if (std::abs(value - theirs->value(k - 1)) > 1e-10 * std::abs(theirs->value(0)))
    throw std::runtime_error(std::string("eigenvalues: ") + what + " is wrong");
  if (sw::world().rank() != 0) return;
  std::printf(
      "%-12s n %5ld, k %4ld: %7.3f s, ELPA %7.3f s (%d x %d, blocks of %d, %d stages): %.2f times as fast\n",
      what, static_cast<long>(n), static_cast<long>(k), benchmarks::median(mine), benchmarks::median(peer),
      best[0], ranks / best[0], best[1], best[2], benchmarks::median(ratios));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    CLI::App app{"The smallest eigenvalues, in double, beside ELPA"};
    Index n = 4096;
    std::vector<double> shares{0.01, 0.05, 0.1};
    int repetitions = 3;
    bool quick = false;
    std::string only;
    app.add_option("--extent", n, "of the matrices")->check(CLI::Range(400, 40000));
    app.add_option("--shares", shares, "of the eigenvalues");
    app.add_option("--repetitions", repetitions, "of each, in turn");
    app.add_option("--only", only, "random, covariance or laplacian");
    app.add_flag("--quick", quick, "two stages and blocks of 32, without looking for ELPA's best");
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    const Line mesh(sw::world(), {sw::any});
    elpa_init(20211125);
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
    for (const double share : shares) {
      const auto k = static_cast<Index>(std::lround(share * static_cast<double>(n)));
      if (only.empty() || only == "random") compare("random", mesh, n, k, repetitions, quick, noise);
      if (only.empty() || only == "covariance")
        compare("covariance", mesh, n, k, repetitions, quick, covariance);
      if (only.empty() || only == "laplacian")
        compare("laplacian", mesh, n, k, repetitions, quick, laplacian);
    }
    return 0;
  });
}

#endif
