// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Converts a Llama's checkpoint to a folder in Hugging Face's format, and back: in one process without MPI, with
/// little memory.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>

#include <shardwise/llm/models/llama/consolidate.hpp>
#include <shardwise/llm/models/llama/import_weights.hpp>

#include "../common/byte_progress.hpp"
#include "../common/command_line.hpp"
#include "../common/pytorch_file.hpp"
#include "../common/step_folders.hpp"
#include "../common/text_files.hpp"

namespace {

using namespace tools;

struct Options {
  std::filesystem::path from, to;
  bool to_checkpoint = false, force = false;
  sw::Index max_file_bytes = sw::llm::ConsolidateOptions{}.max_file_bytes;
  std::string type = "keep", format = "safetensors";
};

void add_options(CLI::App& app, Options& options) {
  app.add_option(
         "from", options.from,
         "a checkpoint, or a folder of checkpoints (the last complete one is used); with --to-checkpoint a "
         "folder in Hugging Face's format")
      ->required()
      ->type_name("CHECKPOINT");
  app.add_option("to", options.to, "the folder to create")->required()->type_name("OUT");
  auto* back =
      app.add_flag("--to-checkpoint", options.to_checkpoint, "create a checkpoint with the model alone");
  auto* format = app.add_option("-f,--format,--output_format", options.format,
                                "format of the weights; pytorch: a single file, pytorch_model.bin")
                     ->check(CLI::IsMember({"safetensors", "pytorch"}))
                     ->excludes(back);
  app.add_option("--max-file-bytes", options.max_file_bytes,
                 "largest size of a file with several tensors, in bytes or as 5GB or 500MiB")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(sw::Index{1}, sw::Index{1} << 60))
      ->excludes(back)
      ->excludes(format);
  app.add_option("--weights-dtype", options.type, "type of all weights; keep: unchanged")
      ->check(CLI::IsMember({"keep", "F32", "BF16", "F16"}));
  app.add_flag("--force", options.force, "replace OUT if it is a model or a checkpoint");
}

void print(const Options& options, std::size_t tensors, sw::Index bytes, std::size_t files) {
  std::printf("%s: %zu tensors, %.2f MB in %zu file%s\n", options.to.c_str(), tensors,
              static_cast<double>(bytes) * 1e-6, files, files == 1 ? "" : "s");
}

/// The last complete checkpoint in a folder of checkpoints; or the folder itself, if it has none.
std::filesystem::path last_checkpoint(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(folder / sw::manifest_name) || !fs::is_directory(folder)) return folder;
  std::vector<fs::path> steps = step_folders(folder);
  std::erase_if(steps, [](const fs::path& path) { return sw::is_temporary(path) || is_set_aside(path); });
  if (steps.empty()) return folder;  // the error will be that of a checkpoint without a manifest
  for (; !steps.empty(); steps.pop_back()) {
    try {
      if (!fs::exists(steps.back() / sw::manifest_name))
        throw sw::DamagedCheckpoint(steps.back().string() + ": it has no " + std::string(sw::manifest_name));
      static_cast<void>(sw::read_manifest(steps.back()));
      std::printf("%s is the last checkpoint\n", shown(steps.back().string()).c_str());
      return steps.back();
    } catch (const sw::DamagedCheckpoint& error) {
      std::fprintf(stderr, "note: using the checkpoint before it: %s\n", shown(error.what()).c_str());
    }
  }
  throw std::runtime_error(folder.string() + ": no checkpoint in it is complete");
}

void run(const Options& options) {
  ByteProgress shown("copied");
  const auto progress = [&](sw::Index done, sw::Index all) { shown.show(done, all); };
  const auto type = sw::stored_type_named(options.type);  // nothing for "keep"
  if (options.to_checkpoint) {
    const auto made = sw::llm::import_weights(options.from, options.to, {type, options.force, progress});
    print(options, made.tensors, made.bytes, 1);
    return;
  }
  const bool pytorch = options.format == "pytorch";
  const std::filesystem::path checkpoint = last_checkpoint(options.from);
  std::filesystem::path gone;
  const auto complete = [&](const std::filesystem::path& folder, const sw::Json& notes) {
    gone = copy_texts(folder, notes, checkpoint);
    if (!pytorch) return;
    write_pytorch_file(sw::Weights(folder), folder / "pytorch_model.bin");
    std::filesystem::remove(folder / "model.safetensors");
  };
  const auto made = sw::llm::consolidate_checkpoint(
      checkpoint, options.to,
      {type, pytorch ? 0 : options.max_file_bytes, options.force, progress, complete});
  print(options, made.tensors, made.bytes, made.files);
  if (!gone.empty()) {
    std::string names;
    for (const char* name : text_files) names += std::string(names.empty() ? "" : ", ") + name;
    std::fprintf(stderr,
                 "WARNING: %s, which the checkpoint names, is not there: if it had %s, copy them to %s\n",
                 tools::shown(gone.string()).c_str(), names.c_str(), options.to.c_str());
  }
  if (made.missing_tokenizer.empty()) return;
  std::fprintf(stderr,
               "WARNING: no tokenizer.json: the checkpoint names %s, which is missing or not a tokenizer\n",
               tools::shown(made.missing_tokenizer).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Converts a Llama's checkpoint to a folder in Hugging Face's format, or back. Needs no MPI job.",
      "shardwise-consolidate");
  add_options(app, options);
  if (const auto code = app.read_alone(argc, argv)) return *code;
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit is an error with a file name
  try {
    run(options);
    return after_output(0);
  } catch (const Interrupted& signal) {
    std::fprintf(stderr, "%s: interrupted: nothing was changed\n", options.to.c_str());
    return signal.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardwise-consolidate: %s\n", shown(error.what()).c_str());
    return 1;
  }
}
