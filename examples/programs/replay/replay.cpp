// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Makes a step of a training job again, from a checkpoint or from the seed. All ranks of the job are simulated in this
/// process, so each has the bits that it had in the job, unless a processor or a memory has flipped one there.

#include <csignal>
#include <cstdio>

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/simulate/simulate.hpp>

#include "../common/options.hpp"
#include "../train/run.hpp"
#include "../train/step_fingerprints.hpp"
#include "../train/train_command.hpp"

namespace {

using namespace tools;

struct ReplayOptions {
  std::filesystem::path checkpoint, out;
  std::int64_t step = 0;
  int rank = 0, ranks_per_host = 0;
  std::optional<int> ranks;
};

/// The results of the ranks.
struct Replayed {
  std::string error;
  std::int64_t begun = 0;
  StepResult result;
  std::vector<std::string> names;  ///< of the contents, on the rank to be shown
  RankFingerprints shown;
  std::string lines;
  std::optional<sw::StepDifference> difference;
};

void add_options(CLI::App& app, ReplayOptions& own) {
  app.option_defaults()->group("Replay");
  app.add_option("--checkpoint", own.checkpoint,
                 "a checkpoint of the job, from before the step; by default the job begins again")
      ->check(CLI::ExistingDirectory);
  add_whole<std::int64_t>(app, "--step", own.step, "the step to make again, as --log counts: the first is 0")
      ->required()
      ->default_str("");
  add_whole<int>(app, "--rank", own.rank, "the rank whose fingerprints are printed");
  app.add_option("--ranks", own.ranks, "ranks of the job; default: those of the checkpoint, or of the mesh")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--ranks-per-host", own.ranks_per_host,
                 "consecutive ranks on each host, which decide the order of sums; 0: all on one")
      ->check(CLI::Range(0, 1 << 16));
  app.add_option("--out", own.out, "write the fingerprints of all ranks to this file, as --fingerprints");
}

int ranks_of(const TrainCommand& command, const ReplayOptions& own) {
  if (own.ranks || own.checkpoint.empty()) return own.ranks.value_or(command.ranks());
  int ranks = 1;
  for (const auto& [axis, size] : sw::read_manifest(own.checkpoint).mesh) ranks *= static_cast<int>(size);
  return ranks;
}

/// Returns the number of steps that were made.
std::int64_t load(const Run& run, TrainedModel& model, const std::filesystem::path& checkpoint) {
  std::int64_t step = 0;
  sw::CheckpointContents contents(run.mesh());
  model.add_to(contents);
  contents.add("step", step);
  const sw::LoadedCheckpoint loaded = sw::load_checkpoint(checkpoint, contents);
  const sw::Json settings = run.settings();
  if (const std::string other = other_run(loaded.notes, settings); !other.empty())
    throw std::runtime_error(checkpoint.string() + ": " + other);
  run.continue_from(checkpoint.string(), loaded.notes);
  for (const char* each : changeable) {
    const std::string now = change(each, loaded.notes, settings);
    if (run.prints() && !now.empty()) std::printf("settings changed since the checkpoint: %s\n", now.c_str());
  }
  return step;
}

/// `expected`: the fingerprints of the job, by rank, if they are known.
void replay(const TrainCommand& command, const ReplayOptions& own,
            const std::vector<RankFingerprints>& expected, Replayed& all) {
  const Run run(command.options());
  const std::unique_ptr<TrainedModel> model = run.make_model();
  std::int64_t step = own.checkpoint.empty() ? 0 : load(run, *model, own.checkpoint);
  if (own.step < step || own.step >= run.options().steps) {
    throw std::invalid_argument("--step " + std::to_string(own.step) + ": expected one from " +
                                std::to_string(step) + ", the next of the checkpoint, to " +
                                std::to_string(run.options().steps - 1) + ", the last of the job");
  }
  const std::int64_t begun = step;
  for (; step < own.step; ++step) {
    run.fetch(step);
    run.make_step(*model, step);
  }
  run.fetch(step);
  StepContents state(run.mesh(), *model);
  StepResult result;
  const RankFingerprints found =
      state.fingerprints_of([&] { result = state.make([&] { return run.make_step(*model, step); }); });
  const std::string lines = lines_of_all(step, found);
  const auto rank = static_cast<std::size_t>(run.mesh().rank());
  if (!expected.empty()) all.difference = sw::difference_of(sw::world(), expected[rank].step, found.step);
  if (run.prints()) all.begun = begun, all.result = result, all.lines = lines;
  if (run.mesh().rank() != own.rank) return;
  all.shown = found;
  for (const auto& block : state.contents().blocks()) all.names.push_back(block.name);
  for (const auto& [name, number] : state.contents().numbers()) all.names.push_back(name);
}

std::uint64_t together(const std::vector<std::uint64_t>& fingerprints) {
  sw::Fingerprint all;
  for (const std::uint64_t each : fingerprints) all.add(each);
  return all.value();
}

void print(const char* kind, const std::vector<std::string>& names, const std::vector<std::uint64_t>& found,
           const std::vector<std::uint64_t>* expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool differs = expected && (i >= expected->size() || (*expected)[i] != found[i]);
    std::printf("%s  %-8s  %s%s\n", hexadecimal(found[i]).c_str(), kind, names[i].c_str(),
                differs ? "  DIFFERS" : "");
  }
}

int replay_program(int argc, char** argv) {
  CommandLine app(
      "Makes a step of a training job again, on all its ranks, which are simulated in this process, and "
      "prints the "
      "fingerprints of one of them. Give it the options of the job: if --fingerprints is among them, it "
      "compares the "
      "ranks with that file, names those that differ, and ends with 1. It saves and exports nothing.",
      "shardwise-replay");
  ReplayOptions own;
  add_options(app, own);
  const TrainCommand command(app);
  if (const auto code = app.read_alone(argc, argv)) return *code;
  if (command.searches())
    throw std::invalid_argument("--plan best: give the options that the job has printed instead");
  if (command.replicas_are_jobs())
    throw std::invalid_argument("--quorum: steps of replicas that are jobs of their own are not made again");
  const int ranks = ranks_of(command, own);
  if (own.rank >= ranks)
    throw std::invalid_argument("--rank " + std::to_string(own.rank) + ": the job has " +
                                std::to_string(ranks) + " ranks");
  const std::string file = command.fingerprints().string();
  const std::vector<RankFingerprints> expected =
      file.empty() ? std::vector<RankFingerprints>() : read_fingerprints(file, own.step, ranks);
  Replayed all;
  try {
    sw::simulate(ranks,
                 [&] {
                   try {
                     replay(command, own, expected, all);
                   } catch (const std::exception& error) {
                     if (all.error.empty()) all.error = error.what();
                     throw;
                   }
                 },
                 {.ranks_per_host = own.ranks_per_host});
  } catch (const sw::SimulationError& error) {
    throw std::runtime_error(all.error.empty() ? error.what() : all.error);
  }
  if (!own.out.empty()) sw::write_file_atomically(own.out, all.lines);

  const RankFingerprints* const known =
      expected.empty() ? nullptr : &expected[static_cast<std::size_t>(own.rank)];
  std::printf("step %lld of %d ranks, from %s: loss %.9g, gradient norm %.9g\n",
              static_cast<long long>(own.step), ranks,
              own.checkpoint.empty() ? "the seed" : ("step " + std::to_string(all.begun)).c_str(),
              all.result.loss, all.result.norm);
  std::printf("fingerprints of rank %d:\n", own.rank);
  std::vector<std::uint64_t> of_job;
  if (known) of_job = {together(known->step.sent)};
  print("sent", {std::to_string(all.shown.step.sent.size()) + " messages"}, {together(all.shown.step.sent)},
        known ? &of_job : nullptr);
  print("gradient", all.shown.names, all.shown.gradients, known ? &known->gradients : nullptr);
  print("after", all.names, all.shown.step.contents, known ? &known->step.contents : nullptr);
  if (all.difference) std::printf("DIFFERENT from %s: %s\n", file.c_str(), all.difference->text.c_str());
  if (known && !all.difference) std::printf("all ranks have the fingerprints in %s\n", file.c_str());
  return after_output(all.difference ? 1 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit is an error with a file name
  try {
    return replay_program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardwise-replay: %s\n", error.what());
    return 1;
  }
}
