// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Logs of plans, and the times of a model.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/inspect/print.hpp>
#include <shardwise/inspect/trace_file.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/module/name_modules.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>

#include <shardwise/llm/models/llama/config_file.hpp>
#include <shardwise/schedule/named.hpp>
#include <support/comma_locale.hpp>
#include <support/pages.hpp>

namespace shardwise {
namespace {

using JobMesh = Mesh<dp, tp>;
using Plan = PlanWith<llm::LlamaSequenceParallel<>, Zero<3, dp>>;

const StepNames names{{"dp", "tp"}, {"tokens", "layers.0", "layers.1", "layers.2", "head"}};

/// The second step of a Llama of three layers, fully sharded over dp and sequence parallel over tp, with a host for
/// each tp. `blocks`: receives the blocks of the parameters, and the log gets the names of modules.
CommunicationPlan<dp, tp> step(EventLog* log, int micro_batches = 1, bool recompute = false,
                               std::string* blocks = nullptr) {
  Recorder recorder;
  const JobMesh mesh(recorder, {4, 2}, {1, 1}, 2);
  llm::Llama<JobMesh, Plan> model(mesh, {.vocabulary = 3000,
                                         .features = 512,
                                         .layers = 3,
                                         .heads = 8,
                                         .kv_heads = 4,
                                         .hidden = 1408,
                                         .context = 512});
  model.recompute_layers = recompute;
  if (blocks) {
    name_modules(*log, model);
    *blocks = block_tables(model);
  }
  AdamW adamw;
  for (int i = 0; i < 2; ++i) {
    if (i == 1) recorder.restart(), recorder.set_log(log);
    for (int micro = 0; micro < micro_batches; ++micro) {
      const Tensor<std::int32_t, 2, JobMesh, Shard<0>, Replicate> ids(mesh, {8, 512});
      Tape tape;
      auto loss = model(tape.constant(ids), ids, LinearCrossEntropyLoss());
      backward_and_reduce(loss, model, {.last = micro + 1 == micro_batches});
    }
    clip_gradients(model, 1);
    adamw.step(model);
  }
  return {recorder.record(), mesh.sizes()};
}

TEST_CASE("a log has all that a plan counts") {
  for (const bool recompute : {false, true}) {
    EventLog log;
    const auto plan = step(&log, 2, recompute);
    Record sum;
    std::int64_t peak = 0;
    Array<std::int64_t, memory_uses> most{};
    for (const Event& event : log.events()) {
      const auto phase = static_cast<int>(event.phase);
      if (event.computes()) {
        sum.flops[phase] += event.amount;
      } else if (!event.waits) {
        Traffic& cell = sum.traffic[phase][static_cast<int>(event.kind)][event.axes];
        cell.calls += 1;
        cell.bytes += event.amount;
      }
      peak = std::max(peak, event.all_memory());
      for (int use = 0; use < memory_uses; ++use) most[use] = std::max(most[use], event.memory[use]);
    }
    CHECK(sum.traffic == plan.record().traffic);
    CHECK(sum.flops == plan.record().flops);
    CHECK(peak == plan.peak_bytes());
    CHECK(most[static_cast<int>(MemoryUse::parameter)] == plan.parameter_bytes());
    CHECK(plan == step(nullptr, 2, recompute));  // the log changes nothing
  }
}

TEST_CASE(
    "numbers follow one another; what is in the background is waited for; units are those of the model") {
  EventLog log;
  step(&log);
  const std::vector<Event>& events = log.events();
  std::set<std::int64_t> awaited;
  std::set<int> units[phases];
  int background = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].number == events.front().number + static_cast<std::int64_t>(i));
    background += events[i].background ? 1 : 0;
    if (events[i].unit >= 0) units[static_cast<int>(events[i].phase)].insert(events[i].unit);
    if (!events[i].waits) continue;
    CHECK(awaited.insert(events[i].awaited).second);
    REQUIRE(events[i].awaited >= events.front().number);
    const Event& sent = events[static_cast<std::size_t>(events[i].awaited - events.front().number)];
    CHECK(sent.background);
    CHECK(sent.axes == events[i].axes);
    CHECK(sent.kind == events[i].kind);
    CHECK(events[i].number > sent.number);
  }
  CHECK(background == static_cast<int>(awaited.size()));
  CHECK(background > 10);
  CHECK(units[0] == std::set{0, 1, 2, 3, 4});
  CHECK(units[1] == std::set{0, 1, 2, 3, 4});
  CHECK(units[2].empty());
  // Each unit is gathered over dp for its own use, also if that is begun ahead.
  int gathers[5]{};
  for (const Event& event : events) {
    if (event.kind == Collective::all_gather && event.axes == 1 && !event.waits &&
        event.phase == Phase::forward)
      ++gathers[event.unit];
  }
  for (const int each : gathers) CHECK(each == 1);
  // In the backward pass from the last to the first, then the optimizer.
  std::vector<int> order;
  for (const UnitSpan& span : unit_spans(events)) {
    if (span.phase == Phase::backward && (order.empty() || order.back() != span.unit))
      order.push_back(span.unit);
  }
  CHECK(order == std::vector{4, 3, 2, 1, 0});
}

TEST_CASE("times of a model") {
  Recorder recorder;
  Array<HostsAlong, 1 << max_axes> hosts = all_on_one_host({2, 2}, 2);
  hosts[2] = {.ranks = 2, .hosts = 2, .elsewhere = 1, .kept = 1};
  hosts[3] = {.ranks = 4, .hosts = 2, .elsewhere = 2, .kept = 1};
  recorder.set_hosts(hosts);
  EventLog log;
  recorder.set_log(&log);
  recorder.compute(100, 5);  // 0 to 1
  const std::int64_t a =
      recorder.communicate(Collective::all_gather, 1, 80, true);  // within the host: 1 to 5.5
  const std::int64_t b = recorder.communicate(Collective::all_gather, 2, 600, true);  // across: 5.5 to 9
  recorder.compute(100, 20);                             // 5.5 to 7.5, for the memory
  recorder.wait(Collective::all_gather, 2, b);           // 7.5 to 9
  recorder.communicate(Collective::all_reduce, 2, 100);  // 9 to 10.5, across
  recorder.wait(Collective::all_gather, 1, a);           // at 10.5
  recorder.communicate(Collective::all_reduce, 3, 10);   // 10 within and 5 across: 10.5 to 12.05
  recorder.compute(100, 5, "attention");                 // 12.05 to 14.05
  const Speeds speeds{.flops = 100,
                      .attention = 50,
                      .memory = 10,
                      .within = 10,
                      .across = 100,
                      .latency = 0.5,
                      .latency_across = 0.5};
  const std::vector<Event> timed = with_times(log.events(), speeds);
  const double begins[] = {0, 0, 1, 5.5, 5.5, 7.5, 9, 10.5, 10.5, 12.05},
               ends[] = {0, 1, 5.5, 9, 7.5, 9, 10.5, 10.5, 12.05, 14.05};
  REQUIRE(timed.size() == 10);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    CAPTURE(i);
    CHECK(timed[i].begin == doctest::Approx(begins[i]));
    CHECK(timed[i].end == doctest::Approx(ends[i]));
  }
  CHECK(price(log.events(), speeds) == doctest::Approx(14.05));
  CHECK(arrivals(timed) == std::vector<double>{0, 0, 1, 1, 5.5, 7.5, 9, 10.5, 10.5, 12.05});
  const Speeds found = fitted(timed);
  CHECK(found.flops == doctest::Approx(100));
  CHECK(found.attention == doctest::Approx(50));
  CHECK(found.memory == doctest::Approx(10));
  CHECK(found.within == doctest::Approx(40 / 4.5));
  CHECK(found.across == doctest::Approx(300 / 3.5));
  CHECK_THROWS_WITH_AS(with_times(log.events(), {.flops = 100, .across = 0}),
                       "with_times: a speed is 0, which must be above 0", std::invalid_argument);
  CHECK(price(log.events(), {.flops = 100, .across = 100}) == doctest::Approx(6.05));
  CHECK(price(log.events(), {.flops = 100, .across = 100, .overlap = 0.25}) == doctest::Approx(6.3));
  CHECK_THROWS_WITH_AS(with_times(log.events(), {.overlap = 1.5}),
                       "with_times: the overlap is 1.5, which must be from 0 to 1", std::invalid_argument);
  CHECK_THROWS_AS(with_times(log.events(), {.memory = NAN}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(with_times(log.events(), {.latency = -1}),
                       "with_times: a latency is -1, which must be at least 0", std::invalid_argument);
}

/// The price of a product of which each of four ranks computes some rows, which are then gathered.
template <int RanksPerHost>
constexpr double price_of_product = [] {
  EventLog log;
  const auto product = [](const auto& mesh) {
    const auto y =
        matmul(empty<float, Shard<0>>(mesh, {1024, 1024}), empty<float, Reduced>(mesh, {1024, 1024}));
    redistribute<Replicate>(y);
  };
  trace<Mesh<dp>>({4}, product, {}, RanksPerHost, &log);
  return price(
      log.events(),
      {.flops = 1 << 30, .within = 1 << 20, .across = 1 << 18, .latency = 0.25, .latency_across = 0.5});
}();
static_assert(price_of_product<0> == 0.5 + 3 + 0.25);     // 2^29 operations, and 3 of 4 MiB
static_assert(price_of_product<2> == 0.5 + 2 + 4 + 0.5);  // of which 1 MiB to another host

TEST_CASE("memory of an event is the most until the next") {
  Recorder recorder;
  const unsigned epoch = recorder.allocate(MemoryUse::parameter, 8);
  EventLog log;
  recorder.set_log(&log);
  recorder.allocate(MemoryUse::activation, 5);
  recorder.release(MemoryUse::activation, 5, epoch);
  recorder.compute(1);
  recorder.allocate(MemoryUse::gradient, 3);
  recorder.release(MemoryUse::parameter, 8, epoch);
  recorder.restart();
  CHECK(log.events().size() == 1);
  CHECK(log.events()[0].all_memory() == 3);
  CHECK(log.events()[0].number == 3);
}

TEST_CASE("the page of a step") {
  EventLog log;
  step(&log);
  const Speeds speeds{.flops = 1e12, .memory = 2e11, .within = 5e10, .across = 4e9, .latency = 5e-6};
  testing::write_page("step", trace_file(with_times(log.events(), speeds), names,
                                         "rank 3 of 8 (modelled: " + speeds_text(speeds) + ")"));
  EventLog named;
  std::string blocks;
  step(&named, 1, false, &blocks);
  StepNames with_modules = names;
  with_modules.modules = &named;
  testing::write_page("modules", trace_file(with_times(named.events(), speeds), with_modules, "rank 3"),
                      blocks);
}

TEST_CASE("a table ends with hints, by kind, axes and operation, if there are any") {
  CHECK(plan_table("a step", step(nullptr, 2, true)).find("hint") == std::string::npos);
  Recorder recorder;
  const auto hints = [&] {
    const CommunicationPlan<dp, tp> plan(recorder.record(), {4, 2});
    const std::string text = plan_table("a step", plan);
    const std::size_t begin = text.find("  hint");
    return begin == std::string::npos ? "" : text.substr(begin);
  };
  recorder.compute(1, 1, "linear");
  recorder.waste(Waste::summed_whole, 2, 1024);
  recorder.compute(1, 1);  // no name: the operation is still the same
  recorder.waste(Waste::summed_whole, 2, 512);
  const std::string first =
      "  hint: 1.50 KiB too much over tp, 2x before linear: the gradient is all-reduced, then cut; gather "
      "the "
      "value to Reduced, not to Replicate\n";
  CHECK(hints() == first);
  recorder.compute(1, 1, "add");
  recorder.waste(Waste::repeated, 3, 100);
  CHECK(hints() ==
        first +
            "  hint: 100 B too much over dp+tp, 1x before add: another layer redistributes the same "
            "value; use project, or redistribute it once\n");
  for (AxisSet axes = 0; axes < 64; ++axes) recorder.waste(Waste::repeated, axes, 1);
  CHECK(wasted(CommunicationPlan<dp, tp>(recorder.record(), {4, 2})).size() == 8);
  recorder.restart();
  CHECK(hints() == "");
}

TEST_CASE("texts for files have a decimal point in a locale with a comma") {
  EventLog log;
  const auto plan = step(&log);
  const Speeds speeds{.flops = 1e12, .within = 5e10, .across = 4e9, .latency = 5.5e-6};
  const std::vector<Event> events = with_times(log.events(), speeds);
  const PipelineSchedule schedule = pipeline_schedule("1f1b", 2, 1, 4);
  const llm::LlamaConfig config{
      .vocabulary = 64, .features = 32, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 48};
  const auto texts = [&] {
    return std::vector{trace_file(events, names, "a rank"),
                       trace_file(schedule, {.forward = 1.5}),
                       plan_table("a step", plan),
                       bytes_text(1536) + ", " + bytes_text(1000) + ", " + flops_text(3'140'000'000'000),
                       llm::llama_config_text(config, "float32", {}),
                       detail::text({0.125, " ", 1e300, " ", -1e-5})};
  };
  const std::vector<std::string> expected = texts();
  CHECK(expected[3] == "1.50 KiB, 1000 B, 3.14 TFLOP");
  const testing::CommaLocale comma;
  CHECK(texts() == expected);
  const nlohmann::json trace = nlohmann::json::parse(texts()[0]);
  bool fraction = false;
  for (const auto& entry : trace.at("traceEvents")) {
    if (entry.contains("dur"))
      fraction |= entry.at("dur").get<double>() != std::floor(entry.at("dur").get<double>());
  }
  CHECK(fraction);
}

}  // namespace
}  // namespace shardwise
