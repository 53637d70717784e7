// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Traces for ui.perfetto.dev and chrome://tracing, in the trace event format ("Trace Event Format", Google), as JSON.
///
/// ```
/// EventLog log(clock_seconds);
/// Recording recording(mesh, &log);
/// … a training step …
/// const std::string trace = trace_of_all_ranks(world(), log.events(), names);   // rank 0 writes it to a file
/// ```

#include <shardwise/comm/communicator.hpp>
#include <shardwise/inspect/speeds.hpp>

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

/// The entries of one process, each followed by a comma. `zero`: the time that becomes 0 in the trace.
class TraceEntries {
 public:
  TraceEntries(int process, const StepNames& names, double zero)
      : process_(process), names_(names), zero_(zero) {}

  std::string of(const std::vector<Event>& events, const std::string& name, int place) {
    add("M", "process_name", 0, {R"("args":{"name":)", json_text(name), "}"});
    add("M", "process_sort_index", 0, {R"("args":{"sort_index":)", place, "}"});
    add("M", "thread_name", 0, {R"("args":{"name":"work"})"});
    add("M", "thread_name", 1, {R"("args":{"name":"units"})"});
    const std::vector<double> times = arrivals(events);
    for (const Event& event : events) {
      const std::string what = name_of_event(event, &event == &events.front());
      const std::string args = text(
          {R"("args":{"unit":)", json_text(names_.of_unit(event.unit)), R"(,"phase":")", name_of(event.phase),
           event.computes() ? R"(","flops":)" : R"(","bytes":)", event.amount, "}"});
      if (event.background) {  // these overlap
        const std::string id =
            text({R"("cat":"communication","id":")", process_, ".", event.number, R"(",)"});
        add("b", what, 0, {id, at(event.begin), args});
        add("e", what, 0, {id, at(event.end), R"("args":{})"});
      } else {
        add_span(what, 0, event.begin, event.end, args);
      }
      std::string bytes;
      for (int use = 0; use < memory_uses; ++use) {
        bytes += text(
            {use == 0 ? "" : ",", json_text(name_of(static_cast<MemoryUse>(use))), ":", event.memory[use]});
      }
      add("C", "memory", 0,
          {at(times[static_cast<std::size_t>(&event - events.data())]), R"("args":{)", bytes, "}"});
    }
    for (const UnitSpan& each : unit_spans(events)) {
      add_span(text({name_of(each.phase), " ", names_.of_unit(each.unit)}), 1, each.begin, each.end,
               R"("args":{})");
    }
    return std::move(all_);
  }

 private:
  void add(const char* kind, std::string_view name, int thread, std::initializer_list<TextPart> rest) {
    all_ += text({R"({"ph":")", kind, R"(","name":)", json_text(name), R"(,"pid":)", process_, R"(,"tid":)",
                  thread, ","}) +
            text(rest) + "},\n";
  }
  /// A span of length 0 becomes an instant, because viewers confuse its beginning and end.
  void add_span(std::string_view name, int thread, double begin, double end, std::string_view args) {
    const long long lasts = eighths(end) - eighths(begin);
    if (lasts > 0) {
      add("X", name, thread, {at(begin), microseconds("dur", lasts), args});
    } else {
      add("i", name, thread, {at(begin), R"("s":"t",)", args});
    }
  }
  std::string name_of_event(const Event& event, bool first) const {
    if (event.computes()) return first ? "begin" : "compute";
    const char* kind = event.kind == Collective::send ? "message" : name_of(event.kind);
    return text({event.waits ? "wait for " : "", kind, " over ", names_.of_axes(event.axes)});
  }
  /// Eighths of a microsecond: sums of such times are exact, also in nanoseconds. Viewers add beginning and length,
  /// and nest a span that begins before another one ends.
  long long eighths(double seconds) const { return std::llround((seconds - zero_) * 8e6); }
  static std::string microseconds(const char* what, long long eighths) {
    return text({"\"", what, "\":", fixed_text(static_cast<double>(eighths) / 8, 3), ","});
  }
  std::string at(double seconds) const { return microseconds("ts", eighths(seconds)); }

  int process_;
  const StepNames& names_;
  double zero_;
  std::string all_{};
};

inline std::string trace_of(std::string_view entries) {
  entries.remove_suffix(std::min<std::size_t>(2, entries.size()));
  return text({R"({"displayTimeUnit":"ms","traceEvents":[)", "\n", entries, "\n]}\n"});
}

}  // namespace detail

/// A trace of one log with times.
inline std::string trace_file(const std::vector<Event>& events, const StepNames& names,
                              const std::string& process) {
  const double zero = events.empty() ? 0 : events.front().begin;
  return detail::trace_of(detail::TraceEntries(0, names, zero).of(events, process, 0));
}

/// A trace of all ranks' logs, recorded with `clock_seconds`: each rank is a process with its number, and so is its
/// plan, if any (events from `with_times`), with the number of ranks + rank. Collective; the same on every rank. Clocks
/// of different hosts are aligned at a barrier, so their times are as accurate as the ranks leave it simultaneously.
inline std::string trace_of_all_ranks(const Communicator& ranks, const std::vector<Event>& recorded,
                                      const StepNames& names, const std::vector<Event>& planned = {},
                                      const std::string& plan_name = "plan") {
  if (recorded.empty()) throw std::invalid_argument("trace_of_all_ranks: nothing was logged");
  ranks.barrier();
  const auto nanoseconds = [](double seconds) { return static_cast<Index>(std::llround(seconds * 1e9)); };
  const Index mine[] = {nanoseconds(clock_seconds()), nanoseconds(recorded.front().begin)};
  const std::vector<Index> all = detail::gather(ranks, mine);
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
  std::string text = detail::TraceEntries(rank, names, zero).of(recorded, "rank " + number, 2 * rank);
  if (!planned.empty()) {
    const double shift = planned.front().begin - (recorded.front().begin - zero);
    text += detail::TraceEntries(ranks.size() + rank, names, shift)
                .of(planned, plan_name + ", rank " + number, 2 * rank + 1);
  }
  return detail::trace_of(detail::gather_texts(ranks, text));
}

}  // namespace shardwise
