// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Traces of steps and of pipeline schedules, as JSON in the trace event format ("Trace Event Format", Google): for
/// ui.perfetto.dev and chrome://tracing, and for `page` (inspect/page.hpp).
///
/// ```
/// EventLog log(clock_seconds);
/// Recording recording(mesh, &log);
/// … a training step …
/// const std::string trace = trace_of_all_ranks(world(), log.events(), names);   // rank 0 writes it to a file
/// ```

#include <shardwise/comm/communicator.hpp>
#include <shardwise/inspect/speeds.hpp>
#include <shardwise/schedule/messages.hpp>

namespace shardwise {

namespace detail {

inline std::string json_text(std::string_view words) {
  std::string all = "\"";
  for (const char letter : words) {
    if (static_cast<unsigned char>(letter) < 0x20) continue;
    if (letter == '"' || letter == '\\') all += '\\';
    all += letter;
  }
  return all + '"';
}

/// The entries of one process, each followed by a comma. `zero`: the time that becomes 0 in the trace. `planned`: it is
/// the plan of a rank that has a process of its own, too.
class TraceEntries {
 public:
  TraceEntries(int process, double zero, const std::string& name, int rank, bool planned = false)
      : process_(process), zero_(zero) {
    add("M", "process_name", 0,
        {R"("args":{"name":)", json_text(name), R"(,"rank":)", rank, R"(,"planned":)",
         planned ? "true" : "false", "}"});
    add("M", "process_sort_index", 0, {R"("args":{"sort_index":)", 2 * rank + (planned ? 1 : 0), "}"});
  }

  std::string of(const std::vector<Event>& events, const StepNames& names, const EventLog* log) {
    add_thread(1, "units");
    add_thread(0, "computes");
    const std::vector<double> times = arrivals(events);
    const Event* before = nullptr;
    for (const Event& event : events) {
      const std::string kind = event.kind == Collective::send ? "message" : name_of(event.kind);
      const std::string over = names.of_axes(event.axes);
      std::string what = before == nullptr ? "begin" : event.operation ? event.operation : "compute";
      std::string args = text(
          {R"("unit":)", json_text(names.of_unit(event.unit)), R"(,"phase":")", name_of(event.phase), "\""});
      if (event.computes()) {
        args += text({R"(,"flops":)", event.amount, R"(,"bytes_read_and_written":)", event.moved});
      } else {
        what = text({event.waits ? "wait for " : "", kind, " over ", over});
        args += text({R"(,"kind":")", name_of(event.kind), R"(","axes":)", json_text(over), R"(,"bytes":)",
                      event.amount, R"(,"bytes_to_other_hosts":)", event.across,
                      event.waits ? R"(,"waits":true)" : ""});
      }
      std::string modules;
      const auto add_part = [&](const ModulePart& part) {
        if (part.module < 0) return;
        modules += text({modules.empty() ? R"(,"modules":{)" : ",", json_text(log->module_name(part.module)),
                         ":", part.amount});
      };
      if (log) log->for_each_part(event, add_part);
      if (!modules.empty()) args += modules + "}";
      if (event.background) {  // these overlap
        const std::string id =
            text({R"("cat":"communication","id":")", process_, ".", event.number, R"(",)"});
        add("b", what, 0, {id, at(event.begin), R"("args":{)", args, "}"});
        add("e", what, 0, {id, at(event.end), R"("args":{})"});
      } else {
        add_span(what, 0, event.begin, event.end, args);
      }
      if (before == nullptr || before->memory != event.memory) {
        std::string bytes;
        for (int use = 0; use < memory_uses; ++use) {
          bytes += text(
              {use == 0 ? "" : ",", json_text(name_of(static_cast<MemoryUse>(use))), ":", event.memory[use]});
        }
        const double time = times[static_cast<std::size_t>(&event - events.data())];
        add("C", "memory", 0, {at(time), R"("args":{)", bytes, "}"});
      }
      before = &event;
    }
    for (const UnitSpan& each : unit_spans(events)) {
      const std::string unit = names.of_unit(each.unit);
      const std::string args =
          text({R"("unit":)", json_text(unit), R"(,"phase":")", name_of(each.phase), "\""});
      add_span(unit, 1, each.begin, each.end, args);
    }
    return std::move(all_);
  }
  /// A pipeline's rank: `begins` are the times of its computations.
  std::string of(const std::vector<Action>& actions, const std::vector<double>& begins, const Costs& costs) {
    constexpr const char* phases[] = {"forward", "backward", "backward of inputs", "backward of weights"};
    add_thread(0, "computes");
    auto begin = begins.begin();
    for (const Action& action : actions) {
      if (is_message(action.work)) continue;
      const std::string args =
          text({R"("phase":")", phases[static_cast<int>(action.work)], R"(","unit":"stage )", action.stage,
                R"(","micro_batch":)", action.micro_batch});
      add_span(std::to_string(action.micro_batch), 0, *begin, *begin + costs.of(action), args);
      ++begin;
    }
    return std::move(all_);
  }

 private:
  void add(const char* kind, std::string_view name, int thread, std::initializer_list<TextPart> rest) {
    all_ += text({R"({"ph":")", kind, R"(","name":)", json_text(name), R"(,"pid":)", process_, R"(,"tid":)",
                  thread, ","}) +
            text(rest) + "},\n";
  }
  void add_thread(int thread, const char* name) {
    add("M", "thread_name", thread, {R"("args":{"name":")", name, R"("})"});
  }
  /// A span of length 0 becomes an instant, because viewers confuse its beginning and end.
  void add_span(std::string_view name, int thread, double begin, double end, std::string_view args) {
    const long long lasts = eighths(end) - eighths(begin);
    if (lasts > 0) {
      add("X", name, thread, {at(begin), microseconds("dur", lasts), R"("args":{)", args, "}"});
    } else {
      add("i", name, thread, {at(begin), R"("s":"t","args":{)", args, "}"});
    }
  }
  /// Eighths of a microsecond: sums of such times are exact, also in nanoseconds. Viewers add beginning and length,
  /// and nest a span that begins before another one ends.
  long long eighths(double seconds) const { return std::llround((seconds - zero_) * 8e6); }
  static std::string microseconds(const char* what, long long eighths) {
    return text({"\"", what, "\":", fixed_text(static_cast<double>(eighths) / 8, 3), ","});
  }
  std::string at(double seconds) const { return microseconds("ts", eighths(seconds)); }

  int process_;
  double zero_;
  std::string all_{};
};

inline std::string trace_of(std::string_view entries, std::string_view about, const char* times = "seconds") {
  entries.remove_suffix(std::min<std::size_t>(2, entries.size()));
  std::string lines;
  while (!about.empty()) {
    const std::string_view line = about.substr(0, about.find('\n'));
    lines += (lines.empty() ? "" : ",") + json_text(line);
    about.remove_prefix(std::min(line.size() + 1, about.size()));
  }
  return text({R"({"displayTimeUnit":"ms","otherData":{"times":")", times, R"(","about":[)", lines,
               R"(]},"traceEvents":[)", "\n", entries, "\n]}\n"});
}

}  // namespace detail

/// A trace of one log with times. `about`: lines of text on what it shows; the first is the title of a `page`.
inline std::string trace_file(const std::vector<Event>& events, const StepNames& names,
                              const std::string& process, const std::string& about = {}) {
  const double zero = events.empty() ? 0 : events.front().begin;
  return detail::trace_of(detail::TraceEntries(0, zero, process, 0).of(events, names, names.modules), about);
}

/// A trace of a pipeline schedule: each rank is a process, and a second is a unit of the costs. With `seconds` the
/// costs are seconds. Throws `std::invalid_argument`, with the problem, if the schedule cannot be proved or a cost is
/// not finite.
inline std::string trace_file(const PipelineSchedule& schedule, const Costs& costs = {},
                              const std::string& about = {}, bool seconds = false) {
  detail::check_costs("trace_file", costs, schedule.stages());
  const PipelineSchedule proved = with_messages(schedule);
  const detail::Timeline timeline = detail::Walk(proved, costs).run(true);
  std::string all;
  for (int rank = 0; rank < proved.ranks(); ++rank) {
    all += detail::TraceEntries(rank, 0, "rank " + std::to_string(rank), rank)
               .of(detail::at(proved.actions, rank), detail::at(timeline.each_begin, rank), costs);
  }
  return detail::trace_of(all, about, seconds ? "seconds" : "costs");
}

/// A trace of all ranks' logs, recorded with `clock_seconds`: each rank is a process with its number, and so is its
/// plan, if any (events from `with_times`), with the number of ranks + rank. Collective; the same on every rank. Clocks
/// of different hosts are aligned at a barrier, so their times are as accurate as the ranks leave it simultaneously.
inline std::string trace_of_all_ranks(const Communicator& ranks, const std::vector<Event>& recorded,
                                      const StepNames& names, const std::vector<Event>& planned = {},
                                      const std::string& plan_name = "plan", const std::string& about = {}) {
  if (recorded.empty()) throw std::invalid_argument("trace_of_all_ranks: nothing was logged");
  ranks.barrier();
  const auto nanoseconds = [](double seconds) { return static_cast<Index>(std::llround(seconds * 1e9)); };
  const Index mine[] = {nanoseconds(clock_seconds()), nanoseconds(recorded.front().begin)};
  const std::vector<Index> all = ranks.all_gather(mine);
  // The time of the barrier on the clock of a host, and how long before it the first event began.
  const auto barrier_of = [&](int rank) {
    int same = 0;
    while (ranks.hosts().of(same) != ranks.hosts().of(rank)) ++same;
    return all[static_cast<std::size_t>(2 * same)];
  };
  Index before = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    before = std::max(before, barrier_of(rank) - all[static_cast<std::size_t>(2 * rank + 1)]);
  }
  const int rank = ranks.rank();
  const double zero = 1e-9 * static_cast<double>(barrier_of(rank) - before);
  const std::string number = std::to_string(rank);
  std::string text =
      detail::TraceEntries(rank, zero, "rank " + number, rank).of(recorded, names, names.modules);
  if (!planned.empty()) {
    const double shift = planned.front().begin - (recorded.front().begin - zero);
    text += detail::TraceEntries(ranks.size() + rank, shift, plan_name + ", rank " + number, rank, true)
                .of(planned, names, names.planned_modules);
  }
  return detail::trace_of(detail::gather_texts(ranks, text), about);
}

}  // namespace shardwise
