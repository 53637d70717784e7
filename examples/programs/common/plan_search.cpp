// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_search.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include <shardwise/schedule/prove.hpp>

namespace tools {

using namespace std::chrono_literals;

std::string plan_options(const JobOptions& options) {
  const auto option = [](const char* name, auto value) { return std::string(name) + std::to_string(value); };
  std::string text;
  if (options.pp > 1) text += option("--pp ", options.pp) + " --schedule " + options.job.schedule + " ";
  if (options.replicas > 1) text += option("--replicas ", options.replicas) + " ";
  text += option("--dp ", *options.dp) + (options.cp > 1 ? option(" --cp ", options.cp) : "") +
          option(" --tp ", options.tp) + option(" --zero ", options.job.zero_level);
  if (options.job.sequence_parallel) text += " --sp";
  if (const int layers = options.job.recompute.front(); layers > 0)
    text += " --recompute" + (layers == all_layers ? "" : " " + std::to_string(layers));
  return text + option(" --micro-batches ", options.job.micro_batches);
}

namespace {

using Found = PlanSearch::Found;

/// The line through two prices, at `t`: `a` at 0, `b` at 1.
RankPrice line(const RankPrice& a, const RankPrice& b, double t) {
  const auto at = [t](auto x, auto y) {
    return x + static_cast<decltype(x)>(t * static_cast<double>(y - x));
  };
  RankPrice price{
      .message = b.message, .bytes = at(a.bytes, b.bytes), .of_model = at(a.of_model, b.of_model)};
  for (std::size_t phase = 0; phase < sw::phases; ++phase)
    price.seconds[phase] = at(a.seconds[phase], b.seconds[phase]);
  return price;
}

/// Shows on stderr how far a long search is: on a terminal in a line that is overwritten, else in a line every 10 s.
class SearchProgress {
 public:
  explicit SearchProgress(int plans) : plans_(plans) {}
  ~SearchProgress() {
    if (shown_ && terminal_) std::fprintf(stderr, "\r\033[K");
  }
  void begin_plan(std::size_t found) {
    ++done_;
    found_ = found;
  }
  void show() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < (!terminal_ ? 10s : shown_ ? 200ms : 2s)) return;
    std::fprintf(stderr, terminal_ ? "\rplan %d of %d; %zu fit\033[K" : "plan %d of %d; %zu fit\n", done_,
                 plans_, found_);
    std::fflush(stderr);
    last_ = now;
    shown_ = true;
  }

 private:
  int plans_, done_ = 0;
  std::size_t found_ = 0;
  bool terminal_ = ::isatty(STDERR_FILENO) != 0, shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// The prices of steps on a rank. Each step is planned once: schedules of a pipeline share the prices of micro-batches.
class Prices {
 public:
  Prices(const sw::Speeds& speeds, SearchProgress& progress) : speeds_(speeds), progress_(progress) {}

  RankPrice of(const JobOptions& options, const StepJob& job, const JobSizes& at) {
    const std::string key = plan_options(options) + " " + std::to_string(job.batch) + " " +
                            std::to_string(job.model.layers) + " " + std::to_string(at[0]);
    progress_.show();
    const auto place = known_.find(key);
    return place != known_.end() ? place->second : known_[key] = price_of_rank(job, at, speeds_);
  }

 private:
  sw::Speeds speeds_;
  SearchProgress& progress_;
  std::map<std::string, RankPrice> known_;  // by what a search varies
};

/// The price of so many micro-batches. Of a deep model, only 4 and 6 layers of each rank along pp are planned: others
/// take as long.
RankPrice price_of_parts(JobOptions options, sw::Index parts, const JobSizes& at, Prices& prices) {
  options.batch = *options.batch / options.job.micro_batches * parts;
  options.job.micro_batches = parts;
  options.job.schedule = "gpipe";
  const auto plan = [&] { return prices.of(options, job_of(options, 1), at); };
  const sw::Index layers = job_of(options, 1).model.layers, few = sw::Index{4} * options.pp;
  if (layers <= 2 * few) return plan();
  options.layers = few;
  const RankPrice of_few = plan();
  options.layers = few + few / 2;
  return line(of_few, plan(), static_cast<double>(layers - few) / static_cast<double>(few / 2));
}

/// The slowest rank of a stage: causal attention has most work at the end of the sequences.
JobSizes slowest(const JobOptions& options, int pp = 0) { return {pp, 0, 0, options.cp - 1}; }

/// The price and the memory of a whole step, extrapolated from one and two micro-batches. Of the ranks of a long
/// pipeline, the first two, the last, and one between them are planned.
Found estimate(const JobOptions& options, Prices& prices, sw::Index& of_model) {
  Found found{options};
  const int pp = options.pp;
  if (pp == 1) {
    const sw::Index parts = options.job.micro_batches;
    const RankPrice one = price_of_parts(options, 1, slowest(options), prices),
                    two = parts == 1 ? one : price_of_parts(options, 2, slowest(options), prices);
    found.seconds = line(one, two, static_cast<double>(parts - 1)).total();
    found.bytes = two.bytes;
    of_model = two.of_model;
    return found;
  }
  const sw::PipelineSchedule schedule = schedule_of(job_of(options, 1));
  const sw::ScheduleProof proof = sw::prove(schedule);
  std::vector<RankPrice> of_micro_batch;
  RankPrice one, two;
  double once = 0;
  for (int rank = 0; rank < pp; ++rank) {
    if (rank < 2 || rank == pp / 2 || rank == pp - 1) {
      one = price_of_parts(options, 1, slowest(options, rank), prices);
      two = price_of_parts(options, 2, slowest(options, rank), prices);
    }
    RankPrice& more = of_micro_batch.emplace_back(two);
    for (std::size_t phase = 0; phase < sw::phases; ++phase)
      more.seconds[phase] = std::max(0., more.seconds[phase] - one.seconds[phase]);
    once = std::max(once, one.total() - more.total());
    const double in_flight = proof.live[static_cast<std::size_t>(rank)];
    found.bytes = std::max(found.bytes, line(one, two, in_flight - 1).bytes);
    of_model = std::max(of_model, two.of_model);
  }
  found.seconds = sw::prove(schedule, costs_of(schedule, of_micro_batch)).time + once;
  return found;
}

/// A rank needs at least these bytes for parameters, gradients and optimizer state.
sw::Index least_bytes(const JobOptions& options) {
  const StepJob job = job_of(options, 1);
  if (job.lora_rank > 0 || job.freeze_layers > 0) return 0;
  const int level = job.zero_level, element = job.bf16 ? 2 : 4,
            state = (job.muon ? 4 : 8) / (job.state == sw::StateType::bf16 ? 2 : 1);
  const auto bytes = [&](int each, int shards_from) {
    return static_cast<double>(each) / (level >= shards_from ? *options.dp * options.cp : 1);
  };
  // With --zero 1, gradients of one micro-batch are sharded as soon as they are reduced.
  const double each = bytes(element, 3) + bytes(element + state + (job.bf16 ? 4 : 0), 1);
  sw::llm::LlamaConfig without_experts = job.model;
  without_experts.dense_layers = job.model.experts ? job.model.layers : 0;
  without_experts.hidden = job.model.experts ? 0 : job.model.hidden;
  const auto others = static_cast<double>(without_experts.parameters()),
             experts = static_cast<double>(job.model.parameters()) - others;
  const double of_expert = (2 * element + state + (job.bf16 ? 4 : 0)) / static_cast<double>(*options.dp);
  return static_cast<sw::Index>((each * others + of_expert * experts) / (options.pp * options.tp));
}

/// Finds the fewest micro-batches with which the plan fits.
void try_plan(JobOptions options, sw::Index memory, Prices& prices, PlanSearch& search) {
  if (const sw::Index least = least_bytes(options); least > memory) {
    options.job.micro_batches = options.pp;
    search.too_large.push_back({options, 0, least});
    return;
  }
  Found smallest;
  int fitting = 0;
  const int groups = *options.dp * options.replicas;
  for (sw::Index parts = options.pp; groups * parts <= *options.batch && *options.batch % parts == 0;
       parts *= 2) {
    if (options.job.zero_level == 2 && parts == 1) continue;  // as --zero 1
    options.job.micro_batches = parts;
    sw::Index of_model = 0;
    const Found found = estimate(options, prices, of_model);
    if (found.bytes <= memory) {
      search.found.push_back(found);
      if (++fitting == (options.pp > 1 ? 3 : 1)) return;
      continue;
    }
    if (smallest.bytes == 0 || found.bytes < smallest.bytes) smallest = found;
    if (parts > 1 && of_model > memory) break;  // smaller micro-batches do not reduce this
  }
  if (fitting == 0 && smallest.bytes > 0) search.too_large.push_back(smallest);
}

/// Calls f with each plan, which may be impossible. Sequences are sharded over cp only if a micro-batch has one.
template <class F>
void each_plan(const JobOptions& given, int ranks, F f) {
  JobOptions alone = given;
  alone.job.zero_level = given.job.by_counts ? 1 : 0;
  const StepJob job = job_of(alone, 1);
  const int levels = job.model.experts || job.lora_rank > 0 ? 2 : 4;  // of ZeRO
  const auto divisors = [](int of) {
    std::vector<int> all;
    for (int each = 1; each <= of; ++each) {
      if (of % each == 0) all.push_back(each);
    }
    return all;
  };
  const auto with_sizes = [&](JobOptions options) {
    for (int choice = 0; choice < 4 * levels; ++choice) {
      options.job.zero_level = choice / 4;
      if (options.job.by_counts && options.job.zero_level != 1) continue;
      options.job.sequence_parallel = choice / 2 % 2 == 1;
      options.job.recompute = {choice % 2 == 1 ? all_layers : 0};
      const bool shards = options.job.zero_level > 0,
                 within = *options.dp * options.cp * options.tp <= options.job.ranks_per_host;
      if (shards && *options.dp * options.cp == 1) continue;
      if (options.replicas > 1 && !(shards && within)) continue;
      if (options.job.sequence_parallel && options.tp == 1) continue;
      for (const char* schedule : {"1f1b", "zb-h1"}) {
        options.job.schedule = schedule;
        f(options);
        if (options.pp == 1) break;
      }
    }
  };
  JobOptions options = given;
  for (const int pp : divisors(ranks)) {
    for (const int tp : divisors(ranks / pp)) {
      for (const int cp : divisors(ranks / pp / tp)) {
        if (cp > job.model.context) break;
        for (const int replicas : divisors(ranks / pp / tp / cp)) {
          options.pp = pp;
          options.tp = tp;
          options.cp = cp;
          options.replicas = replicas;
          options.dp = ranks / pp / tp / cp / replicas;
          const bool one_sequence = sw::Index{2} * pp * replicas * *options.dp > *given.batch;
          if (cp == 1 || one_sequence) with_sizes(options);
        }
      }
    }
  }
}

/// Plans the whole steps of the best plans, until as many fit as are shown.
void plan_whole_steps(PlanSearch& search, sw::Index memory, const sw::Speeds& speeds) {
  const auto faster = [](const Found& a, const Found& b) { return a.seconds < b.seconds; };
  std::stable_sort(search.found.begin(), search.found.end(), faster);
  std::size_t checked = 0;
  while (checked < std::min<std::size_t>(10, search.found.size())) {
    Found& each = search.found[checked];
    const StepJob job = job_of(each.options, 1);
    each.seconds = price_of(job, slowest(each.options), speeds, &each.bytes);
    if (each.bytes > memory) {
      search.too_large.push_back(each);
      search.found.erase(search.found.begin() + static_cast<std::ptrdiff_t>(checked));
    } else {
      ++checked;
    }
  }
  std::stable_sort(search.found.begin(), search.found.begin() + static_cast<std::ptrdiff_t>(checked), faster);
}

/// Puts the smallest of the plans that do not fit first. The bytes of those that were not planned are bounds.
void find_smallest(PlanSearch& search, Prices& prices) {
  std::vector<Found>& plans = search.too_large;
  const auto smaller = [](const Found& a, const Found& b) { return a.bytes < b.bytes; };
  std::sort(plans.begin(), plans.end(), smaller);
  while (!plans.empty() && plans.front().seconds == 0) {
    Found& first = plans.front();
    try {
      sw::Index of_model = 0;
      first = estimate(first.options, prices, of_model);
      std::sort(plans.begin(), plans.end(), smaller);
    } catch (const std::invalid_argument& error) {
      ++search.impossible[error.what()];
      plans.erase(plans.begin());
    }
  }
}

}  // namespace

PlanSearch search_plans(const JobOptions& given, int ranks, sw::Index memory, const sw::Speeds& speeds) {
  if (!given.batch) throw std::invalid_argument("--search needs --batch, the sequences of a step");
  PlanSearch search;
  int plans = 0;
  each_plan(given, ranks, [&](const JobOptions&) { ++plans; });
  SearchProgress progress(plans);
  Prices prices(speeds, progress);
  each_plan(given, ranks, [&](const JobOptions& options) {
    progress.begin_plan(search.found.size());
    try {
      if (const int parts = *options.dp * options.replicas * options.pp; parts > *given.batch)
        throw std::invalid_argument("a batch of " + std::to_string(*given.batch) +
                                    " sequences cannot be divided into " + std::to_string(parts) + " parts");
      try_plan(options, memory, prices, search);
    } catch (const std::invalid_argument& error) {
      ++search.impossible[error.what()];
    }
  });
  plan_whole_steps(search, memory, speeds);
  find_smallest(search, prices);
  return search;
}

}  // namespace tools
