// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The blocking collectives of a communicator against MPI's own, in turn: all-reduce, reduce-scatter and all-gather of
/// floats. Bytes are those of the whole. From 64 KiB on each rank writes its data anew before each call, as a step of
/// training does: data that nobody has written since the last call is in the caches of both. The results are compared.

#include <cmath>
#include <numeric>
#include <string>

#include "support.hpp"

namespace sw = shardwise;
using sw::Index;

namespace {

struct Options {
  std::vector<Index> bytes{8, 64, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864};
  double seconds = 0.4;
};

/// A block of the pool, where tensors are.
struct Block {
  explicit Block(Index n) : count(n), data(static_cast<float*>(sw::memory_pool().allocate(4 * n))) {
    std::fill_n(data, n, 0.0F);
  }
  Block(const Block&) = delete;
  ~Block() { sw::memory_pool().deallocate(data, 4 * count); }
  Index count;
  float* data;
};

class Report {
 public:
  Report(const sw::Communicator& all, const Options& options, Index bytes)
      : all_(all),
        options_(options),
        bytes_(bytes),
        count_(std::max<Index>(bytes / 4 / all.size(), 1) * all.size()),
        counts_(static_cast<std::size_t>(all.size()), count_ / all.size()),
        int_counts_(counts_.begin(), counts_.end()),
        offsets_(counts_.size()),
        in_(count_),
        ours_(count_),
        mpi_(count_) {
    std::exclusive_scan(counts_.begin(), counts_.end(), offsets_.begin(), Index{0});
  }

  void run() {
    const auto f32 = sw::DataType::f32;
    const auto sum = sw::ReduceOp::sum;
    const int n = static_cast<int>(count_), part = n / all_.size();
    const MPI_Comm comm = all_.native();
    line(
        "all_reduce", count_, [&] { all_.all_reduce(in_.data, ours_.data, count_, f32, sum); },
        [&] { MPI_Allreduce(in_.data, mpi_.data, n, MPI_FLOAT, MPI_SUM, comm); });
    if (bytes_ / 4 < all_.size()) return;
    line(
        "reduce_scatter", part, [&] { all_.reduce_scatter(in_.data, ours_.data, counts_, f32, sum); },
        [&] { MPI_Reduce_scatter(in_.data, mpi_.data, int_counts_.data(), MPI_FLOAT, MPI_SUM, comm); });
    line(
        "all_gather", count_, [&] { all_.all_gather(in_.data, ours_.data, counts_, offsets_, f32); },
        [&] { MPI_Allgather(in_.data, part, MPI_FLOAT, mpi_.data, part, MPI_FLOAT, comm); });
  }

 private:
  template <class Ours, class Mpi>
  void line(const char* name, Index results, Ours ours, Mpi mpi) {
    const bool anew = bytes_ >= 65536;
    int inner = 1;
    const auto time = [&](auto& call) {
      double spent = 0;
      for (int i = 0; i < (anew ? inner : 1); ++i) {
        if (anew) write();
        MPI_Barrier(all_.native());
        const double begin = MPI_Wtime();
        for (int j = 0; j < (anew ? 1 : inner); ++j) call();
        spent += MPI_Wtime() - begin;
      }
      spent /= inner;
      MPI_Allreduce(MPI_IN_PLACE, &spent, 1, MPI_DOUBLE, MPI_MAX, all_.native());
      return spent;
    };
    write();
    time(mpi);
    const int pairs = bytes_ >= (1 << 24) ? 8 : 20;
    inner = std::max(1, static_cast<int>(options_.seconds / 2 / pairs / time(mpi)));
    std::vector<double> a, b, ratios;
    for (int i = 0; i < pairs; ++i) {
      const bool first = i % 2 == 0;
      if (first) a.push_back(time(ours));
      b.push_back(time(mpi));
      if (!first) a.push_back(time(ours));
      ratios.push_back(b.back() / a.back());
    }
    bool same = true;
    for (Index i = 0; i < results; ++i)
      same = same && std::abs(ours_.data[i] - mpi_.data[i]) <= 1e-5F * std::abs(mpi_.data[i]);
    if (!all_.agree(same))
      throw std::logic_error(std::string("collectives: MPI's ") + name + " comes to something else");
    if (all_.rank() != 0) return;
    std::printf("%-15s %9td B %10.2f us %10.2f us %7.2f  (%.2f to %.2f)\n", name, bytes_,
                benchmarks::median(a) * 1e6, benchmarks::median(b) * 1e6, benchmarks::median(ratios),
                benchmarks::quantile(ratios, 0.25), benchmarks::quantile(ratios, 0.75));
    std::fflush(stdout);
  }

  void write() {
    for (Index i = 0; i < count_; ++i) in_.data[i] = static_cast<float>(all_.rank() + 1 + i % 1000);
  }

  const sw::Communicator& all_;
  const Options& options_;
  Index bytes_, count_;
  std::vector<Index> counts_;
  std::vector<int> int_counts_;
  std::vector<Index> offsets_;
  Block in_, ours_, mpi_;
};

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times the blocking collectives against MPI's own.", "collectives");
    app.option_defaults()->always_capture_default();
    app.add_option("--bytes", options.bytes, "of the whole")->check(CLI::Range(4, 1 << 30));
    app.add_option("--seconds", options.seconds, "about so long a line")->check(CLI::Range(0.001, 1000.0));
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;

    const sw::Communicator all = sw::world();
    if (all.rank() == 0) {
      std::printf("collectives: on %d ranks, through %s; medians\n", all.size(), all.transport());
      std::printf("%-15s %11s %13s %13s %7s\n", "", "", "shardwise", "MPI",
                  "MPI's time / ours, its quartiles");
    }
    for (Index bytes : options.bytes) Report(all, options, bytes).run();
    return 0;
  });
}
