// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Checkpoints of a Llama in training: saving beside dd, which copies the same bytes to the same folder and has them on
/// the device too; loading onto another mesh, with the bytes that are read and the memory that it takes; and the steps
/// beside a save in the background, compared with those before.

#include <cstdlib>
#include <fstream>

#include <shardwise/checkpoint/checkpointer.hpp>

#include "support.hpp"

namespace sw = shardwise;

namespace {

using Mesh = sw::Mesh<sw::dp, sw::tp>;
using Plan = sw::llm::LlamaTensorParallel<>;
using Ids = sw::Tensor<std::int32_t, 2, Mesh, sw::Shard<0>, sw::Replicate>;
using Path = std::filesystem::path;

struct Options {
  sw::llm::LlamaConfig model{
      .vocabulary = 32000, .features = 256, .layers = 2, .heads = 16, .kv_heads = 16, .hidden = 768};
  sw::Index batch = 8, sequence = 256;
  int repetitions = 10;
  Path folder = "checkpoint-benchmark";
};

template <class PlanType>
struct Run {
  explicit Run(const Mesh& m, const Options& options) : mesh(m), model(m, options.model), contents(m) {
    sw::initialize(model, 3);
    const auto ids = [&](std::uint64_t seed) {
      return benchmarks::random_ids<Ids>(mesh, {options.batch, options.sequence}, options.model.vocabulary,
                                         seed);
    };
    inputs.emplace(ids(7));
    targets.emplace(ids(8));
    step();  // makes the optimizer's state
    contents.add("model", model);
    contents.add("optimizer", adamw, model);
  }

  void step() {
    sw::Tape tape;
    auto loss = criterion(model(tape.constant(*inputs)), *targets);
    sw::backward_and_reduce(loss, model);
    adamw.step(model);
  }

  Mesh mesh;
  sw::llm::Llama<Mesh, PlanType> model;
  sw::AdamW adamw{{}};
  sw::CrossEntropyLoss criterion;
  sw::CheckpointContents contents;
  std::optional<Ids> inputs, targets;
};

using Sharded = Run<sw::PlanWith<Plan, sw::FullyShard<sw::dp>>>;
using Split = Run<Plan>;

double total(double mine) {
  sw::world().all_reduce(&mine, &mine, 1, sw::DataType::f64, sw::ReduceOp::sum);
  return mine;
}
double largest(double mine) {
  sw::world().all_reduce(&mine, &mine, 1, sw::DataType::f64, sw::ReduceOp::max);
  return mine;
}

/// The files of a checkpoint's elements one after the other, once: dd is to read from memory what it writes, as a save
/// does.
void join_files(const Path& checkpoint, const Path& target) {
  std::ofstream out(target, std::ios::binary);
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".bin") out << std::ifstream(entry.path(), std::ios::binary).rdbuf();
  }
  if (!out.flush()) throw std::runtime_error(target.string() + ": cannot be written");
}

void compare_with_dd(Sharded& run, const Options& options) {
  const bool first = sw::world().rank() == 0;
  const Path saved = options.folder / "saved", source = options.folder / "source";
  const double bytes = total(static_cast<double>(sw::save_checkpoint(saved, run.contents)));
  if (first) join_files(saved, source);
  const std::string copy = "dd if='" + source.string() + "' of='" + (options.folder / "copy").string() +
                           "' bs=4M conv=fsync status=none";
  const auto times = benchmarks::interleave(
      options.repetitions, 1, [&] { sw::save_checkpoint(saved, run.contents); },
      [&] {
        const bool failed = first && std::system(copy.c_str()) != 0;
        if (!sw::world().agree(!failed)) throw std::runtime_error("dd failed: " + copy);
      });
  if (!first) return;
  std::printf("save       %7.1f MB   %7.1f ms   %7.0f MB/s\n", bytes * 1e-6, times.ours * 1e3,
              bytes * 1e-6 / times.ours);
  std::printf("dd, fsync  %7.1f MB   %7.1f ms   %7.0f MB/s\n", bytes * 1e-6, times.bare * 1e3,
              bytes * 1e-6 / times.bare);
  std::printf("save's speed is %.2f of dd's (quartiles %.2f to %.2f)\n", 1 / times.ratio, 1 / times.upper,
              1 / times.lower);
}

void load_on_another_mesh(const Options& options) {
  Split run(Mesh(sw::world(), {1, sw::any}), options);
  const Path saved = options.folder / "saved";
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const double before = benchmarks::status_megabytes("VmRSS:");
  sw::world().barrier();
  const double start = MPI_Wtime();
  const auto loaded = sw::load_checkpoint(saved, run.contents);
  const double seconds = largest(MPI_Wtime() - start);
  const double more = largest(benchmarks::status_megabytes("VmHWM:") - before);
  double stored = 0;
  for (const auto& entry : std::filesystem::directory_iterator(saved)) {
    if (entry.path().extension() == ".bin") stored += static_cast<double>(entry.file_size());
  }
  const double read = total(static_cast<double>(loaded.bytes_read));
  if (sw::world().rank() != 0) return;
  std::printf(
      "load, dp to tp       %7.1f ms   %7.0f MB/s; all ranks read %.3f of the bytes, and none took more "
      "than %.1f MiB beside its blocks\n",
      seconds * 1e3, read * 1e-6 / seconds, read / stored, more);
}

/// Steps from the beginning of a save until it is whole, and as many without, in turn.
void steps_beside_a_save(Sharded& run, const Options& options) {
  sw::Checkpointer checkpointer(sw::world(), {.folder = options.folder, .keep = 2});
  auto complain = [](const std::optional<std::string>& problem) {
    if (problem) throw std::runtime_error(*problem);
  };
  auto timed = [](auto work) {
    sw::world().barrier();
    const double start = MPI_Wtime();
    work();
    return MPI_Wtime() - start;
  };
  std::vector<double> beside, alone, ratios, steps;
  for (int number = 1; number <= options.repetitions + 1; ++number) {
    int count = 0;
    const double with = timed([&] {
      complain(checkpointer.save(number, run.contents));
      for (; checkpointer.saving(); ++count) {
        run.step();
        complain(checkpointer.progress());
      }
    });
    const double without = timed([&] {
      for (int step = 0; step < count; ++step) run.step();
    });
    if (number == 1) continue;
    beside.push_back(with / count);
    alone.push_back(without / count);
    ratios.push_back(with / without);
    steps.push_back(count);
  }
  if (sw::world().rank() != 0) return;
  std::printf(
      "a step     alone %.1f ms, beside a save in the background %.1f ms: %.3f of it (quartiles %.3f to "
      "%.3f); a "
      "save takes %.0f steps\n",
      benchmarks::median(alone) * 1e3, benchmarks::median(beside) * 1e3, benchmarks::median(ratios),
      benchmarks::quantile(ratios, 0.25), benchmarks::quantile(ratios, 0.75), benchmarks::median(steps));
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times checkpoints: saving beside dd, loading onto another mesh, steps beside a save.",
                 "checkpoint");
    app.option_defaults()->always_capture_default();
    auto add = [&](const char* name, auto& value, const char* text) {
      app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
    };
    add("--vocabulary", options.model.vocabulary, "tokens that there are");
    add("--features", options.model.features, "a multiple of the heads, 16");
    add("--layers", options.model.layers, "of the model");
    add("--hidden", options.model.hidden, "features within the MLPs");
    add("--batch", options.batch, "sequences in a step");
    add("--sequence", options.sequence, "tokens in a sequence");
    add("--repetitions", options.repetitions, "of each measurement");
    app.add_option("--folder", options.folder,
                   "where to write, on the device to measure; it is removed afterwards");
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;

    const bool first = sw::world().rank() == 0;
    if (std::filesystem::exists(options.folder)) {
      throw std::invalid_argument("--folder " + options.folder.string() + ": it is there already");
    }
    sw::world().barrier();
    if (first) std::filesystem::create_directories(options.folder);
    sw::world().barrier();
    {
      Sharded run(Mesh(sw::world(), {sw::any, 1}), options);
      compare_with_dd(run, options);
      load_on_another_mesh(options);
      steps_beside_a_save(run, options);
    }
    sw::world().barrier();
    if (first) std::filesystem::remove_all(options.folder);
    return 0;
  });
}
