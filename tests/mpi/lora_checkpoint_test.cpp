// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Adapters in checkpoints.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>

#include "lora_reference.hpp"
#include "outcome.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing {
namespace {

TEST_CASE("a checkpoint has adapters, their state, and what is given; another mesh goes on from it") {
  const ScratchFolder folder;
  const auto step = [](auto& model, AdamW& adamw) {
    const auto& mesh = model.norm->weight.mesh();
    const auto ids = read_ids(mesh, "input_ids"), targets = read_ids(mesh, "targets");
    Tape tape;
    backward_and_reduce(CrossEntropyLoss()(model(tape.constant(ids)), targets), model);
    adamw.step(model);
  };
  const auto run = [](auto& model, AdamW& adamw) {
    CheckpointContents contents(model.norm->weight.mesh());
    contents.add("model", model);
    contents.add("optimizer", adamw, model);
    return contents;
  };
  llm::Llama<LlamaMesh, PlanWith<Sequences, Zero<1, dp>>, double> model(llama_meshes(config()).back(),
                                                                        config());
  llm::Llama<LlamaMesh, PlanWith<Tensors, FullyShard<dp>>, double> again(llama_meshes(config()).front(),
                                                                         config());
  AdamW adamw, adamw_again;
  load(model);
  step(model, adamw);
  const auto contents = run(model, adamw);
  CHECK(contents.numbers().size() == 1 + llm::detail::adapters_of(model).parameters.size());
  save_checkpoint(folder / "run", contents);
  initialize(again, 1);
  load_checkpoint(folder / "run", run(again, adamw_again));
  step(model, adamw);
  step(again, adamw_again);
  const auto right = detail::named_parameters_of(model), found = detail::named_parameters_of(again);
  for (std::size_t i = 0; i < right.size(); ++i) {
    INFO(right[i].name);
    CHECK(error(whole(found[i].cell->stored), whole(right[i].cell->stored)) < 1e-12);
  }
}

}  // namespace
}  // namespace shardwise::testing
