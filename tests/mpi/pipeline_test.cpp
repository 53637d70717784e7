// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Llama in a pipeline, by every schedule: loss and all gradients of one rank that has the whole model, and the same bits
/// whatever the schedule, where it adds in the same order; with data, tensor and sequence parallelism and ZeRO too.

#include <doctest/doctest.h>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/by_costs.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>
#include <shardwise/shardwise.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "module_check.hpp"

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

using Stage = Mesh<dp, tp>;
using Job = Mesh<pp, dp, tp>;
constexpr Index batch = 4, length = 6;

LlamaConfig config_of(bool tied) {
  return {
      .vocabulary = 23, .features = 16, .layers = 7, .heads = 4, .kv_heads = 2, .hidden = 10, .tied = tied};
}

template <class MeshType>
auto ids_on(const MeshType& mesh, int number) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < batch * length; ++i)
    ids.push_back(static_cast<std::int32_t>((i * i + 5 * number) % 23));
  return distribute<Shard<0>, Replicate>(mesh, Shape<2>{batch, length}, std::span<const std::int32_t>(ids));
}

/// Other documents in each micro-batch.
template <class MeshType>
auto documents_on(const MeshType& mesh, int number) {
  std::vector<std::int32_t> documents;
  for (Index i = 0; i < batch * length; ++i)
    documents.push_back(static_cast<std::int32_t>((i % length + number) / 3));
  return distribute<Shard<0>, Replicate>(mesh, Shape<2>{batch, length},
                                         std::span<const std::int32_t>(documents));
}

struct Found {
  double loss = 0, norm = 0;
  Outcome gradients;
};

/// One rank with the whole model.
Found expected(int micro_batches, bool tied, double max_norm = 0.5) {
  const Stage mesh(self(), {1, 1});
  Llama<Stage, LlamaTensorParallel<>, double> model(mesh, config_of(tied));
  initialize(model, 3);
  Found found;
  for (int i = 0; i < micro_batches; ++i) {
    Tape tape;
    auto logits = model(tape.constant(ids_on(mesh, i)), documents_on(mesh, i));
    const auto loss = scale(CrossEntropyLoss()(std::move(logits), ids_on(mesh, i + 1)), 1. / micro_batches);
    found.loss += item(loss.value());
    tape.backward(loss);
  }
  found.norm = clip_gradients(model, max_norm);
  found.gradients = gradients_of(model);
  return found;
}

/// As `LlamaPart::of`, but each stage begins after the attention of a layer.
LlamaPart within_layers(const LlamaConfig& config, const std::vector<int>& rank_of_stage, int stage) {
  const auto stages = static_cast<Index>(rank_of_stage.size());
  const Index first = config.layers * stage / stages, last = config.layers * (stage + 1) / stages;
  const bool begins = stage == 0, ends = stage + 1 == stages;
  return {first, last - first + (ends ? 0 : 1), begins, ends, !begins, !ends};
}

using Division = LlamaPart(const LlamaConfig&, const std::vector<int>& rank_of_stage, int stage);

template <class Plan>
Found in_pipeline(const Job& job, const PipelineSchedule& schedule, bool tied, bool recomputes = false,
                  double max_norm = 0.5, Division* division = LlamaPart::of) {
  const Pipeline pipeline(job, schedule);
  using Part = Llama<Stage, Plan, double>;
  const LlamaConfig config = config_of(tied);
  auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
    Part part(mesh, config, division(config, pipeline.schedule().rank_of_stage, stage));
    part.recompute_layers = recomputes;
    return part;
  });
  initialize(stages, 3);
  const double share = 1. / schedule.micro_batches;
  Found found;
  found.loss = pipeline.run(
      stages, Shape<3>{batch, length, config.features},
      [&](Tape& tape, Part& part, int i) { return part.begin(tape.constant(ids_on(pipeline.mesh(), i))); },
      [&](Part& part, const auto& x, int i) { return part.middle(x, documents_on(pipeline.mesh(), i)); },
      [&](Part& part, const auto& x, int i) {
        return scale(part.end(x, ids_on(pipeline.mesh(), i + 1), LinearCrossEntropyLoss()), share);
      });
  found.norm = pipeline.clip_gradients(stages, max_norm);
  found.gradients = gradients_of(stages);
  return found;
}

std::map<std::string, PipelineSchedule> schedules(int ranks, int micro_batches) {
  std::map<std::string, PipelineSchedule> all{{"gpipe", gpipe(ranks, micro_batches)},
                                              {"1f1b", one_forward_one_backward(ranks, micro_batches)},
                                              {"zb-h1", zb_h1(ranks, micro_batches)}};
  if (2 * ranks <= 7) {
    if (micro_batches % ranks == 0) all.emplace("interleaved", interleaved(ranks, 2, micro_batches));
    all.emplace("zb-v", zb_v(ranks, micro_batches));
    const std::vector<int> in_turn = interleaved(ranks, 2, ranks).rank_of_stage;
    const LlamaConfig config = config_of(false);
    all.emplace("by-costs", by_costs(in_turn, micro_batches, LlamaPart::costs(config, in_turn)));
    if (micro_batches >= 2 * ranks) all.emplace("dualpipe-v", dualpipe_v(ranks, micro_batches));
  }
  return all;
}

void check(const Found& found, const Found& right) {
  CHECK(std::abs(found.loss - right.loss) < 1e-13);
  CHECK(std::abs(found.norm - right.norm) < 1e-13);
  for (const auto& parameter : found.gradients) {
    const auto& [name, numbers] = parameter;
    INFO(parameter.first);
    REQUIRE(right.gradients.count(name) == 1);
    CHECK(error(numbers, right.gradients.at(name)) < 1e-13);
  }
}

TEST_CASE("every schedule gives the gradients of one rank") {
  const int ranks = world().size();
  const Job job(world(), {ranks, 1, 1});
  for (const int micro_batches : {1, 3, 6}) {
    for (const bool tied : {false, true}) {
      const Found right = expected(micro_batches, tied, 1e9);
      std::map<std::string, Numbers> bits;
      for (const auto& entry : schedules(ranks, micro_batches)) {
        const PipelineSchedule& schedule = entry.second;
        INFO(ranks, " ranks, ", micro_batches, " micro-batches, tied ", tied, ", ", entry.first);
        const Found found =
            in_pipeline<LlamaTensorParallel<>>(job, schedule, tied, false, 1e9);  // the norm's bits differ
        check(found, right);
        for (const auto& each : found.gradients) {
          INFO(each.first);
          if (tied && ranks == 1) continue;  // one stage has the table once, and adds in another order
          CHECK(bits.emplace(each).first->second == each.second);
        }
      }
    }
  }
}

TEST_CASE("stages begin and end within layers, whatever the plan") {
  const int ranks = world().size();
  const Job job(world(), {ranks, 1, 1});
  for (const bool tied : {false, true}) {
    const Found right = expected(4, tied);
    for (const auto& entry : schedules(ranks, 4)) {
      INFO(entry.first);
      check(in_pipeline<LlamaTensorParallel<>>(job, entry.second, tied, false, 0.5, within_layers), right);
      check(in_pipeline<LlamaTensorParallel<>>(job, entry.second, tied, true, 0.5, within_layers), right);
    }
    using Sharded = PlanWith<LlamaSequenceParallel<>, FullyShard<dp>>;
    check(in_pipeline<Sharded>(job, zb_h1(ranks, 4), tied, true, 0.5, within_layers), right);
  }
  const Stage mesh(self(), {1, 1});
  CHECK_THROWS_WITH(Llama<Stage>(mesh, config_of(false), {0, 1, true, true, true, true}),
                    "Llama: 1 layers cannot begin with an MLP or end with an attention as asked");
  CHECK_THROWS_WITH(LlamaPart::of(config_of(false), {0, 1}, 2), "LlamaPart: there is no stage 2 of 2");
  CHECK_THROWS_WITH(LlamaPart::of(config_of(false), {0, 5}, 0),
                    "LlamaPart: a stage is on rank 5; expected 0 to 1, one for each of the stages");
  LlamaConfig headless = config_of(false);
  headless.heads = 0;
  CHECK_THROWS_AS(LlamaPart::costs(headless, {0, 1}), std::invalid_argument);
}

// ---- Loss curves --------------------------------------------------------------------------------------------------

constexpr int steps = 20, curve_micro_batches = 4;

/// The losses of 20 steps; pass(step) makes a step's gradients and returns its loss.
template <class Module>
std::vector<double> curve(Module& model, auto pass) {
  initialize(model, 3);
  AdamW adamw({.rate = 1e-2});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    losses.push_back(pass(step));
    adamw.step(model);
  }
  return losses;
}
std::vector<double> curve_alone(bool tied) {
  const Stage mesh(self(), {1, 1});
  Llama<Stage, LlamaTensorParallel<>, double> model(mesh, config_of(tied));
  return curve(model, [&](int step) {
    double sum = 0;
    for (int i = step; i < step + curve_micro_batches; ++i) {
      Tape tape;
      auto logits = model(tape.constant(ids_on(mesh, i)), documents_on(mesh, i));
      const auto loss =
          scale(CrossEntropyLoss()(std::move(logits), ids_on(mesh, i + 1)), 1. / curve_micro_batches);
      sum += item(loss.value());
      tape.backward(loss);
    }
    clip_gradients(model, 1);
    return sum;
  });
}
std::vector<double> curve_in_pipeline(const Job& job, const PipelineSchedule& schedule, bool tied) {
  using Part = Llama<Stage, LlamaTensorParallel<>, double>;
  const Pipeline pipeline(job, schedule);
  const LlamaConfig config = config_of(tied);
  auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
    return Part(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
  });
  return curve(stages, [&](int step) {
    const double loss = pipeline.run(
        stages, {batch, length, config.features},
        [&](Tape& tape, Part& part, int i) {
          return part.begin(tape.constant(ids_on(pipeline.mesh(), step + i)));
        },
        [&](Part& part, const auto& x, int i) {
          return part.middle(x, documents_on(pipeline.mesh(), step + i));
        },
        [&](Part& part, const auto& x, int i) {
          return scale(part.end(x, ids_on(pipeline.mesh(), step + i + 1), LinearCrossEntropyLoss()),
                       1. / curve_micro_batches);
        });
    pipeline.clip_gradients(stages, 1);
    return loss;
  });
}

TEST_CASE("20 steps by every schedule have the losses of one rank") {
  const int ranks = world().size();
  const Job job(world(), {ranks, 1, 1});
  for (const bool tied : {false, true}) {
    const std::vector<double> right = curve_alone(tied);
    CHECK(right.back() < 0.7 * right.front());  // it learns
    for (const auto& entry : schedules(ranks, curve_micro_batches)) {
      const std::vector<double> found = curve_in_pipeline(job, entry.second, tied);
      double worst = 0;
      for (std::size_t step = 0; step < steps; ++step) {
        worst = std::max(worst, std::abs(found[step] - right[step]));
      }
      INFO(ranks, " ranks, tied ", tied, ", ", entry.first);
      CHECK(worst < 1e-12);
    }
  }
}

TEST_CASE("with data, tensor and sequence parallelism, and ZeRO") {
  const int ranks = world().size();
  if (ranks % 2 != 0) return;
  const int micro_batches = 4;
  const bool tied = true;
  const Found right = expected(micro_batches, tied);
  for (const std::array<int, 3>& sizes : {std::array{2, ranks / 2, 1}, std::array{2, 1, ranks / 2},
                                          std::array{1, ranks / 2, 2}, std::array{2, ranks / 4, 2}}) {
    if (sizes[0] * sizes[1] * sizes[2] != ranks || sizes[2] > 2) continue;  // there are 2 key/value heads
    const Job job(world(), sizes);
    for (const auto& entry : schedules(sizes[0], micro_batches)) {
      const PipelineSchedule& schedule = entry.second;
      INFO("pp ", sizes[0], " dp ", sizes[1], " tp ", sizes[2], ", ", entry.first);
      using Plan = LlamaSequenceParallel<>;
      check(in_pipeline<PlanWith<Plan, Zero<1, dp>>>(job, schedule, tied), right);
      if (entry.first != "zb-h1" && entry.first != "interleaved") continue;
      check(in_pipeline<LlamaTensorParallel<>>(job, schedule, tied, true), right);
      check(in_pipeline<PlanWith<Plan, Zero<2, dp>>>(job, schedule, tied, true), right);
      check(in_pipeline<PlanWith<Plan, FullyShard<dp>>>(job, schedule, tied), right);
    }
  }
}

TEST_CASE("the same bits when each send waits for its receive, and when messages are late") {
  const int ranks = world().size();
  const Job job(world(), {ranks, 1, 1});
  for (const auto& entry : schedules(ranks, 6)) {
    INFO(ranks, " ranks, ", entry.first);
    const auto run = [&] { return in_pipeline<LlamaTensorParallel<>>(job, entry.second, true).gradients; };
    const Outcome usual = run();
    mpi_counter::synchronous_sends = true;
    CHECK(run() == usual);
    mpi_counter::synchronous_sends = false;
    mpi_counter::late_sends = 7919u + static_cast<unsigned>(world().rank());
    CHECK(run() == usual);
    mpi_counter::late_sends = 0;
  }
}

// ---- Without a tape -----------------------------------------------------------------------------------------------

using Ids = Tensor<std::int32_t, 2, Stage, Replicate, Replicate>;

/// Some layers, and their cache.
struct TextPart {
  using Model = Llama<Stage, LlamaTensorParallel<>, double>;
  Model model;
  decltype(model.make_cache(Ids(), 0)) cache;

  TextPart(const Stage& mesh, const LlamaConfig& config, const LlamaPart& part)
      : model(mesh, config, part), cache(model.make_cache(Ids(mesh, {1, 1}), 13)) {}
  void visit(auto&& f) { model.visit(f); }
};

Ids ids_of(const Stage& mesh, const std::vector<std::int32_t>& tokens) {
  return distribute<Replicate, Replicate>(mesh, Shape<2>{1, std::ssize(tokens)},
                                          std::span<const std::int32_t>(tokens));
}
template <class Logits>
std::int32_t likeliest(const Logits& logits) {
  const auto row = redistribute<Replicate, Replicate>(logits);
  return static_cast<std::int32_t>(std::max_element(row.data(), row.data() + 23) - row.data());
}
/// Ten tokens after three; next(tokens) gives the one that follows these.
std::vector<std::int32_t> text(auto next) {
  std::vector<std::int32_t> all{3, 1, 4}, tokens = all;
  for (int i = 0; i < 10; ++i) {
    tokens = {next(tokens)};
    all.push_back(tokens.front());
  }
  return all;
}

TEST_CASE("a forward pass alone: the loss of one rank, and its text") {
  const int ranks = world().size();
  LlamaConfig config = config_of(true);
  config.deviation = 0.5;  // no two tokens are equally likely
  const Stage alone(self(), {1, 1});
  TextPart whole(alone, config, {.layers = config.layers});
  initialize(whole, 3);
  const auto right = text(
      [&](const auto& tokens) { return likeliest(whole.model.next(ids_of(alone, tokens), whole.cache)); });
  const double loss = item(whole.model(ids_on(alone, 0), ids_on(alone, 1), LinearCrossEntropyLoss()));
  CHECK(std::set(right.begin(), right.end()).size() > 4);

  for (const std::array<int, 3>& sizes : {std::array{ranks, 1, 1}, std::array{ranks / 2, 1, 2}}) {
    if (sizes[0] * sizes[2] != ranks) continue;
    const Job job(world(), sizes);
    for (const PipelineSchedule& division : {gpipe(sizes[0], 1), zb_v(sizes[0], 1)}) {
      INFO("pp ", sizes[0], " tp ", sizes[2], ", ", division.stages(), " stages");
      const Pipeline pipeline(job, division);
      auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
        return TextPart(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
      });
      initialize(stages, 3);
      const double found = pipeline.forward(
          stages, {batch, length, config.features},
          [&](TextPart& part) { return part.model.begin(ids_on(pipeline.mesh(), 0)); },
          [](TextPart& part, const auto& x) { return part.model.middle(x); },
          [&](TextPart& part, const auto& x) {
            return item(part.model.end(x, ids_on(pipeline.mesh(), 1), LinearCrossEntropyLoss()));
          });
      CHECK(std::abs(found - loss) < 1e-13);
      CHECK(right == text([&](const std::vector<std::int32_t>& tokens) {
              return static_cast<std::int32_t>(pipeline.forward(
                  stages, {1, std::ssize(tokens), config.features},
                  [&](TextPart& part) { return part.model.begin(ids_of(pipeline.mesh(), tokens)); },
                  [](TextPart& part, const auto& x) { return part.model.middle(x, part.cache); },
                  [](TextPart& part, const auto& x) { return likeliest(part.model.end_of_last(x)); }));
            }));
    }
  }
}

/// A step on a dry job or a real one.
template <class JobType, class StageType>
void step(const JobType& job, const PipelineSchedule& schedule) {
  using Part = Llama<StageType, PlanWith<LlamaSequenceParallel<>, Zero<1, dp>>, double>;
  const LlamaConfig config = config_of(true);
  const Pipeline pipeline(job, schedule);
  auto stages = pipeline.stages([&](int stage, const StageType& mesh) {
    return Part(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
  });
  initialize(stages, 3);
  AdamW adamw;
  Tensor<std::int32_t, 2, StageType, Shard<0>, Replicate> ids(pipeline.mesh(), {batch, length});
  if (!pipeline.mesh().dry()) ids = ids_on(pipeline.mesh(), 0);
  pipeline.run(
      stages, {batch, length, config.features},
      [&](Tape& tape, Part& part, int) { return part.begin(tape.constant(ids)); },
      [](Part& part, const auto& x) { return part.middle(x); },
      [&](Part& part, const auto& x, int) { return part.end(x, ids, LinearCrossEntropyLoss()); });
  pipeline.clip_gradients(stages, 1);
  adamw.step(stages);
}

TEST_CASE("a rank records what was planned for it: messages by axis, memory, flops") {
  const int ranks = world().size();
  for (const std::array<int, 3>& sizes : {std::array{ranks, 1, 1}, std::array{2, ranks / 2, 1}}) {
    if (sizes[0] * sizes[1] != ranks) continue;
    const Job job(world(), sizes);
    for (const auto& entry : schedules(sizes[0], 4)) {
      INFO("pp ", sizes[0], " dp ", sizes[1], ", ", entry.first);
      using Grid = Mesh<pp, dp, tp>;
      const auto planned =
          trace<Grid>(sizes, [&](const Grid& dry) { step<Grid, Mesh<dp, tp>>(dry, entry.second); },
                      {job.rank<pp>(), job.rank<dp>(), job.rank<tp>()});
      Recording recording(job);
      step<Job, Stage>(job, entry.second);
      const auto recorded = recording.plan();
      INFO(plan_table("planned", planned, "recorded", recorded));
      CHECK(planned == recorded);
      if (sizes[0] > 1) CHECK(planned.count(Collective::send) > 0);
    }
  }
}

/// A part says that it has the table, also if it is the whole model.
struct TiedPart : Llama<Stage, LlamaTensorParallel<>, double>, Module<TiedPart> {
  using Llama::Llama;
  using Module<TiedPart>::operator();
  constexpr auto* copied() { return tokens ? &tokens->table : nullptr; }
};

TEST_CASE("a step of several runs: a tied table's gradient is the sum over all of them, once") {
  const int ranks = world().size();
  for (const bool v_shaped : {false, true}) {
    const Job job(world(), {ranks, 1, 1});
    const Pipeline pipeline(job, v_shaped ? zb_v(ranks, 2) : one_forward_one_backward(ranks, 2));
    using Part = TiedPart;
    const LlamaConfig config = config_of(true);
    auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
      return Part(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
    });
    initialize(stages, 3);
    for (int run = 0; run < 2; ++run) {
      pipeline.run(
          stages, Shape<3>{batch, length, config.features},
          [&](Tape& tape, Part& part, int i) {
            return part.begin(tape.constant(ids_on(pipeline.mesh(), 2 * run + i)));
          },
          [&](Part& part, const auto& x, int i) {
            return part.middle(x, documents_on(pipeline.mesh(), 2 * run + i));
          },
          [&](Part& part, const auto& x, int i) {
            return scale(part.end(x, ids_on(pipeline.mesh(), 2 * run + i + 1), LinearCrossEntropyLoss()),
                         0.25);
          });
    }
    const Found right = expected(4, true, 1e9);
    for (const auto& [name, numbers] : gradients_of(stages)) {
      CHECK(error(numbers, right.gradients.at(name)) < 1e-13);
    }
  }
}

struct NamedPart : Module<NamedPart> {
  const char* name;
  Linear<Stage, NoParallel, double, 1, 1, false> linear;
  bool shared;

  NamedPart(const Stage& mesh, const char* called, bool is_shared)
      : name(called), linear(mesh, 2, 2), shared(is_shared) {}
  auto forward(const auto& x) const { return linear(x); }
  void visit(auto&& f) { f(name, linear.weight); }
  auto* copied() { return shared ? &linear.weight : nullptr; }
};

/// What a training run of parts with these names says, after a forward pass, and says again; "" if nothing.
std::string refusal(const Pipeline<Job>& pipeline, const std::function<const char*(int)>& name,
                    const std::function<bool(int)>& shared) {
  auto stages = pipeline.stages(
      [&](int stage, const Stage& mesh) { return NamedPart(mesh, name(stage), shared(stage)); });
  initialize(stages, 3);
  const auto x = full<double, Shard<0>, Replicate>(pipeline.mesh(), {3, 2}, 0.5);
  const auto middle = [](NamedPart& part, const auto& y) { return part(y); };
  const auto finished = [](const auto& y) { return redistribute<Replicate, Replicate>(mean(y)); };
  pipeline.forward(
      stages, {3, 2}, [&](NamedPart&) { return x; }, middle,
      [&](NamedPart&, const auto& y) { return item(finished(y)); });
  const auto run = [&]() -> std::string {
    try {
      pipeline.run(
          stages, {3, 2}, [&](Tape& tape, NamedPart&, int) { return tape.constant(x); }, middle,
          [&](NamedPart&, const auto& y, int) { return finished(y); });
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const std::string first = run();
  CHECK(run() == first);
  if (first.empty() && pipeline.stage_count() > 1)
    CHECK_THROWS_AS(stages.add(0, std::move(stages.front())), std::logic_error);
  return first;
}

TEST_CASE("the names of parts that are trained are those of one model") {
  const int ranks = world().size();
  const Job job(world(), {ranks, 1, 1});
  for (const PipelineSchedule& schedule : {zb_v(ranks, 2), one_forward_one_backward(ranks, 2)}) {
    const Pipeline pipeline(job, schedule);
    const int last = pipeline.stage_count() - 1;
    if (last == 0) continue;
    const char* const names[]{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
    const auto own_name = [&](int stage) { return names[stage]; };
    const auto ends_alike = [&](int stage) { return names[stage == last ? 0 : stage]; };
    const auto nobody = [](int) { return false; };
    const auto the_ends = [&](int stage) { return stage == 0 || stage == last; };
    const std::string at_last = std::to_string(last);
    const auto has = [](const std::string& text, const std::string& part) {
      INFO(text);
      CHECK(text.find(part) != std::string::npos);
    };

    CHECK(refusal(pipeline, own_name, nobody).empty());
    CHECK(refusal(pipeline, ends_alike, the_ends).empty());
    has(refusal(pipeline, ends_alike, nobody),
        "Pipeline: stages 0 and " + at_last +
            " both train \"a\"; a part's names are those in the whole model");
    has(refusal(
            pipeline, [](int) { return "all"; }, nobody),
        "both train \"all\"");
    has(refusal(pipeline, own_name, [](int stage) { return stage == 0; }),
        "Pipeline: copied() of stage 0 gives \"a\", that of the other end nothing");
    has(refusal(pipeline, own_name, [&](int stage) { return stage == last; }),
        "Pipeline: copied() of stage " + at_last + " gives \"" + names[last] +
            "\", that of the other end nothing");
    has(refusal(pipeline, ends_alike, [](int stage) { return stage == 0; }), "both train \"a\"");
    has(refusal(pipeline, own_name, the_ends),
        "Pipeline: copied() of stage 0 gives \"a\", that of stage " + at_last + " \"" + names[last] + "\"");
  }
}

TEST_CASE("a micro-batch of another shape than run was told") {
  if (world().size() > 1) return;  // the others would wait
  const Pipeline pipeline(Job(world(), {1, 1, 1}), gpipe(1, 2));
  std::optional<Stage> mesh;
  auto stages = pipeline.stages([&](int, const Stage& on) { return LayerNorm<Stage>(mesh.emplace(on), 2); });
  initialize(stages, 1);
  const auto x = full<float, Shard<0>, Replicate>(*mesh, {3, 2}, 1.0F);
  const auto middle = [](LayerNorm<Stage>& part, const auto& in, int) { return part(in); };
  const auto end = [](LayerNorm<Stage>&, const auto& y, int) {
    return redistribute<Replicate, Replicate>(mean(y));
  };
  const auto run = [&](const Shape<2>& shape) {
    pipeline.run(
        stages, shape, [&](Tape& tape, LayerNorm<Stage>&, int) { return tape.constant(x); }, middle, end);
  };
  run({3, 2});
  CHECK_THROWS_WITH_AS(
      run({0, 2}), "a pipeline: begin gives a micro-batch of the shape [3 x 2], but run was given [0 x 2]",
      std::invalid_argument);
  Tape another;
  CHECK_THROWS_WITH_AS(
      pipeline.run(
          stages, {3, 2}, [&](Tape&, LayerNorm<Stage>&, int) { return another.constant(x); }, middle, end),
      "a pipeline: begin puts its result on another tape", std::invalid_argument);
}

TEST_CASE("one parameter in two stages of a rank") {
  const int ranks = world().size();
  const Job job(world(), {ranks, 1, 1});
  const Pipeline pipeline(job, zb_v(ranks, 2));  // its ends are on one rank
  const auto x = full<double, Shard<0>, Replicate>(pipeline.mesh(), {3, 2}, 0.5);
  const auto gradients = [&](bool one, bool says_so) {
    const NamedPart ends(pipeline.mesh(), "a", says_so);
    const char* const names[]{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
    auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
      const bool end = stage == 0 || stage + 1 == pipeline.stage_count();
      NamedPart part(mesh, end ? "a" : names[stage], one ? says_so : end);
      if (end && one) part.linear.weight = ends.linear.weight.tied();
      return part;
    });
    initialize(stages, 3);
    pipeline.run(
        stages, {3, 2}, [&](Tape& tape, NamedPart&, int) { return tape.constant(x); },
        [](NamedPart& part, const auto& y) { return part(y); },
        [](NamedPart&, const auto& y, int) { return redistribute<Replicate, Replicate>(mean(y)); });
    return gradients_of(stages);
  };
  const auto copies = gradients(false, true);
  for (const bool says_so : {false, true}) {
    for (const auto& [name, numbers] : gradients(true, says_so))
      CHECK(error(numbers, copies.at(name)) < 1e-13);
  }
}

TEST_CASE("ranks with different schedules") {
  const int ranks = world().size();
  if (ranks == 1) return;
  const Job job(world(), {ranks, 1, 1});
  const bool odd = world().rank() == 1;
  CHECK_THROWS_WITH_AS(Pipeline(job, one_forward_one_backward(ranks, odd ? 8 : 4)),
                       "Pipeline: schedules differ: rank 1: micro-batches 8, rank 0: micro-batches 4",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Pipeline(job, odd ? gpipe(ranks, 4) : zb_h1(ranks, 4)),
                       doctest::Contains("rank 1: action "), std::invalid_argument);
  PipelineSchedule wrong = gpipe(ranks, 2);
  if (odd) wrong.actions.back().pop_back();  // one rank alone would refuse it
  CHECK_THROWS_WITH_AS(Pipeline(job, wrong), doctest::Contains("Pipeline: schedules differ: rank 1: "),
                       std::invalid_argument);
}

TEST_CASE("a schedule for others, or for nobody") {
  const int ranks = world().size();
  const Job job(world(), {ranks, 1, 1});
  CHECK_THROWS_WITH_AS(Pipeline(job, gpipe(ranks + 1, 2)),
                       ("Pipeline: the schedule is for " + std::to_string(ranks + 1) +
                        " ranks, but axis pp has " + std::to_string(ranks))
                           .c_str(),
                       std::invalid_argument);
  PipelineSchedule wrong = gpipe(ranks, 2);
  wrong.actions.back().pop_back();
  CHECK_THROWS_AS(Pipeline(job, wrong), std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing
