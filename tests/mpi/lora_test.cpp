// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Adapters: a Llama against PyTorch, on meshes with data and tensor parallelism and ZeRO.

#include "lora_reference.hpp"
#include "outcome.hpp"

namespace shardwise::testing::lora {
namespace {

std::string peft_name(std::string_view path) { return "base_model.model." + llm::hugging_face_name(path); }

// ---- Against PyTorch ----------------------------------------------------------------------------------------------

template <class PlanType>
void check_against_pytorch(const LlamaMesh& mesh, bool recompute) {
  const Weights file(references / "lora" / "f64.safetensors");
  constexpr double tolerance = 1e-12;
  const auto check = [&](const detail::AnyTensor& found, const std::string& name) {
    INFO(name);
    CHECK(relative_error(found, read_as(file, name, found)) <= tolerance);
  };
  const auto ids = read_ids(mesh, "input_ids"), targets = read_ids(mesh, "targets");
  const Json settings = read_json(references / "lora" / "reference.json");
  std::vector<double> losses(settings.at("steps").get<std::size_t>());
  const auto steps = static_cast<Index>(losses.size());
  file.read_block("losses", View<double, 1>{losses.data(), {steps}, {0}, {steps}});

  llm::Llama<LlamaMesh, PlanType, double> model(mesh, config());
  model.recompute_layers = recompute;
  load(model);
  const auto given = llm::detail::given_parameters_of(model);
  std::vector<Numbers> first;
  for (const auto& parameter : given) first.push_back(whole(parameter.cell->stored));
  AdamW adamw({.rate = settings.at("lr").get<double>(), .weight_decay = settings.at("wd").get<double>()});
  for (std::size_t step = 0; step < losses.size(); ++step) {
    Tape tape;
    auto logits = model(tape.constant(ids));
    if (step == 0) check(detail::AnyTensor(logits.value()), "logits");
    auto loss = CrossEntropyLoss()(std::move(logits), targets);
    CHECK(std::abs(item(loss) - losses[step]) <= tolerance * losses[step]);
    backward_and_reduce(loss, model);
    for (const auto& each : detail::named_parameters_of(model)) {
      if (step > 0 || each.cell->layouts.frozen) continue;
      check(each.cell->finished_gradient(), "grad." + peft_name(each.name));
    }
    adamw.step(model);
  }
  for (const auto& each : detail::named_parameters_of(model)) {  // waits for what an optimizer still gathers
    if (!each.cell->layouts.frozen) check(each.cell->stored, "final." + peft_name(each.name));
  }
  for (std::size_t i = 0; i < given.size(); ++i) CHECK(whole(given[i].cell->stored) == first[i]);
}

TEST_CASE("logits, losses, gradients and steps are PyTorch's") {
  for (const LlamaMesh& mesh : llama_meshes(config())) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    check_against_pytorch<Tensors>(mesh, false);
    check_against_pytorch<PlanWith<Sequences, Zero<1, dp>>>(mesh, true);
    check_against_pytorch<PlanWith<Sequences, Zero<2, dp>>>(mesh, false);
    check_against_pytorch<PlanWith<Tensors, FullyShard<dp>>>(mesh, true);
  }
}

}  // namespace
}  // namespace shardwise::testing::lora
