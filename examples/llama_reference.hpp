// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Compares a model with what PyTorch computed for it: logits, loss and every gradient, losses of some steps of
/// AdamW, and the weights after them. tests/reference/generate.py makes such folders.

#include <shardwise/models/llama/files.hpp>

#include "llama_model.hpp"

namespace examples {

/// The largest relative errors, max |found - expected| / max |expected|, of several tensors, each over all
/// ranks. A number that is none counts as infinitely wrong.
class RelativeErrors {
 public:
  template <class X>
  void add(std::string name, const X& found, const X& expected) {
    double difference = 0, largest = 0;
    for (sw::Index i = 0; i < found.view().elements(); ++i) {
      const auto a = static_cast<double>(found.data()[i]), b = static_cast<double>(expected.data()[i]);
      difference = std::isfinite(a - b) ? std::max(difference, std::abs(a - b)) : HUGE_VAL;
      largest = std::max(largest, std::abs(b));
    }
    names_.push_back(std::move(name));
    differences_.push_back(difference);
    largest_.push_back(largest);
  }

  /// The worst of them and its name. Collective.
  std::pair<double, std::string> worst(const sw::Communicator& ranks) {
    for (auto* numbers : {&differences_, &largest_}) {
      ranks.all_reduce(numbers->data(), numbers->data(), static_cast<sw::Index>(numbers->size()),
                       sw::data_type<double>, sw::ReduceOp::max);
    }
    std::pair<double, std::string> result{0, "none"};
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const double error = differences_[i] / std::max(largest_[i], 1e-300);
      if (error >= result.first) result = {error, names_[i]};
    }
    return result;
  }

 private:
  std::vector<std::string> names_;
  std::vector<double> differences_, largest_;
};

/// One plan in one precision. Returns whether logits, loss and gradients are within `tolerance`.
template <class PlanType, class T>
bool compare_with_reference(const LlamaMesh<sw::Mesh>& mesh, const std::filesystem::path& folder,
                            const char* plan, double tolerance) {
  using MeshType = LlamaMesh<sw::Mesh>;
  const bool prints = mesh.rank() == 0;
  const char* precision = std::is_same_v<T, float> ? "float" : "double";
  const sw::LlamaConfig config = sw::read_llama_config(folder / "config.json");
  const sw::SafetensorsFile file(folder / (std::is_same_v<T, float> ? "f32.safetensors" : "f64.safetensors"));
  auto expected = [&](const std::string& name, const auto& like) {
    std::remove_cvref_t<decltype(like)> block(mesh, like.shape());
    file.read_block(name, block.writable());
    return block;
  };
  auto ids_of = [&](const char* name) {
    return sw::read_tensor<std::int64_t, 2, sw::Shard<0>, sw::Replicate, sw::Replicate>(mesh, file.path(),
                                                                                        name);
  };

  sw::Llama<MeshType, PlanType, T> model(mesh, config);
  sw::load_llama(model, folder / "model.safetensors");
  const auto ids = ids_of("input_ids"), targets = ids_of("targets");

  RelativeErrors logits_error, gradient_errors, weight_errors;
  double loss_error = 0, later_losses_error = 0;
  const sw::Json settings = sw::read_json(folder / "config.json").at("reference");
  const int steps = settings.at("steps").get<int>();
  sw::AdamW optimizer(
      {.rate = settings.at("lr").get<double>(), .weight_decay = settings.at("wd").get<double>()});
  std::vector<double> losses(static_cast<std::size_t>(steps));
  file.read_block("losses", sw::View<double, 1>{losses.data(), {steps}, {0}, {steps}});
  for (int step = 0; step < steps; ++step) {
    sw::Tape tape;
    auto logits = model(tape.constant(ids));
    if (step == 0) logits_error.add("logits", logits.value(), expected("logits", logits.value()));
    auto loss = sw::CrossEntropyLoss()(std::move(logits), targets);
    const double found = static_cast<double>(sw::item(loss.value())),
                 wanted = losses[static_cast<std::size_t>(step)];
    const double error = std::isfinite(found) ? std::abs(found - wanted) / std::abs(wanted) : HUGE_VAL;
    (step == 0 ? loss_error : later_losses_error) = std::max(step == 0 ? 0 : later_losses_error, error);
    tape.backward(loss);
    sw::reduce_gradients(model);
    if (step == 0) {
      sw::for_each_named_parameter(model, [&](std::string_view path, auto& parameter) {
        const std::string name = sw::hugging_face_name(path);
        gradient_errors.add(name, parameter.finished_gradient(),
                            expected("grad." + name, parameter.finished_gradient()));
      });
    }
    optimizer.step(model);
  }
  sw::for_each_named_parameter(model, [&](std::string_view path, auto& parameter) {
    const std::string name = sw::hugging_face_name(path);
    weight_errors.add(name, parameter.value(), expected("final." + name, parameter.value()));
  });

  const sw::Communicator& all = mesh.communicator<sw::dp, sw::tp, sw::kvr>();
  const auto logits_worst = logits_error.worst(all), gradient_worst = gradient_errors.worst(all),
             weight_worst = weight_errors.worst(all);
  const bool within =
      logits_worst.first <= tolerance && loss_error <= tolerance && gradient_worst.first <= tolerance;
  if (prints) {
    std::printf("%-17s %-6s  logits %.1e  loss %.1e  gradients %.1e (%s)%s\n", plan, precision,
                logits_worst.first, loss_error, gradient_worst.first, gradient_worst.second.c_str(),
                within ? "" : "   TOO LARGE");
    std::printf("%26safter %d steps of AdamW: losses %.1e  weights %.1e (%s)\n", "", steps,
                later_losses_error, weight_worst.first, weight_worst.second.c_str());
  }
  return within;
}

/// Both plans in both precisions.
inline bool compare_with_reference(const LlamaMesh<sw::Mesh>& mesh, const std::filesystem::path& folder) {
  const double float_tolerance = 2e-5, double_tolerance = 1e-10;
  bool within =
      compare_with_reference<TensorParallel, float>(mesh, folder, "tensor parallel", float_tolerance);
  within &= compare_with_reference<TensorParallel, double>(mesh, folder, "tensor parallel", double_tolerance);
  within &=
      compare_with_reference<SequenceParallel, float>(mesh, folder, "sequence parallel", float_tolerance);
  within &=
      compare_with_reference<SequenceParallel, double>(mesh, folder, "sequence parallel", double_tolerance);
  if (mesh.rank() == 0) {
    std::printf("%s the tolerances of %.0e in float and %.0e in double\n",
                within ? "all within" : "NOT all within", float_tolerance, double_tolerance);
  }
  return within;
}

}  // namespace examples
