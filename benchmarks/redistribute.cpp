// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every change of layout along one axis, for matrices of several sizes, against two things: the bare MPI
/// call on the same bytes (where nothing is sent: memcpy, memset), and the same change by hand, with the
/// copies that put the data in order. A bare call that needs no such copies is the change by hand. What comes
/// out by hand is compared with what comes out of Shardwise.

#include <algorithm>
#include <cstring>
#include <string>

#include "support.hpp"

namespace sw = shardwise;
using sw::Index, sw::Replicate, sw::Shard;
using Pending = sw::Partial<sw::Sum>;

namespace {

using Mesh = sw::Mesh<sw::tp>;
using Matrix = sw::RowMajorMatrix<float>;
using Block = Eigen::Map<Matrix>;

struct Options {
  std::vector<Index> kib{64, 4096, 32768};
  Index columns = 1024;
  int repetitions = 60;
};

/// The buffers of both bare calls and changes by hand: of whole size, used as far as needed.
class Bare {
 public:
  Bare(const Mesh& mesh, Index rows, Index columns)
      : ranks_(mesh.size()),
        rank_(mesh.rank()),
        rows_(rows),
        columns_(columns),
        in_(Matrix::Zero(rows, columns)),
        packed_(in_),
        out_(in_) {}

  /// What all changes start from.
  template <class X>
  void start_from(const X& x) {
    std::copy_n(x.view().data, x.view().elements(), in_.data());
    out_ = in_;
  }
  /// Has the last change come to this?
  template <class X>
  bool came_to(const X& x) const {
    return std::equal(x.view().data, x.view().data + x.view().elements(), out_.data());
  }

  void all_gather() { all_gather_into(out_.data()); }
  void all_gather_columns() {
    all_gather_into(packed_.data());
    for (int r = 0; r < ranks_; ++r) columns_of(out_, r) = stacked(packed_, r, rows_);
  }

  void all_reduce() { MPI_Allreduce(in_.data(), out_.data(), whole(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

  void reduce_scatter() { reduce_scatter_from(in_.data()); }
  void reduce_scatter_columns() {
    for (int r = 0; r < ranks_; ++r) stacked(packed_, r, rows_) = columns_of(in_, r);
    reduce_scatter_from(packed_.data());
  }

  void all_to_all() { all_to_all(in_.data(), out_.data()); }
  /// What is received lies in order: rank r's columns of rank 0's rows, of rank 1's rows, …
  void rows_to_columns() {
    Block in(in_.data(), own_rows(), columns_);
    for (int r = 0; r < ranks_; ++r) stacked(packed_, r, own_rows()) = columns_of(in, r);
    all_to_all(packed_.data(), out_.data());
  }
  void columns_to_rows() {
    all_to_all(in_.data(), packed_.data());
    Block out(out_.data(), own_rows(), columns_);
    for (int r = 0; r < ranks_; ++r) columns_of(out, r) = stacked(packed_, r, own_rows());
  }

  void copy_part() { std::memcpy(out_.data(), own_rows_of(in_), bytes() / size_t_ranks()); }
  void copy_columns() { stacked(out_, 0, rows_) = columns_of(in_, rank_); }

  /// The first rank's term is what it has.
  void zero_terms() {
    if (rank_ != 0) std::memset(out_.data(), 0, bytes());
  }
  void zero_and_copy() {
    std::memset(out_.data(), 0, bytes());
    std::memcpy(own_rows_of(out_), in_.data(), bytes() / size_t_ranks());
  }
  void zero_other_rows() {
    const Index own = own_rows();
    out_.topRows(own * rank_).setZero();
    out_.bottomRows(own * (ranks_ - rank_ - 1)).setZero();
    std::memcpy(own_rows_of(out_), in_.data(), bytes() / size_t_ranks());
  }
  void zero_other_columns() {
    out_.setZero();
    columns_of(out_, rank_) = stacked(in_, 0, rows_);
  }

 private:
  void all_gather_into(float* out) {
    MPI_Allgather(in_.data(), part(), MPI_FLOAT, out, part(), MPI_FLOAT, MPI_COMM_WORLD);
  }
  void reduce_scatter_from(const float* terms) {
    const std::vector<int> counts(size_t_ranks(), part());
    MPI_Reduce_scatter(terms, out_.data(), counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void all_to_all(const float* in, float* out) {
    MPI_Alltoall(in, part() / ranks_, MPI_FLOAT, out, part() / ranks_, MPI_FLOAT, MPI_COMM_WORLD);
  }

  Index own_rows() const { return rows_ / ranks_; }
  Index own_columns() const { return columns_ / ranks_; }
  int whole() const { return static_cast<int>(rows_ * columns_); }
  int part() const { return whole() / ranks_; }
  std::size_t bytes() const { return static_cast<std::size_t>(whole()) * sizeof(float); }
  std::size_t size_t_ranks() const { return static_cast<std::size_t>(ranks_); }

  /// Rank r's columns of a matrix; and the r-th of the blocks that lie one after another.
  template <class M>
  Eigen::Block<M> columns_of(M& m, int r) const {
    return m.block(0, own_columns() * r, m.rows(), own_columns());
  }
  Block stacked(Matrix& m, int r, Index rows) const {
    return Block(m.data() + rows * own_columns() * r, rows, own_columns());
  }
  float* own_rows_of(Matrix& m) const { return m.data() + part() * rank_; }

  int ranks_, rank_;
  Index rows_, columns_;
  Matrix in_, packed_, out_;
};

/// One size of matrix: all its changes.
class Report {
 public:
  Report(const Mesh& mesh, const Options& options, Index kib)
      : mesh_(mesh),
        options_(options),
        kib_(kib),
        rows_(kib * 1024 / static_cast<Index>(sizeof(float)) / options.columns),
        bare_(mesh, rows_, options.columns) {
    const Index least = mesh.size();
    if (rows_ % least != 0 || options.columns % least != 0 || rows_ == 0) {
      throw std::invalid_argument("redistribute: " + std::to_string(kib) + " KiB are " +
                                  std::to_string(rows_) + " rows of " + std::to_string(options.columns) +
                                  " columns, which " + std::to_string(least) + " ranks do not divide evenly");
    }
  }

  void run() {
    line<Shard<0>, Replicate>("S0 -> R", "MPI_Allgather", &Bare::all_gather);
    line<Shard<1>, Replicate>("S1 -> R", "MPI_Allgather", &Bare::all_gather, &Bare::all_gather_columns);
    line<Pending, Replicate>("P  -> R", "MPI_Allreduce", &Bare::all_reduce);
    line<Pending, Shard<0>>("P  -> S0", "MPI_Reduce_scatter", &Bare::reduce_scatter);
    line<Pending, Shard<1>>("P  -> S1", "MPI_Reduce_scatter", &Bare::reduce_scatter,
                            &Bare::reduce_scatter_columns);
    line<Shard<0>, Shard<1>>("S0 -> S1", "MPI_Alltoall", &Bare::all_to_all, &Bare::rows_to_columns);
    line<Shard<1>, Shard<0>>("S1 -> S0", "MPI_Alltoall", &Bare::all_to_all, &Bare::columns_to_rows);
    line<Replicate, Shard<0>>("R  -> S0", "memcpy", &Bare::copy_part);
    line<Replicate, Shard<1>>("R  -> S1", "memcpy", &Bare::copy_part, &Bare::copy_columns);
    line<Replicate, Pending>("R  -> P", "memset", &Bare::zero_terms);
    line<Shard<0>, Pending>("S0 -> P", "memset, memcpy", &Bare::zero_and_copy, &Bare::zero_other_rows);
    line<Shard<1>, Pending>("S1 -> P", "memset, memcpy", &Bare::zero_and_copy, &Bare::zero_other_columns);
  }

 private:
  using Way = void (Bare::*)();

  template <class From, class To>
  void line(const char* change, const char* call, Way bare, Way by_hand = nullptr) {
    sw::Tensor<float, 2, Mesh, From> x(mesh_, {rows_, options_.columns});
    for (Index i = 0; i < x.view().elements(); ++i) {
      x.writable().data[i] = static_cast<float>((7 * i + mesh_.rank()) % 1000);
    }
    bare_.start_from(x);
    auto ours = [&] { sw::redistribute<sw::tp, To>(x); };
    const int inner = static_cast<int>(std::max<Index>(1, 1024 / kib_));
    const auto c = benchmarks::interleave(options_.repetitions, inner, ours, [&] { (bare_.*bare)(); });
    benchmarks::Comparison h = c;
    if (by_hand) {
      h = benchmarks::interleave(options_.repetitions, inner, ours, [&] { (bare_.*by_hand)(); });
    }
    if (!sw::world().agree(bare_.came_to(sw::redistribute<sw::tp, To>(x)))) {
      throw std::logic_error(std::string("redistribute: by hand, ") + change + " comes to something else");
    }
    if (mesh_.rank() != 0) return;
    std::printf("%-9s %6td KiB %9.1f us  %-19s %9.1f us %6.2f   %9.1f us %6.2f\n", change, kib_, c.ours * 1e6,
                call, c.bare * 1e6, c.ratio, h.bare * 1e6, h.ratio);
    std::fflush(stdout);
  }

  const Mesh& mesh_;
  const Options& options_;
  Index kib_, rows_;
  Bare bare_;
};

}  // namespace

int main(int argc, char** argv) {
  setenv("SHARDWISE_TRANSPORT", "mpi", 0);  // or what the user says: bare calls are MPI's
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times each change of layout against the bare MPI call.", "redistribute");
    app.option_defaults()->always_capture_default();
    app.add_option("--kib", options.kib, "sizes of the whole matrix")->check(CLI::Range(1, 1 << 20));
    app.add_option("--columns", options.columns, "of the matrix")->check(CLI::Range(1, 1 << 20));
    app.add_option("--repetitions", options.repetitions, "of each way")->check(CLI::Range(1, 1000000));
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;

    const Mesh mesh(sw::world(), {sw::any});
    if (mesh.rank() == 0) {
      std::printf("redistribute: matrices of float, %td columns, on %d ranks; medians of %d\n",
                  options.columns, mesh.size(), options.repetitions);
      std::printf("%-9s %10s %12s  %-19s %12s %6s   %12s %6s\n", "change", "size", "shardwise", "bare call",
                  "", "ratio", "by hand", "ratio");
    }
    for (Index kib : options.kib) Report(mesh, options, kib).run();
    return 0;
  });
}
