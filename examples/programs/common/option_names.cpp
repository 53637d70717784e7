// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "option_names.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace tools {

namespace {

/// Names of options in other programs, and their names here; without "--", and with "-" for "_". One may have several.
constexpr std::pair<std::string_view, std::string_view> other_names[]{
    {"lr", "rate"},
    {"learning-rate", "rate"},
    {"learningrate", "rate"},
    {"max-lr", "rate"},
    {"min-lr", "floor"},
    {"lr-schedule", "rate-schedule"},
    {"lr-scheduler-type", "rate-schedule"},
    {"lr-decay-style", "rate-schedule"},
    {"warmup-steps", "warmup"},
    {"num-warmup-steps", "warmup"},
    {"lr-warmup-iters", "warmup"},
    {"wd", "weight-decay"},
    {"eps", "epsilon"},
    {"adam-epsilon", "epsilon"},
    {"adam-eps", "epsilon"},
    {"max-grad-norm", "clip"},
    {"grad-clip", "clip"},
    {"clip-grad", "clip"},
    {"bs", "batch"},
    {"batch-size", "batch"},
    {"batchsize", "batch"},
    {"train-batch-size", "batch"},
    {"per-device-train-batch-size", "batch"},
    {"global-batch-size", "batch"},
    {"gradient-accumulation-steps", "micro-batches"},
    {"grad-accum", "micro-batches"},
    {"gradient-accumulation", "micro-batches"},
    {"iters", "steps"},
    {"train-iters", "steps"},
    {"max-steps", "steps"},
    {"max-iters", "steps"},
    {"max-train-steps", "steps"},
    {"num-train-epochs", "epochs"},
    {"num-epochs", "epochs"},
    {"seq-len", "context"},
    {"seq-length", "context"},
    {"max-seq-length", "context"},
    {"max-seq-len", "context"},
    {"max-length", "context"},
    {"block-size", "context"},
    {"ctx-size", "context"},
    {"n-ctx", "context"},
    {"dim", "features"},
    {"hidden-size", "features"},
    {"d-model", "features"},
    {"n-embd", "features"},
    {"intermediate-size", "hidden"},
    {"ffn-hidden-size", "hidden"},
    {"num-layers", "layers"},
    {"num-hidden-layers", "layers"},
    {"n-layer", "layers"},
    {"num-attention-heads", "heads"},
    {"num-heads", "heads"},
    {"n-head", "heads"},
    {"num-key-value-heads", "kv-heads"},
    {"num-query-groups", "kv-heads"},
    {"n-kv-heads", "kv-heads"},
    {"tensor-parallel", "tp"},
    {"tensor-parallel-size", "tp"},
    {"tp-size", "tp"},
    {"tensor-model-parallel-size", "tp"},
    {"pipeline-parallel", "pp"},
    {"pipeline-parallel-size", "pp"},
    {"pp-size", "pp"},
    {"pipeline-model-parallel-size", "pp"},
    {"context-parallel", "cp"},
    {"context-parallel-size", "cp"},
    {"cp-size", "cp"},
    {"data-parallel", "dp"},
    {"data-parallel-size", "dp"},
    {"dp-size", "dp"},
    {"zero-stage", "zero"},
    {"zero-1", "zero"},
    {"zero-2", "zero"},
    {"zero-3", "zero"},
    {"fsdp", "zero"},
    {"gradient-checkpointing", "recompute"},
    {"activation-checkpointing", "recompute"},
    {"train-file", "data"},
    {"dataset", "data"},
    {"dataset-name", "data"},
    {"data-path", "data"},
    {"probabilities", "mix"},
    {"data-weights", "mix"},
    {"blend", "mix"},
    {"out-dir", "export"},
    {"output-dir", "export"},
    {"output-dir", "save"},
    {"output", "export"},
    {"checkpoint-dir", "save"},
    {"save-dir", "save"},
    {"save-interval", "save-every"},
    {"save-steps", "save-every"},
    {"save-total-limit", "keep"},
    {"eval-interval", "evaluate-every"},
    {"eval-steps", "evaluate-every"},
    {"validation-file", "validation"},
    {"logging-dir", "log"},
    {"tensorboard-dir", "log"},
    {"resume-from-checkpoint", "resume"},
    {"model-name-or-path", "from"},
    {"model-path", "from"},
    {"pretrained", "from"},
    {"tokenizer-name", "tokenizer"},
    {"mixed-precision", "bf16"},
    {"dtype", "bf16"},
    {"torch-dtype", "bf16"},
    {"precision", "bf16"},
    {"disable-embedding-parallelization", "embedding"},
    {"random-seed", "seed"},
    {"optim", "optimizer"},
    {"checkpoint", "save"},
    {"checkpoint", "weights"},
    {"model", "weights"},
    {"max-new-tokens", "new-tokens"},
    {"max-tokens", "new-tokens"},
    {"n-predict", "new-tokens"},
    {"temp", "temperature"},
    {"repeat-penalty", "repetition-penalty"},
    {"reverse-prompt", "stop"},
    {"stop-strings", "stop"},
    {"parallel", "rows"},
    {"max-num-seqs", "rows"},
    {"max-model-len", "context"},
    {"ctx-size", "context"},
    {"served-model-name", "name"},
    {"interactive", "chat"},
    {"conversation", "chat"},
    {"file", "text"},
    {"tasks", "questions"},
    {"multiple-choice", "questions"},
    {"quantization", "weight-bits"},
    {"quantize", "weight-bits"},
    {"load-in-8bit", "weight-bits"},
    {"load-in-4bit", "weight-bits"},
    {"dtype", "weight-bits"},
    {"torch-dtype", "weight-bits"},
    {"precision", "weight-bits"},
};

constexpr std::string_view no_devices = "programs compute on CPUs, and mpirun -n gives the number of ranks",
                           no_workers = "each rank reads its own rows";
/// Options of other programs that have no counterpart, and the reason.
constexpr std::pair<std::string_view, std::string_view> no_options[]{
    {"device", no_devices},
    {"devices", no_devices},
    {"cuda", no_devices},
    {"no-cuda", no_devices},
    {"gpus", no_devices},
    {"gpu", no_devices},
    {"num-gpus", no_devices},
    {"n-gpu-layers", no_devices},
    {"ngl", no_devices},
    {"nproc-per-node", no_devices},
    {"num-processes", no_devices},
    {"world-size", no_devices},
    {"threads", no_devices},
    {"num-workers", no_workers},
    {"dataloader-num-workers", no_workers},
    {"do-train", "shardwise-train always trains"},
    {"do-eval", "--held-out or --validation evaluates"},
    {"do-predict", "shardwise-generate writes texts"},
};

/// The options of `app` that `word` names in other programs, as "--save or --export"; or nothing.
std::string renamed_option(const CLI::App& app, const std::string& word) {
  std::string names;
  for (const auto& [other, ours] : other_names) {
    if (other != word || !app.get_option_no_throw("--" + std::string(ours))) continue;
    names += (names.empty() ? "--" : " or --") + std::string(ours);
  }
  return names;
}

/// The number of letters to insert, delete or replace to get from `a` to `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t nearest = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], nearest);
    }
  }
  return row.back();
}

/// The option of `app` whose spelling is nearest to `word`, or nothing.
std::string nearest_option(const CLI::App& app, const std::string& word) {
  std::string nearest;
  // Up to a third of the letters may be wrong, or two swapped. Among equals, a common first letter decides.
  const std::size_t most = word.size() > 3 ? std::clamp<std::size_t>(word.size() / 3, 2, 3) : 1;
  std::size_t least = 2 * most + 2;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const std::size_t distance =
          2 * edit_distance(word, name) + (word.substr(0, 1) == name.substr(0, 1) ? 0 : 1);
      if (distance < least) nearest = name, least = distance;
    }
  }
  return nearest;
}

}  // namespace

std::string unknown_option(const CLI::App& app, const std::string& given) {
  std::string word = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  std::replace(word.begin(), word.end(), '_', '-');
  if (const std::string ours = renamed_option(app, word); !ours.empty())
    return given + ": the option is " + ours;
  for (const auto& [other, reason] : no_options) {
    if (other == word) return given + " is not an option: " + std::string(reason);
  }
  const std::string near = nearest_option(app, word);
  return given + " is not an option" + (near.empty() ? "" : "; did you mean --" + near + "?");
}

}  // namespace tools
