// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Logs of real runs: the plan's, with times; and their traces.

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include <shardwise/inspect/trace_file.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

namespace {

using Json = nlohmann::json;
using sw::Shard, sw::dp, sw::tp;

/// A step of a Llama of two layers, fully sharded.
template <class MeshType>
void step(const MeshType& mesh) {
  using Plan = sw::PlanWith<sw::llm::LlamaTensorParallel<>, sw::Zero<3, dp>>;
  sw::llm::Llama<MeshType, Plan> model(
      mesh,
      {.vocabulary = 64, .features = 32, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 48, .context = 8});
  if (!mesh.dry()) sw::initialize(model, 1);
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

TEST_CASE("names are escaped, and an empty log is refused") {
  const Json trace = Json::parse(sw::trace_file({}, {{"a"}}, "a \"b\" \\ c"));
  CHECK(trace.at("traceEvents").at(0).at("args").at("name") == "a \"b\" \\ c");
  CHECK_THROWS_AS(sw::trace_of_all_ranks(sw::world(), {}, names), std::invalid_argument);
}
