// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Plans the communication, arithmetic and memory of a training step of a Llama on any mesh: the training step of
/// `train` runs dry, in one process without MPI.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include <shardwise/inspect/module_table.hpp>
#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/schedule/prove.hpp>

#include "../common/job_hosts.hpp"
#include "../common/job_options.hpp"
#include "../common/llama_presets.hpp"
#include "../common/options.hpp"
#include "../common/plan_search.hpp"
#include "../common/speeds_file.hpp"
#include "plan_decode.hpp"
#include "plan_picture.hpp"

namespace {

using namespace tools;
using Json = nlohmann::ordered_json;
inline constexpr auto axis_names = JobPlan::AxesOf::names;

/// Counters have 64 bits. Throws `std::invalid_argument` for a step that might exceed them.
void check_countable(const StepJob& job) {
  const sw::llm::LlamaConfig& model = job.model;
  const auto real = [](sw::Index n) { return static_cast<double>(n); };
  const double width = real(model.heads) * real(model.head_size());
  const double widest = std::max({real(model.vocabulary), real(model.features), real(model.hidden), width});
  const double weights = real(model.parameters());
  const double tokens = real(job.batch) * real(model.context);
  const double groups = real(job.sizes[1]) * job.sizes[2],
               split = real(job.sizes[3]) * job.sizes[4] * job.sizes[5];
  const double per_token =
      8 * real(model.active_parameters()) + 16 * real(model.layers) * width * real(model.context);
  const double flops = std::ceil(real(job.batch) / groups) * real(model.context) * per_token / split;
  const double most = std::ldexp(1, 60);  // uneven blocks are less than twice the even ones
  if (flops > most || tokens * widest > most || weights * 32 > most) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "%.2g weights, %.2g tokens in a step, %.2g FLOP on a rank: too many to count; use a larger "
                  "mesh or a smaller --batch",
                  weights, tokens, flops);
    throw std::invalid_argument(text);
  }
}

int rank_of(const StepJob& job, const JobSizes& at) {
  int rank = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis) rank = rank * job.sizes[axis] + at[axis];
  return rank;
}
JobSizes coordinates_of(const StepJob& job, int rank) {
  JobSizes at{};
  for (std::size_t axis = at.size(); axis-- > 0; rank /= job.sizes[axis]) at[axis] = rank % job.sizes[axis];
  return at;
}
int ranks(const StepJob& job) {
  int product = 1;
  for (const int size : job.sizes) product *= size;
  return product;
}

/// A rank's plan, and the additional arithmetic of recomputation.
struct RankPlan {
  JobSizes at{};
  JobPlan plan;
  std::int64_t recomputed = 0;
  sw::Index saved = 0;                // bytes of its part of a checkpoint
  std::optional<double> seconds{};    // if the speeds are known
  std::optional<JobPlan> exchange{};  // of a step that ends with an exchange, if not all do
  std::optional<double> exchange_seconds{};
  std::vector<sw::ModuleTraffic> modules{};  // if the communication by module is asked for
  std::string modules_text{};
};

/// The traffic that an exchange adds to a step.
sw::Traffic added_by_exchange(const RankPlan& rank) {
  return {rank.exchange->collectives() - rank.plan.collectives(), rank.exchange->bytes() - rank.plan.bytes()};
}
/// The seconds of a step in the mean.
double mean_seconds(const StepJob& job, const RankPlan& rank) {
  if (!rank.exchange_seconds) return *rank.seconds;
  return *rank.seconds + (*rank.exchange_seconds - *rank.seconds) / job.local_steps;
}

/// With the seconds of a step, if the speeds are not null; with the communication by module, if `depth` is not 0.
RankPlan plan_of_rank(const StepJob& job, const JobSizes& at, const sw::Speeds* speeds, int depth) {
  RankPlan rank;
  rank.at = at;
  rank.plan = plan_step(job, at, nullptr, &rank.saved);
  if (speeds) rank.seconds = price_of(job, at, *speeds);
  if (job.local_steps > 1) {
    rank.exchange = plan_step(with_exchange(job), at);
    if (speeds) rank.exchange_seconds = price_of(with_exchange(job), at, *speeds);
  }
  if (depth > 0) {
    sw::EventLog log;
    std::string blocks;
    plan_step(job, at, &log, nullptr, &blocks);
    const std::vector<sw::Event> events = speeds ? sw::with_times(log.events(), *speeds) : log.events();
    rank.modules = sw::by_module(log, events, {.depth = depth});
    rank.modules_text = sw::module_table(log, events, {.depth = depth});
  }
  if (recomputes(job)) {
    StepJob kept = job;
    kept.recompute = {0};
    rank.recomputed = rank.plan.flops() - plan_step(kept, at).flops();
  }
  return rank;
}

/// Whether all ranks have the same plan. Blocks shrink with the rank along each axis, so it suffices that the first
/// and the last rank are equal; but not for the bytes sent to other hosts. Only the arithmetic of the norm may
/// differ, because of several copies only the first counts.
bool alike(const StepJob& job, const JobPlan& a, const JobPlan& b) {
  if (job.ranks_per_host > 0 || !same_communication(a, b) || a.peak_bytes() != b.peak_bytes()) return false;
  for (auto phase : {sw::Phase::forward, sw::Phase::backward}) {
    if (a.flops(phase) != b.flops(phase)) return false;
  }
  for (int use = 0; use < sw::memory_uses; ++use) {
    if (a.peak_bytes(static_cast<sw::MemoryUse>(use)) != b.peak_bytes(static_cast<sw::MemoryUse>(use))) {
      return false;
    }
  }
  return true;
}

// ---- Text --------------------------------------------------------------------------------------------------------
void print_model(const StepJob& job, const std::string& weights) {
  const sw::llm::LlamaConfig& model = job.model;
  std::printf("a %s of %s, %td features, %s, %s, %td hidden, %td tokens%s\n", family_name(model).c_str(),
              counted(model.layers, "layer").c_str(), model.features, counted(model.heads, "head").c_str(),
              counted(model.kv_heads, "key/value head").c_str(), model.hidden, model.vocabulary,
              model.tied ? ", tied head" : "");
  std::printf("%s in %s\n", parameters_text(model.parameters()).c_str(), weights.c_str());
  if (const auto& experts = model.experts) {
    std::printf("a token uses %td of %td experts in a layer, and %s\n", experts->routing.k, experts->experts,
                parameters_text(model.active_parameters()).c_str());
  }
  std::printf("%s: %s", sizes_text(job.sizes).c_str(), counted(ranks(job), "rank").c_str());
}

void print_job(const StepJob& job) {
  static constexpr const char* zero[] = {"data parallel", "ZeRO-1", "ZeRO-2", "fully sharded"};
  print_model(job, job.bf16 ? "bfloat16, with masters in float" : "float");
  std::printf("; %s over dp%s%s%s\n", zero[job.zero_level], job.sizes[3] > 1 ? " and cp" : "",
              split_text(job).c_str(), unusual_in(job).c_str());
  std::printf("a step: %s of %s, %s; activations are %s\n", counted(job.batch, "sequence").c_str(),
              counted(job.model.context, "token").c_str(), counted(job.micro_batches, "micro-batch").c_str(),
              recomputation_text(job).c_str());
  if (const int each = job.ranks_per_host; each > 0) {
    const std::string axes = axes_on_hosts(job.sizes, [&](int rank) { return rank / each; });
    std::printf("hosts of %d consecutive ranks%s\n", each, (axes.empty() ? "" : ": " + axes).c_str());
  }
}

/// The fraction of a step in which ranks are idle; an estimate by `LlamaPart::costs`, if the speeds are null.
double idle_part(const StepJob& job, const sw::PipelineSchedule& schedule, const sw::Speeds* speeds) {
  const sw::ScheduleProof proof =
      sw::prove(schedule, speeds ? costs_of(job, {}, *speeds)
                                 : sw::llm::LlamaPart::costs(job.model, schedule.rank_of_stage));
  double idle = 0;
  for (const double each : proof.idle) idle += each;
  return idle / (proof.time * schedule.ranks());
}

/// Prints the work of each rank along pp, for the ranks with the largest blocks.
void print_stages(const StepJob& job, const sw::Speeds* speeds) {
  const sw::PipelineSchedule schedule = schedule_of(job);
  if (schedule.stages() == 1) return;
  std::printf("%s: ranks compute nothing in about %.0f %% of the time\n", job.schedule.c_str(),
              100 * idle_part(job, schedule, speeds));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::string stages;
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] != rank) continue;
      stages += (stages.empty() ? "" : ", ") + std::to_string(stage);
    }
    const JobPlan plan = plan_step(job, {rank});
    std::printf("  pp %d, stages %s: arithmetic %s, peak memory %s\n", rank, stages.c_str(),
                sw::flops_text(plan.flops()).c_str(), sw::bytes_text(plan.peak_bytes()).c_str());
  }
}

void print_plans(const StepJob& job, const std::vector<RankPlan>& plans, bool save) {
  auto title = [&](const RankPlan& each) { return "rank " + std::to_string(rank_of(job, each.at)); };
  const RankPlan& first = plans.front();
  if (plans.size() == 1) {
    std::printf("%s", sw::plan_table(title(first).c_str(), first.plan).c_str());
  } else if (alike(job, first.plan, plans[1].plan)) {
    std::printf("%s", sw::plan_table("all ranks alike", first.plan).c_str());
  } else {
    // With several stages, hosts or parts of a sequence, neither rank is the largest in every respect.
    const bool ordered = job.sizes[0] == 1 && job.sizes[3] == 1 && job.ranks_per_host == 0;
    const std::string one = title(first) + (ordered ? ", largest" : ""),
                      other = title(plans[1]) + (ordered ? ", smallest" : "");
    std::printf("%s", sw::plan_table(one.c_str(), first.plan, other.c_str(), plans[1].plan).c_str());
  }
  for (const RankPlan& each : plans) {
    if (!save) break;
    std::printf("  %s with the copy of a save in the background: %s + %s = %s\n", title(each).c_str(),
                sw::bytes_text(each.plan.peak_bytes()).c_str(), sw::bytes_text(each.saved).c_str(),
                sw::bytes_text(each.plan.peak_bytes() + each.saved).c_str());
  }
  for (const RankPlan& each : plans) {
    if (!each.exchange) continue;
    const sw::Traffic added = added_by_exchange(each);
    std::printf(
        "  %s: the exchange after every %d steps adds %lld collectives of %s, %s a step in the mean; "
        "peak memory %s\n",
        title(each).c_str(), job.local_steps, static_cast<long long>(added.calls),
        sw::bytes_text(added.bytes).c_str(), sw::bytes_text(added.bytes / job.local_steps).c_str(),
        sw::bytes_text(each.exchange->peak_bytes()).c_str());
  }
  for (const RankPlan& each : plans) {
    if (!each.seconds) continue;
    std::printf("  %s takes %.4f s for the step", title(each).c_str(), *each.seconds);
    if (each.exchange_seconds)
      std::printf(", %.4f s with the exchange, %.4f s in the mean", *each.exchange_seconds,
                  mean_seconds(job, each));
    std::printf("\n");
  }
  if (recomputes(job)) {
    std::printf("  recomputation adds to the arithmetic  %s\n", sw::flops_text(first.recomputed).c_str());
  }
  for (const RankPlan& each : plans) {
    if (each.modules_text.empty()) continue;
    if (&each != &first && each.modules_text == first.modules_text) {
      std::printf("  (the same for %s)\n", title(each).c_str());
    } else {
      std::printf("communication of %s by module\n%s", title(each).c_str(), each.modules_text.c_str());
    }
  }
}

// ---- JSON --------------------------------------------------------------------------------------------------------
Json by_axis(const JobSizes& numbers) {
  Json json;
  for (std::size_t axis = 0; axis < numbers.size(); ++axis) json[axis_names[axis]] = numbers[axis];
  return json;
}

Json plan_json(const StepJob& job, const RankPlan& each) {
  Json json{{"rank", rank_of(job, each.at)}, {"coordinates", by_axis(each.at)}};
  Json& collectives = json["collectives"] = Json::array();
  for (std::size_t phase = 0; phase < sw::phases; ++phase) {
    for (std::size_t kind = 1; kind < sw::collective_kinds; ++kind) {
      for (sw::AxisSet set = 0; set < 1u << axis_names.size(); ++set) {
        const sw::Traffic& traffic = each.plan.record().traffic[phase][kind][set];
        if (traffic.calls == 0) continue;
        Json axes = Json::array();
        for (std::size_t axis = 0; axis < axis_names.size(); ++axis) {
          if (set >> axis & 1u) axes.push_back(axis_names[axis]);
        }
        collectives.push_back({{"phase", name_of(static_cast<sw::Phase>(phase))},
                               {"kind", name_of(static_cast<sw::Collective>(kind))},
                               {"axes", std::move(axes)},
                               {"calls", traffic.calls},
                               {"bytes", traffic.bytes}});
      }
    }
  }
  for (std::size_t p = 0; p < sw::phases; ++p) {
    const auto phase = static_cast<sw::Phase>(p);
    json["flops"][name_of(phase)] = each.plan.flops(phase);
    json["bytes_to_other_hosts"][name_of(phase)] = each.plan.bytes_to_other_hosts(phase);
  }
  json["flops"]["recomputation"] = each.recomputed;
  for (int u = 0; u < sw::memory_uses; ++u) {
    const auto use = static_cast<sw::MemoryUse>(u);
    std::string key = name_of(use);
    std::replace(key.begin(), key.end(), ' ', '_');
    json["peak_bytes"][key] = each.plan.peak_bytes(use);
  }
  json["peak_bytes"]["all"] = each.plan.peak_bytes();
  json["saved_bytes"] = each.saved;
  for (const sw::ModuleTraffic& row : each.modules) {
    Json& module = json["modules"].emplace_back(Json{{"name", row.name}});
    for (std::size_t p = 0; p < sw::phases; ++p)
      module[name_of(static_cast<sw::Phase>(p))] = {{"calls", row.traffic[p].calls},
                                                    {"bytes", row.traffic[p].bytes}};
    if (each.seconds) module["seconds"] = row.seconds;
  }
  std::int64_t wasted_bytes = 0;
  for (const sw::Waste& hint : wasted(each.plan)) wasted_bytes += hint.bytes;
  json["wasted_bytes"] = wasted_bytes;
  if (each.exchange) {
    const sw::Traffic added = added_by_exchange(each);
    json["exchange"] = {
        {"calls", added.calls}, {"bytes", added.bytes}, {"peak_bytes", each.exchange->peak_bytes()}};
    if (each.exchange_seconds) json["exchange"]["seconds_of_step"] = *each.exchange_seconds;
  }
  if (each.seconds) json["seconds_of_step"] = mean_seconds(job, each);
  return json;
}

void print_json(const StepJob& job, const std::vector<RankPlan>& plans, const sw::Speeds* speeds,
                double seconds) {
  const sw::llm::LlamaConfig& model = job.model;
  Json json;
  json["model"] = {{"parameters", model.parameters()},
                   {"vocabulary", model.vocabulary},
                   {"features", model.features},
                   {"layers", model.layers},
                   {"heads", model.heads},
                   {"kv_heads", model.kv_heads},
                   {"head_dim", model.head_size()},
                   {"hidden", model.hidden},
                   {"tied", model.tied},
                   {"active_parameters", model.active_parameters()},
                   {"experts", model.experts ? model.experts->experts : 0},
                   {"element", job.bf16 ? "bfloat16" : "float32"}};
  json["mesh"] = by_axis(job.sizes);
  json["ranks_per_host"] = job.ranks_per_host;
  json["step"] = {{"batch", job.batch},
                  {"context", model.context},
                  {"micro_batches", job.micro_batches},
                  {"schedule", job.schedule},
                  {"zero", job.zero_level},
                  {"sequence_parallel", job.sequence_parallel},
                  {"recompute", recomputes(job)},
                  {"recompute_layers", job.recompute},
                  {"embedding", embedding_names[static_cast<std::size_t>(job.embedding)]},
                  {"optimizer_state", job.state == sw::StateType::bf16 ? "bfloat16" : "float32"},
                  {"lora_rank", job.lora_rank},
                  {"lora_layers", job.lora_layers},
                  {"freeze_layers", job.freeze_layers},
                  {"local_steps", job.local_steps},
                  {"bucket_bytes", job.bucket_bytes},
                  {"communicate_as", communicated_as(job)}};
  const sw::PipelineSchedule schedule = schedule_of(job);
  json["pipeline"] = {{"idle", idle_part(job, schedule, speeds)}, {"rank_of_stage", schedule.rank_of_stage}};
  json["ranks"] = Json::array();
  for (const RankPlan& each : plans) json["ranks"].push_back(plan_json(job, each));
  json["alike"] = plans.size() > 1 && alike(job, plans[0].plan, plans[1].plan);
  json["seconds"] = seconds;
  std::printf("%s\n", json.dump(2).c_str());
}

/// "10 GFLOP/s; … (of speeds.json)"
std::string text_of(const NamedSpeeds& named, const sw::Speeds& speeds) {
  return sw::speeds_text(speeds) + " (" + named.name + (named.origin.empty() ? "" : ": " + named.origin) +
         ")";
}

// ---- Search ------------------------------------------------------------------------------------------------------
void print_search(const PlanSearch& search, sw::Index memory, const std::string& speeds) {
  const auto line = [](const PlanSearch::Found& each) {
    std::printf("  %10.4g s  %12s  %s\n", each.seconds, sw::bytes_text(each.bytes).c_str(),
                plan_options(each.options).c_str());
  };
  const std::size_t shown = 10;
  std::printf("times are modelled: %s\n", speeds.c_str());
  if (!search.found.empty())
    std::printf("the fastest of %zu plans: a step, peak memory of a rank, options of shardwise-train\n",
                search.found.size());
  for (std::size_t i = 0; i < std::min(shown, search.found.size()); ++i) line(search.found[i]);
  if (!search.too_large.empty()) {
    std::printf("%zu plans need more than %s; the smallest one:\n", search.too_large.size(),
                sw::bytes_text(memory).c_str());
    line(search.too_large.front());
  }
  for (const auto& [reason, count] : search.impossible)
    std::printf("%d not possible: %s\n", count, reason.c_str());
}

Json search_json(const PlanSearch& search, const std::string& speeds) {
  Json json;
  json["speeds"] = speeds;
  const auto list = [](const std::vector<PlanSearch::Found>& plans) {
    Json all = Json::array();
    for (const PlanSearch::Found& each : plans)
      all.push_back({{"options", plan_options(each.options)},
                     {"seconds_of_step", each.seconds},
                     {"peak_bytes", each.bytes}});
    return all;
  };
  json["found"] = list(search.found);
  json["too_large"] = list(search.too_large);
  json["impossible"] = search.impossible;
  return json;
}

// ---- Options -----------------------------------------------------------------------------------------------------
struct Options {
  JobOptions job{.model = "8b", .job = {.zero_level = 3}};
  std::optional<int> rank;
  std::vector<int> coordinates;
  std::filesystem::path speeds, draw;
  bool json = false, save = false, search = false, decode = false;
  int ranks = 1, weight_bits = 32, depth = 0;
};

void add_options(CLI::App& app, Options& options) {
  add_job_options(app, options.job);
  app.option_defaults()->group("Model");
  add_count(app, "--vocabulary", options.job.vocabulary, "number of different tokens");
  app.option_defaults()->group("Data");
  add_count(app, "--batch", options.job.batch,
            "sequences per step, over all ranks; default: one per data-parallel rank and micro-batch");
  app.option_defaults()->group("Plan");
  auto* rank =
      app.add_option("--rank", options.rank, "plan only this rank, instead of the first and the last")
          ->check(CLI::NonNegativeNumber);
  app.add_option("--coordinates", options.coordinates,
                 "plan only the rank at these coordinates on pp, replica, dp, cp, tp and kvr")
      ->expected(6)
      ->excludes(rank);
  app.add_option("--ranks-per-host", options.job.job.ranks_per_host,
                 "ranks on each host, to count traffic between hosts; 0: all share one host")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--speeds", options.speeds,
                 "a file that shardwise-measure wrote, or epyc-10g, epyc-100g, xeon or laptop: also print "
                 "the seconds of the step, or of the token; --search and --draw have epyc-10g by default")
      ->check(check_speeds);
  auto* search =
      app.add_flag("--search", options.search,
                   "find the fastest plans: all --dp and --tp on so many --ranks, levels of --zero, --sp, "
                   "--recompute and --micro-batches");
  add_count(app, "--ranks", options.ranks, "ranks to search plans for")->needs(search);
  search->needs("--ranks");
  app.add_option(
      "--draw", options.draw,
      "write the step of the first rank shown, or the schedule of a pipeline, to this file: as a page if "
      "its name ends in .html, otherwise as a trace for ui.perfetto.dev or chrome://tracing");
  app.add_option("--by-module", options.depth,
                 "also show the communication of each module: names of up to so many parts, by default 4, as "
                 "layers.*.attention.wq, with all layers in one row")
      ->expected(0, 1)
      ->default_str("4")
      ->check(CLI::PositiveNumber);
  app.add_flag("--save", options.save, "also show the memory with the copy that a background save makes");
  app.add_flag("--json", options.json, "print JSON");
  auto* decode = app.add_flag("--decode", options.decode,
                              "plan the last token of a text of --context tokens that "
                              "shardwise-generate writes, instead of a step");
  app.add_option("--weight-bits", options.weight_bits,
                 "bits of a weight in memory, as for shardwise-generate")
      ->check(CLI::IsMember({32, 16, 8, 4}))
      ->needs(decode);
  for (const char* chosen : {"--search",    "--schedule",  "--chunks",      "--replicas", "--local-steps",
                             "--dp",        "--cp",        "--zero",        "--sp",       "--embedding",
                             "--lora-rank", "--recompute", "--memory",      "--bf16",     "--micro-batches",
                             "--batch",     "--rank",      "--coordinates", "--draw",     "--save",
                             "--by-module"})
    decode->excludes(app.get_option(chosen));
  for (const char* chosen : {"--lora-layers", "--freeze-layers"}) decode->excludes(app.get_option(chosen));
  for (const char* chosen :
       {"--pp", "--schedule", "--chunks", "--replicas", "--local-steps", "--dp", "--cp", "--tp", "--zero",
        "--sp", "--recompute", "--micro-batches", "--rank", "--coordinates", "--draw", "--save"})
    search->excludes(app.get_option(chosen));
}

/// The highest level of --zero that goes with the other options.
int default_zero(JobOptions options) {
  for (const int level : {3, 1}) {
    try {
      options.job.zero_level = level;
      job_of(options, 1);
      return level;
    } catch (const std::invalid_argument&) {
    }
  }
  return options.job.by_counts ? 1 : 0;  // with which another error is reported
}

/// The requested rank; or the first, which has the largest blocks, and the last, which has the smallest.
std::vector<JobSizes> places(const Options& options, const StepJob& job) {
  if (options.rank) {
    if (*options.rank >= ranks(job)) {
      throw std::invalid_argument("--rank " + std::to_string(*options.rank) + ": the mesh has " +
                                  counted(ranks(job), "rank"));
    }
    return {coordinates_of(job, *options.rank)};
  }
  if (!options.coordinates.empty()) {
    JobSizes at{};
    std::copy_n(options.coordinates.begin(), at.size(), at.begin());
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      if (at[axis] < 0 || at[axis] >= job.sizes[axis]) {
        throw std::invalid_argument("--coordinates: there is no " + std::string(axis_names[axis]) + " " +
                                    std::to_string(at[axis]) + ", the mesh is " + sizes_text(job.sizes));
      }
    }
    return {at};
  }
  return {JobSizes{}, coordinates_of(job, ranks(job) - 1)};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Plans a step of training a Llama on any mesh, or a token of its text: communication, arithmetic, "
      "memory. Needs no MPI job.",
      "shardwise-plan");
  add_options(app, options);
  app.get_option("--zero")->default_str("3, or 1 or 0 if the other options need that");
  if (const auto code = app.read_alone(argc, argv)) return *code;
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit is an error with a file name
  try {
    const std::string speeds_name =
        options.speeds.empty() ? known_speeds().front().name : options.speeds.string();
    if (options.search) {
      const NamedSpeeds named = speeds_of(speeds_name, options.job.job.ranks_per_host);
      const sw::Speeds speeds = named.speeds.of(options.job.job.bf16);
      const auto memory =
          static_cast<sw::Index>(options.job.memory > 0 ? options.job.memory : std::uint64_t{1} << 60);
      const PlanSearch search = search_plans(options.job, options.ranks, memory, speeds);
      options.json ? void(std::printf("%s\n", search_json(search, text_of(named, speeds)).dump(2).c_str()))
                   : print_search(search, memory, text_of(named, speeds));
      if (search.found.empty()) throw std::invalid_argument("--search: no plan is possible");
      return after_output(0);
    }
    if (app.count("--zero") == 0) options.job.job.zero_level = default_zero(options.job);
    StepJob job = job_of(options.job, 1);
    check_countable(job);
    if (options.decode) {
      std::optional<MeasuredSpeeds> measured;
      if (!options.speeds.empty()) measured = speeds_of(speeds_name, job.ranks_per_host).speeds;
      if (!options.json) {
        print_model(job, options.weight_bits == 32 ? "float" : std::to_string(options.weight_bits) + " bits");
        std::printf("\n");
      }
      print_token(job, options.weight_bits, measured ? &*measured : nullptr, options.json);
      return after_output(0);
    }
    const auto begin = std::chrono::steady_clock::now();
    job = within_memory(job, static_cast<sw::Index>(options.job.memory));
    std::vector<RankPlan> plans;
    const NamedSpeeds named = speeds_of(speeds_name, job.ranks_per_host);
    const sw::Speeds speeds = named.speeds.of(job.bf16);
    const sw::Speeds* known = options.speeds.empty() ? nullptr : &speeds;
    for (const JobSizes& at : places(options, job))
      plans.push_back(plan_of_rank(job, at, known, options.depth));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (!options.draw.empty()) {
      const std::string name = "rank " + std::to_string(rank_of(job, plans.front().at));
      draw_step(options.draw, job, plans.front().at, name, speeds,
                command_of(argc, argv) + "\nTimes are modelled: " + text_of(named, speeds));
    }
    if (options.json) {
      print_json(job, plans, known, time.count());
    } else {
      print_job(job);
      print_stages(job, known);
      print_plans(job, plans, options.save);
      if (known) std::printf("  times are modelled: %s\n", text_of(named, speeds).c_str());
      std::printf("planned in %.3f s\n", time.count());
    }
    return after_output(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardwise-plan: %s\n", error.what());
    return 1;
  }
}
