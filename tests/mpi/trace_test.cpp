// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Logs of real runs: the plan's, with times; their traces; and their communication by module.

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include <shardwise/inspect/module_table.hpp>
#include <shardwise/inspect/trace_file.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/module/name_modules.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

namespace {

using Json = nlohmann::json;
using sw::Shard, sw::dp, sw::tp;

/// A step of a Llama of two layers, fully sharded. The log, if it is not null, gets the names of its modules.
template <class MeshType>
void step(const MeshType& mesh, sw::EventLog* log = nullptr, bool recompute = false) {
  using Plan = sw::PlanWith<sw::llm::LlamaTensorParallel<>, sw::Zero<3, dp>>;
  sw::llm::Llama<MeshType, Plan> model(
      mesh,
      {.vocabulary = 64, .features = 32, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 48, .context = 8});
  if (!mesh.dry()) sw::initialize(model, 1);
  if (log) sw::name_modules(*log, model);
  model.recompute_layers = recompute;
  auto ids = [&] {
    sw::Tensor<std::int32_t, 2, MeshType, Shard<0>, sw::Replicate> tokens(mesh, {4, 8});
    if (!mesh.dry()) std::fill_n(tokens.writable().data, tokens.local().size(), 3);
    return tokens;
  }();
  sw::Tape tape;
  sw::AdamW adamw;
  auto loss = model(tape.constant(ids), ids, sw::LinearCrossEntropyLoss());
  sw::backward_and_reduce(loss, model);
  adamw.step(model);
}

const sw::StepNames names{{"dp", "tp"}, {"tokens", "layers.0", "layers.1", "head"}};

}  // namespace

TEST_CASE("the log of a run is that of its plan, in the same order, and has times") {
  const sw::Mesh<dp, tp> mesh(sw::world(), {sw::any, sw::world().size() % 2 == 0 ? 2 : 1});
  sw::EventLog real(sw::clock_seconds), dry;
  {
    sw::Recording recording(mesh, &real);
    step(mesh);
  }
  CHECK(mesh.recorder() == nullptr);
  sw::trace<sw::Mesh<dp, tp>>(
      {mesh.size<dp>(), mesh.size<tp>()}, [](auto m) { step(m); }, {mesh.rank<dp>(), mesh.rank<tp>()}, 0,
      &dry);
  REQUIRE(real.events().size() == dry.events().size());
  double now = real.events().front().begin;
  for (std::size_t i = 0; i < real.events().size(); ++i) {
    const sw::Event &a = real.events()[i], &b = dry.events()[i];
    CAPTURE(i);
    CHECK(a.phase == b.phase);
    CHECK(a.kind == b.kind);
    CHECK(a.axes == b.axes);
    CHECK(a.amount == b.amount);
    CHECK(a.unit == b.unit);
    CHECK(a.background == b.background);
    CHECK(a.waits == b.waits);
    CHECK(a.number - real.events().front().number == b.number - dry.events().front().number);
    CHECK(a.memory == b.memory);
    CHECK(a.begin >= now);
    CHECK(a.end >= a.begin);
    if (a.background) CHECK(a.complete);
    now = a.background ? a.begin : a.end;
  }
  CHECK(now > real.events().front().begin);
  CHECK(dry.events().back().end == 0);
  // A recording after it has no log.
  const std::size_t before = real.events().size();
  sw::Recording recording(mesh);
  step(mesh);
  CHECK(real.events().size() == before);
}

TEST_CASE("a trace of all ranks: its processes, and that events on a thread nest") {
  const int ranks = sw::world().size();
  const sw::Mesh<dp, tp> mesh(sw::world(), {sw::any, 1});
  sw::EventLog log(sw::clock_seconds);
  std::int64_t peak = 0;
  {
    sw::Recording recording(mesh, &log);
    step(mesh);
    recording.restart();
    step(mesh);
    peak = recording.plan().peak_bytes();
  }
  const sw::Speeds speeds = sw::fitted(log.events());
  const std::string text =
      sw::trace_of_all_ranks(sw::world(), log.events(), names, sw::with_times(log.events(), speeds));
  const Json trace = Json::parse(text);
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, double> ends;  // by process and thread
  std::map<std::string, double> begun;         // in the background
  std::map<int, std::int64_t> flops, bytes, peaks;
  double first = 1e300;
  for (const Json& entry : trace.at("traceEvents")) {
    const std::string kind = entry.at("ph");
    const int process = entry.at("pid");
    if (kind == "M") {
      if (entry.at("name") == "process_name") {
        processes[process] = entry.at("args").at("name");
        CHECK(entry.at("args").at("rank") == process % ranks);
        CHECK(entry.at("args").at("planned") == (process >= ranks));
      }
      continue;
    }
    const double at = entry.at("ts");
    first = std::min(first, at);
    CHECK(at >= -0.001);
    if (kind == "b") begun[entry.at("id")] = at;
    if (kind == "e") {
      REQUIRE(begun.contains(entry.at("id")));
      CHECK(at >= begun.at(entry.at("id")));
    }
    if (kind == "X") {
      double& end = ends[{process, entry.at("tid").get<int>()}];
      CHECK(at >= end);  // one after another, exactly
      end = at + entry.at("dur").get<double>();
    }
    if (kind == "C") {
      CHECK(entry.at("args").size() == sw::memory_uses);
      std::int64_t sum = 0;
      for (const Json& use : entry.at("args")) sum += use.get<std::int64_t>();
      peaks[process] = std::max(peaks[process], sum);
      CHECK(at >= ends[{process, -1}]);
      ends[{process, -1}] = at;
    }
    if ((kind == "X" || kind == "i" || kind == "b") && entry.contains("args")) {
      flops[process] += entry.at("args").value("flops", std::int64_t{0});
      bytes[process] += entry.at("args").value("bytes", std::int64_t{0});
    }
  }
  CHECK(first == doctest::Approx(0));
  CHECK(static_cast<int>(processes.size()) == 2 * ranks);
  std::int64_t own_flops = 0, own_bytes = 0;
  for (const sw::Event& event : log.events()) (event.computes() ? own_flops : own_bytes) += event.amount;
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(processes.at(rank) == "rank " + std::to_string(rank));
    CHECK(processes.at(ranks + rank) == "plan, rank " + std::to_string(rank));
    CHECK(flops.at(rank) == flops.at(ranks + rank));
    CHECK(bytes.at(rank) == bytes.at(ranks + rank));
  }
  CHECK(flops.at(sw::world().rank()) == own_flops);
  CHECK(bytes.at(sw::world().rank()) == own_bytes);
  CHECK(peaks.at(sw::world().rank()) == peak);
  CHECK(peaks.at(ranks + sw::world().rank()) == peak);
  CHECK(begun.empty() == (ranks == 1));
}

TEST_CASE("the communication of a run by module is that of its plan, and adds up to the whole") {
  const int ranks = sw::world().size(), tensor = ranks % 2 == 0 ? 2 : 1;
  const sw::Mesh<dp, tp> mesh(sw::world(), {sw::any, tensor});
  for (const bool recompute : {false, true}) {
    CAPTURE(recompute);
    sw::EventLog real, dry;
    const auto recorded = [&] {
      sw::Recording recording(mesh, &real);
      step(mesh, &real, recompute);
      return recording.plan();
    }();
    sw::trace<sw::Mesh<dp, tp>>(
        {mesh.size<dp>(), mesh.size<tp>()}, [&](auto m) { step(m, &dry, recompute); },
        {mesh.rank<dp>(), mesh.rank<tp>()}, 0, &dry);
    CHECK(sw::module_table(real, real.events()) == sw::module_table(dry, dry.events()));
    REQUIRE(real.events().size() == dry.events().size());
    for (std::size_t i = 0; i < real.events().size(); ++i)
      CHECK(real.events()[i].module == dry.events()[i].module);

    // The first member of a module has another address than the module.
    CHECK(std::ranges::any_of(real.events(), [&](const sw::Event& event) {
      return event.module >= 0 && real.module_name(event.module) == "layers.0.mlp.gate";
    }));
    std::vector<sw::ModuleTraffic> rows = sw::by_module(real, real.events(), {.each_layer = true});
    const sw::ModuleTraffic all = rows.back();
    rows.pop_back();
    std::map<std::string, std::int64_t> over_tp[2];  // without the gathered parameters
    for (const sw::Event& event : real.events()) {
      if (event.computes() || event.waits || event.axes != 2 || event.phase == sw::Phase::optimizer) continue;
      const auto name_of = [&](int module) {
        return module < 0 ? "none" : std::string(real.module_name(module));
      };
      real.for_each_part(event, [&](const sw::ModulePart& part) {
        over_tp[static_cast<int>(event.phase)][name_of(part.module)] += part.amount;
      });
    }
    for (const auto phase : {sw::Phase::forward, sw::Phase::backward, sw::Phase::optimizer}) {
      const auto p = static_cast<std::size_t>(phase);
      std::int64_t sum = 0;
      for (const sw::ModuleTraffic& row : rows) sum += row.traffic[p].bytes;
      CHECK(sum == recorded.bytes(phase));
      CHECK(all.traffic[p] == sw::Traffic{recorded.collectives(phase), recorded.bytes(phase)});
      CHECK(sw::traffic_of(real, "", phase).bytes <= recorded.bytes(phase));
    }
    if (tensor == 2) {
      const std::int64_t rows_here = mesh.size<dp>() == 1 ? 4 : 2, whole = rows_here * 8 * 32 * 4;
      for (const std::string layer : {"layers.0.", "layers.1."}) {
        CHECK(over_tp[0].at(layer + "attention.wo") == whole);
        CHECK(over_tp[0].at(layer + "mlp.down") == whole);
        CHECK(over_tp[1].at(layer + "attention") == whole);  // of wq, wk and wv, which share their input
        CHECK(over_tp[1].at(layer + "mlp") == whole);
        CHECK(over_tp[1].contains(layer + "mlp.down") == recompute);
      }
      CHECK(over_tp[0].at("tokens") == whole);
    }
    if (mesh.size<dp>() > 1) {  // the whole weight of a rank of tp, gathered in a unit
      CHECK(sw::traffic_of(real, "layers.1.mlp.up", sw::Phase::forward) ==
            sw::Traffic{1, 48 / tensor * 32 * 4});
      CHECK(sw::traffic_of(real, "layers.1.mlp_norm").bytes > 0);
    }
  }
  sw::EventLog log;
  CHECK_THROWS_WITH_AS(sw::traffic_of(log, "layers.0"), "traffic_of: the log has no names of modules",
                       std::invalid_argument);
  log.add_module({'m', 'l', 'p', '.', 'u', 'p'}, nullptr);
  CHECK_THROWS_WITH_AS(
      sw::traffic_of(log, "mlp.op"),
      "traffic_of: the log has no module with the name \"mlp.op\"; the nearest is \"mlp.up\"",
      std::invalid_argument);
}

TEST_CASE("a backward pass that throws leaves the module of its caller") {
  sw::Recorder recorder;
  sw::EventLog log;
  recorder.set_log(&log);
  const sw::Mesh<dp> mesh(recorder, {2});
  sw::Tape tape;
  const auto loss =
      sw::redistribute<sw::Replicate>(sw::sum_of_squares(tape.input(sw::empty<float, Shard<0>>(mesh, {4}))));
  {
    const sw::ModuleScope scope(&recorder, 3);
    const auto fails = [](sw::BackwardPart) -> bool { throw std::runtime_error("no gradient"); };
    tape.record<sw::PullbackNode<decltype(fails)>>(fails);
  }
  CHECK_THROWS_AS(tape.backward(loss), std::runtime_error);
  CHECK(recorder.module() == -1);
}

TEST_CASE("names are escaped, and an empty log is refused") {
  const Json trace = Json::parse(sw::trace_file({}, {{"a"}}, "a \"b\" \\ c"));
  CHECK(trace.at("traceEvents").at(0).at("args").at("name") == "a \"b\" \\ c");
  CHECK_THROWS_AS(sw::trace_of_all_ranks(sw::world(), {}, names), std::invalid_argument);
}
