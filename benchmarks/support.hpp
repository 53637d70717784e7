// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the benchmark programs share: two ways of doing one thing are timed in turn, A B B A A B B A …,
/// because machines change their speed from second to second. What counts is the median of the ratios of
/// neighbours.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

#include "median.hpp"

namespace benchmarks {

namespace sw = shardwise;

/// Parses the options. Returns the exit code if the program is to end now; the first rank alone says why.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return sw::world().rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
}

/// The seconds that the slowest rank takes for f, from when all ranks begin.
inline double seconds_of_slowest(const std::function<void()>& f) {
  const sw::Communicator all = sw::world();
  all.barrier();
  const double begin = MPI_Wtime();
  f();
  double spent = MPI_Wtime() - begin;
  all.all_reduce(&spent, &spent, 1, sw::DataType::f64, sw::ReduceOp::max);
  return spent;
}

/// The sizes of a Llama, as options.
inline void add_sizes(CLI::App& app, sw::llm::LlamaConfig& model) {
  auto add = [&](const char* name, sw::Index& value, const char* text) {
    app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
  };
  add("--vocabulary", model.vocabulary, "tokens that there are");
  add("--features", model.features, "a multiple of --heads");
  add("--layers", model.layers, "of the model");
  add("--heads", model.heads, "of the attention");
  add("--kv-heads", model.kv_heads, "a multiple of the ranks");
  add("--hidden", model.hidden, "features within the MLPs");
}

/// Tokens below `vocabulary`, the same on any mesh.
template <class Ids>
Ids random_ids(const typename Ids::MeshOf& mesh, const sw::Shape<2>& shape, sw::Index vocabulary,
               std::uint64_t seed) {
  Ids ids(mesh, shape);
  const sw::Index first = ids.box().begin[0] * shape[1];
  for (sw::Index i = 0; i < ids.view().elements(); ++i) {
    ids.writable().data[i] = static_cast<std::int32_t>(
        sw::kernel::uniform(seed, static_cast<std::uint64_t>(first + i)) * static_cast<double>(vocabulary));
  }
  return ids;
}

/// What Linux says of this process' memory, such as "VmHWM:", the most that was resident.
inline double status_megabytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::atof(line.c_str() + name.size() + 1) / 1024;
  }
  throw std::runtime_error("/proc/self/status has no " + std::string(name));
}

/// The processor time of this process: unlike MPI_Wtime, without the time of other programs on a busy machine.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Medians of the times in seconds; and of the ratios of neighbours, with their quartiles.
struct Comparison {
  double ours, bare;
  double ratio, lower, upper;
};

/// Times `ours` and `bare` in turn, `repetitions` times after two that are not counted. A time is that of the
/// slowest rank, from a barrier on, for `inner` calls, and is divided by them. Collective.
template <class Ours, class Bare>
Comparison interleave(int repetitions, int inner, Ours ours, Bare bare, double (*now)() = MPI_Wtime) {
  const sw::Communicator all = sw::world();
  const int uncounted = 2;
  std::vector<double> times[2];
  auto time = [&](int which, auto& f) {
    all.barrier();
    const double start = now();
    for (int i = 0; i < inner; ++i) f();
    times[which].push_back((now() - start) / inner);
  };
  for (int i = 0; i < uncounted + repetitions; ++i) {
    if (i % 2 == 0) time(0, ours);
    time(1, bare);
    if (i % 2 == 1) time(0, ours);
  }
  for (auto& list : times) {
    list.erase(list.begin(), list.begin() + uncounted);
    all.all_reduce(list.data(), list.data(), static_cast<sw::Index>(list.size()), sw::DataType::f64,
                   sw::ReduceOp::max);
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times[0].size(); ++i) ratios.push_back(times[0][i] / times[1][i]);
  return {median(times[0]), median(times[1]), median(ratios), quantile(ratios, 0.25), quantile(ratios, 0.75)};
}

}  // namespace benchmarks
