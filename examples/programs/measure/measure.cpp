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
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

#include "../common/options.hpp"
#include "../common/speeds_file.hpp"
#include "../common/text_model.hpp"
#include "../common/token_plan.hpp"
#include "../common/watchdog.hpp"

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

double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

/// The median over `repetitions` of the seconds of the slowest rank, after one that does not count. Each time, `prepare`
/// comes first, and is not timed.
template <class F, class Prepare = void (*)()>
double seconds_of(
    int repetitions, F f, Prepare prepare = [] {}) {
  const sw::Communicator world = sw::world();
  std::vector<double> all;
  for (int i = 0; i <= repetitions; ++i) {
    prepare();
    world.barrier();
    const double begin = sw::clock_seconds();
    f();
    double spent = sw::clock_seconds() - begin;
    world.all_reduce(&spent, &spent, 1, sw::DataType::f64, sw::ReduceOp::max);
    if (i > 0) all.push_back(spent);
  }
  return median(std::move(all));
}

/// The speeds of computations, found in recorded steps of training a small Llama that each rank makes alone: their
/// median over `repetitions`, on the slowest rank.
template <class T>
sw::Speeds speeds_of_steps(int repetitions) {
  using Mesh = sw::Mesh<sw::tp>;
  const sw::Communicator world = sw::world();
  const Mesh mesh(world.subgroup(std::array{world.rank()}), {1});
  const sw::llm::LlamaConfig config{.vocabulary = 1024,
                                    .features = 512,
                                    .layers = 2,
                                    .heads = 8,
                                    .kv_heads = 8,
                                    .hidden = 1408,
                                    .context = 512};
  sw::llm::Llama<Mesh, sw::llm::LlamaTensorParallel<>, T> model(mesh, config);
  sw::initialize(model, 1);
  const auto tokens = sw::full<std::int32_t, sw::Replicate>(mesh, {1, config.context}, 1);
  sw::AdamW adamw;
  sw::EventLog log(sw::clock_seconds);
  sw::Recording recording(mesh, &log);
  std::array<std::vector<double>, 3> all;
  for (int i = 0; i <= repetitions; ++i) {
    world.barrier();
    recording.restart();
    sw::Tape tape;
    sw::backward_and_reduce(model(tape.constant(tokens), tokens, sw::LinearCrossEntropyLoss()), model);
    sw::clip_gradients(model, 1.0);
    adamw.step(model);
    const sw::Speeds found = sw::fitted(log.events());
    std::array slowest{found.flops, found.attention, found.memory};
    world.all_reduce(slowest.data(), slowest.data(), 3, sw::DataType::f64, sw::ReduceOp::min);
    for (std::size_t speed = 0; i > 0 && speed < 3; ++speed) all[speed].push_back(slowest[speed]);
  }
  return {.flops = median(all[0]), .attention = median(all[1]), .memory = median(all[2])};
}

struct TokenSpeeds {
  double weights;    ///< bytes a second
  double operation;  ///< seconds
};

/// The speeds of decoding, found in recorded tokens of a small Llama, whose weights no cache holds, on each rank alone:
/// their median over `repetitions`, on the slowest rank. `Block`: see `TextModel`.
template <class Block>
TokenSpeeds speeds_of_tokens(int repetitions) {
  const sw::Communicator world = sw::world();
  const Job job(world.subgroup(std::array{world.rank()}), {1, 1, 1, 1, 1, 1});
  TextModel<Block> model(job, {.vocabulary = 8192,
                               .features = 1024,
                               .layers = 8,
                               .heads = 16,
                               .kv_heads = 8,
                               .hidden = 2816,
                               .context = 64});
  sw::initialize(model.stages(), 1);
  const auto id = batch_of(model.mesh(), std::array{1});
  auto cache = model.make_cache(id, repetitions + 1);
  sw::EventLog log(sw::clock_seconds);
  sw::Recording recording(job, &log);
  std::vector<double> weights, operations;
  for (int i = 0; i <= repetitions; ++i) {
    world.barrier();
    recording.restart();
    std::array<double, 1> number{};
    model.next(id, cache, number, [&](const auto&) { log.close(); });
    double bytes = 0, reading = 0, other = 0;
    int count = 0;
    for (const sw::Event& event : log.events()) {
      if (event.moved == 0) continue;  // the beginning
      const double seconds = event.end - event.begin;
      if (reads_weights(event)) {
        bytes += static_cast<double>(event.moved);
        reading += seconds;
      } else {
        other += seconds;
        ++count;
      }
    }
    std::array slowest{reading / bytes, other / count};
    world.all_reduce(slowest.data(), slowest.data(), 2, sw::DataType::f64, sw::ReduceOp::max);
    if (i == 0) continue;
    weights.push_back(1 / slowest[0]);
    operations.push_back(slowest[1]);
  }
  return {median(std::move(weights)), median(std::move(operations))};
}

/// The bytes a second that a rank sends in collectives, on all groups of the mesh at once.
double bytes_of_link(const sw::Communicator& ranks, int repetitions) {
  constexpr Index bytes = Index{4} << 20;
  const Index part = bytes / Index{sizeof(float)} / ranks.size(), count = part * ranks.size();
  const std::vector<Index> counts(static_cast<std::size_t>(ranks.size()), part);
  std::vector<Index> offsets;
  for (int rank = 0; rank < ranks.size(); ++rank) offsets.push_back(rank * part);
  std::vector<float> from(static_cast<std::size_t>(3 * count)), to(from.size());
  const auto send = [&] {
    const float* a = from.data();
    float* b = to.data();
    ranks.all_reduce(a, b, count, sw::DataType::f32, sw::ReduceOp::sum);
    ranks.all_gather(a + count, b + count, counts, offsets, sw::DataType::f32);
    ranks.reduce_scatter(a + 2 * count, b + 2 * count, counts, sw::DataType::f32, sw::ReduceOp::sum);
  };
  // A step has just computed what it sends, so caches may hold it.
  const double seconds = seconds_of(repetitions, send, [&] { std::fill(from.begin(), from.end(), 1.f); });
  Index sent = 0;
  for (const auto kind :
       {sw::Collective::all_reduce, sw::Collective::all_gather, sw::Collective::reduce_scatter})
    sent += sw::bytes_sent(kind, bytes, ranks.size());
  return static_cast<double>(sent) / seconds;
}

/// The seconds of a call that sends next to nothing.
double latency_of_link(const sw::Communicator& ranks, int repetitions) {
  double own = 0, sum = 0;
  const int calls = 100;
  return seconds_of(repetitions,
                    [&] {
                      for (int i = 0; i < calls; ++i)
                        ranks.all_reduce(&own, &sum, 1, sw::DataType::f64, sw::ReduceOp::sum);
                    }) /
         calls;
}

/// Of the time of an all-reduce in the background, the part in which the ranks compute as fast as without it.
double overlap_of_link(const sw::Communicator& ranks, int repetitions) {
  constexpr Index count = Index{1} << 20, n = 512;
  std::vector<float> a(count, 1), b(count), x(n * n, 1), y(n * n);
  const auto multiply = [&](int times) {
    const auto no = sw::kernel::Transpose::no;
    for (int i = 0; i < times; ++i)
      sw::kernel::gemm(no, no, n, n, n, x.data(), n, x.data(), n, y.data(), n, false);
  };
  const auto send = [&] {
    return ranks.all_reduce_async(a.data(), b.data(), count, sw::DataType::f32, sw::ReduceOp::sum);
  };
  const double sending = seconds_of(repetitions, [&] { send().wait(); }),
               one = seconds_of(repetitions, [&] { multiply(1); });
  const int times = std::max(1, static_cast<int>(sending / one));
  const double computing = seconds_of(repetitions, [&] { multiply(times); });
  const double both = seconds_of(repetitions, [&] {
    auto sent = send();
    multiply(times);
    sent.wait();
  });
  return std::clamp((sending + computing - both) / std::min(sending, computing), 0.01, 1.);
}

MeasuredSpeeds measured(int repetitions) {
  const sw::Communicator world = sw::world();
  const int hosts = world.hosts().count(), on_each = world.size() / hosts;
  for (int host = 0; host < hosts; ++host) {
    const std::size_t here = world.hosts().ranks_on(host).size();
    if (here != static_cast<std::size_t>(on_each)) {
      throw std::invalid_argument(std::to_string(here) + " of " + std::to_string(world.size()) +
                                  " ranks are on host " + std::to_string(host) + " of " +
                                  std::to_string(hosts) + ": start the same number on each host");
    }
  }
  const Ranks mesh(world, {hosts, on_each});
  MeasuredSpeeds speeds{.float32 = speeds_of_steps<float>(repetitions),
                        .bfloat16 = speeds_of_steps<Eigen::bfloat16>(repetitions)};
  const TokenSpeeds tokens = speeds_of_tokens<void>(repetitions);
  speeds.weights_32bit = tokens.weights;
  speeds.operation = tokens.operation;
  speeds.weights_16bit = speeds_of_tokens<sw::llm::Block16>(repetitions).weights;
  speeds.weights_8bit = speeds_of_tokens<sw::llm::Block8>(repetitions).weights;
  speeds.weights_4bit = speeds_of_tokens<sw::llm::Block4>(repetitions).weights;
  if (on_each > 1) {
    const sw::Communicator& ranks = mesh.communicator<rank_of_host>();
    speeds.links.within = bytes_of_link(ranks, repetitions);
    speeds.links.latency = latency_of_link(ranks, repetitions);
  }
  if (hosts > 1) {
    const sw::Communicator& ranks = mesh.communicator<host>();
    speeds.links.across = bytes_of_link(ranks, repetitions);
    speeds.links.latency_across = latency_of_link(ranks, repetitions);
    speeds.links.overlap = overlap_of_link(ranks, repetitions);
  }
  return speeds;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit is an error with a file name
  CommandLine app(
      "Measures the speeds of the machines, for shardwise-plan --speeds. Start it as the training job: with "
      "as many "
      "ranks on each host. The machines should do nothing else.",
      "shardwise-measure");
  std::filesystem::path file = "speeds.json";
  app.add_option("--to", file, "the file to write");
  int repetitions = 20;
  add_count(app, "--repetitions", repetitions, "repetitions of each measurement, of which the median counts");
  double timeout = 600;
  add_timeout(app, timeout);
  if (const auto code = app.answer_without_mpi(argc, argv)) return *code;
  return sw::run(argc, argv, [&] {
    if (auto code = parse(app, argc, argv)) return *code;
    const auto watched = watchdog(timeout);
    sw::throw_on_all_ranks(sw::world(), "the file of speeds",
                           [&] {  // whether it can be written, before what takes long
                             if (sw::world().rank() == 0) const sw::TemporaryFile can_be_written(file);
                           });
    const MeasuredSpeeds speeds = measured(repetitions);
    sw::throw_on_all_ranks(sw::world(), "the file of speeds", [&] {
      if (sw::world().rank() != 0) return;
      sw::write_file_atomically(file, speeds_json(speeds));
      std::printf("%s: %s\n", file.c_str(),
                  (sw::speeds_text(speeds.of(false)) + "; in bfloat16 " +
                   sw::flops_text(std::llround(speeds.bfloat16.flops)) + "/s")
                      .c_str());
    });
    return after_output(0);
  });
}
