// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Measures the speeds by which `shardwise-plan` prices a plan: all ranks do the same at once, and the slowest counts.

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <shardwise/comm/environment.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/kernel/gemm.hpp>
#include <shardwise/mesh/mesh.hpp>

#include "options.hpp"
#include "speeds_file.hpp"
#include "watchdog.hpp"

namespace {

using namespace tools;
using sw::Index;

struct host {
  static constexpr const char* name = "host";
};
struct rank_of_host {
  static constexpr const char* name = "rank_of_host";
};
using Ranks = sw::Mesh<host, rank_of_host>;

/// The median over `repetitions` of the seconds of the slowest rank, after one that does not count.
template <class F>
double seconds_of(int repetitions, F f) {
  const sw::Communicator world = sw::world();
  std::vector<double> all;
  for (int i = 0; i <= repetitions; ++i) {
    world.barrier();
    const double begin = sw::clock_seconds();
    f();
    double spent = sw::clock_seconds() - begin;
    world.all_reduce(&spent, &spent, 1, sw::DataType::f64, sw::ReduceOp::max);
    if (i > 0) all.push_back(spent);
  }
  std::nth_element(all.begin(), all.begin() + repetitions / 2, all.end());
  return all[static_cast<std::size_t>(repetitions / 2)];
}

/// Of products as a layer makes them.
template <class T>
double flops_of_products(int repetitions) {
  constexpr Index n = 1024;
  const std::vector<T> a(n * n, T(1)), b(n * n, T(1));
  std::vector<T> c(n * n);
  const auto no = sw::kernel::Transpose::no, yes = sw::kernel::Transpose::yes;
  return 2. * n * n * n / seconds_of(repetitions, [&] {
           sw::kernel::gemm(no, yes, n, n, n, a.data(), n, b.data(), n, c.data(), n, false);
         });
}

/// Of sums of two arrays that no cache holds.
double bytes_of_memory(int repetitions) {
  constexpr Index count = Index{16} << 20;
  const std::vector<float> a(count, 1);
  std::vector<float> b(count, 2);
  const double seconds = seconds_of(repetitions, [&] {
    for (Index i = 0; i < count; ++i) b[static_cast<std::size_t>(i)] += a[static_cast<std::size_t>(i)];
  });
  [[maybe_unused]] const volatile float used = b.back();  // else a compiler may leave out the loop
  return 3. * count * sizeof(float) / seconds;
}

/// The bytes a second that a rank sends in all-reduces, on all groups of the mesh at once.
double bytes_of_link(const sw::Communicator& ranks, int repetitions) {
  constexpr Index count = Index{2} << 20;
  std::vector<float> a(count, 1), b(count);
  const double seconds = seconds_of(repetitions, [&] {
    ranks.all_reduce(a.data(), b.data(), count, sw::DataType::f32, sw::ReduceOp::sum);
  });
  const Index bytes = count * Index{sizeof(float)};
  return static_cast<double>(sw::bytes_sent(sw::Collective::all_reduce, bytes, ranks.size())) / seconds;
}

MeasuredSpeeds measured(int repetitions) {
  const sw::Communicator world = sw::world();
  const int hosts = world.hosts().count(), on_each = world.size() / hosts;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.hosts().of(rank) != rank / on_each) {
      throw std::invalid_argument(
          "rank " + std::to_string(rank) + " is not on host " + std::to_string(rank / on_each) +
          ": each host must have as many ranks, one after another (mpirun --map-by core, not --map-by node)");
    }
  }
  const Ranks mesh(world, {hosts, on_each});
  MeasuredSpeeds speeds{.float32 = flops_of_products<float>(repetitions),
                        .bfloat16 = flops_of_products<Eigen::bfloat16>(repetitions)};
  speeds.others.memory = bytes_of_memory(repetitions);
  double least = 0, sum = 0;
  const int calls = 100;
  const double latencies = seconds_of(repetitions, [&] {
    for (int i = 0; i < calls; ++i) world.all_reduce(&least, &sum, 1, sw::DataType::f64, sw::ReduceOp::sum);
  });
  speeds.others.latency = latencies / calls;
  if (on_each > 1) speeds.others.within = bytes_of_link(mesh.communicator<rank_of_host>(), repetitions);
  if (hosts > 1) speeds.others.across = bytes_of_link(mesh.communicator<host>(), repetitions);
  return speeds;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit is an error with a file name
  return sw::run(argc, argv, [&] {
    CLI::App app(
        "Measures the speeds of the machines, for shardwise-plan --speeds. Start it as the training job: "
        "with "
        "as many ranks on each host. The machines should do nothing else.",
        "shardwise-measure");
    app.option_defaults()->always_capture_default();
    std::filesystem::path file = "speeds.json";
    app.add_option("--to", file, "the file to write");
    int repetitions = 20;
    add_count(app, "--repetitions", repetitions, "of each measurement, of which the median counts");
    double timeout = 600;
    add_timeout(app, timeout);
    if (auto code = parse(app, argc, argv)) return *code;
    const auto watched = watchdog(timeout);
    const MeasuredSpeeds speeds = measured(repetitions);
    sw::detail::together(sw::world(), "the file of speeds", [&] {
      if (sw::world().rank() != 0) return;
      sw::write_file_atomically(file, speeds_json(speeds));
      std::printf("%s: %s\n", file.c_str(),
                  (sw::speeds_text(speeds.of(false)) + "; in bfloat16 " +
                   sw::flops_text(std::llround(speeds.bfloat16)) + "/s")
                      .c_str());
    });
    return after_output(0);
  });
}
