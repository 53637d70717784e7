// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// From a Llama's checkpoint to a folder in Hugging Face's form, and back: in this process alone, without MPI, and in
/// little memory.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>

#include <shardwise/models/llama/consolidate.hpp>
#include <shardwise/models/llama/import_weights.hpp>

#include "byte_progress.hpp"
#include "option_errors.hpp"

namespace {

using namespace tools;

struct Options {
  std::filesystem::path from, to;
  bool to_checkpoint = false, force = false;
  sw::Index max_file_bytes = sw::ConsolidateOptions{}.max_file_bytes;
  std::string type = "keep";
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("from", options.from, "a checkpoint; with --to-checkpoint a folder in Hugging Face's form")
      ->required()
      ->type_name("CHECKPOINT");
  app.add_option("to", options.to, "the folder to be made")->required()->type_name("OUT");
  auto* back =
      app.add_flag("--to-checkpoint", options.to_checkpoint, "make a checkpoint, of the model alone");
  app.add_option(
         "--max-file-bytes", options.max_file_bytes,
         "a file that has a tensor takes another only up to so many bytes; 5GB and 500MiB are numbers too")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(sw::Index{1}, sw::Index{1} << 60))
      ->excludes(back);
  app.add_option("--weights-dtype", options.type, "of all weights: as they are, or converted")
      ->check(CLI::IsMember({"keep", "F32", "BF16", "F16"}));
  app.add_flag("--force", options.force, "replace what is at OUT, if that is a model or a checkpoint");
}

void print(const Options& options, std::size_t tensors, sw::Index bytes, std::size_t files) {
  std::printf("%s: %zu tensors, %.2f MB in %zu file%s\n", options.to.c_str(), tensors,
              static_cast<double>(bytes) * 1e-6, files, files == 1 ? "" : "s");
}

void run(const Options& options) {
  ByteProgress shown("copied");
  const auto progress = [&](sw::Index done, sw::Index all) { shown.show(done, all); };
  const auto type = sw::stored_type_named(options.type);  // none is called "keep"
  if (options.to_checkpoint) {
    const auto made = sw::import_weights(options.from, options.to, {type, options.force, progress});
    print(options, made.tensors, made.bytes, 1);
    return;
  }
  const auto made = sw::consolidate_checkpoint(options.from, options.to,
                                               {type, options.max_file_bytes, options.force, progress});
  print(options, made.tensors, made.bytes, made.files);
  if (made.missing_tokenizer.empty()) return;
  std::fprintf(stderr,
               "note: no tokenizer.json: the checkpoint names %s, which is not there or no tokenizer\n",
               tools::shown(made.missing_tokenizer).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Makes one folder in Hugging Face's form of the checkpoint of a Llama. Needs no MPI job.",
               "shardwise-consolidate");
  app.option_defaults()->always_capture_default();
  add_options(app, options);
  app.failure_message(option_error);
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files is an error with a name
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
