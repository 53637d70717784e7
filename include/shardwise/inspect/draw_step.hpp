// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pictures of a step on one rank: computation and communication over time, and the memory in use.

#include <shardwise/inspect/speeds.hpp>
#include <shardwise/layout/svg.hpp>

namespace shardwise {

namespace detail {

class StepPicture {
 public:
  StepPicture(const std::vector<Event>& events, const StepNames& names) : events_(events), names_(names) {
    first_ = events.empty() ? 0 : events.front().begin;
    for (const Event& event : events) last_ = std::max(last_, event.end - first_);
    scale_ = last_ > 0 ? width / last_ : 0;
  }

  std::string svg(const std::string& times) {
    double y = 4;
    units(y);
    y += row;
    lane(y, "computes",
         [](const Event& event) { return event.computes() ? kind_of(event.phase) : std::string(); });
    for (AxisSet axes = 1; axes < 1u << max_axes; ++axes) {
      const auto along = [axes](const Event& event) {
        const bool sent = event.axes == axes && !event.waits;
        return sent ? text({"C", static_cast<int>(event.kind)}) : std::string();
      };
      if (std::none_of(events_.begin(), events_.end(), [&](const Event& e) { return !along(e).empty(); }))
        continue;
      lane(y += row, "over " + names_.of_axes(axes), along);
    }
    memory(y += row + 6);
    legend(y += height + 10);
    const std::string words = summary(times);
    svg_.words(left, y + 2 * row + 12, words);
    return svg_.page(left + width + 1, y + 3 * row, words, style);
  }

 private:
  static std::string kind_of(Phase phase) { return std::string(1, "FBW"[static_cast<int>(phase)]); }
  double x_of(double time) const { return left + (time - first_) * scale_; }

  /// Adjacent boxes of one kind are merged.
  template <class KindOf>
  void lane(double y, const std::string& name, KindOf kind_of_event) {
    svg_.words(0, y + 15, name);
    svg_.box("idle", left, y, width, row - 4);
    std::string kind;
    double begin = 0, end = 0;
    const auto draw_box = [&] {
      if (!kind.empty()) svg_.box(kind, begin, y, std::max(end - begin, 0.3), row - 4);
    };
    for (const Event& event : events_) {
      const std::string next = kind_of_event(event);
      if (next.empty() || event.end <= event.begin) continue;
      if (next != kind || x_of(event.begin) > end + 0.2) {
        draw_box();
        kind = next;
        begin = end = x_of(event.begin);
      }
      end = std::max(end, x_of(event.end));
    }
    draw_box();
    svg_.add({"\n"});
  }
  /// A box from the first to the last of consecutive events of a unit.
  void units(double y) {
    svg_.words(0, y + 15, "works on");
    svg_.add({"<g>\n"});
    for (const UnitSpan& each : unit_spans(events_)) {
      const double x = x_of(each.begin), wide = x_of(each.end) - x;
      svg_.box(kind_of(each.phase) + (each.unit % 2 == 0 ? "" : " odd"), x, y, wide, row - 4);
      const std::string name = names_.of_unit(each.unit);
      if (wide > 6.5 * static_cast<double>(name.size())) svg_.words(x + wide / 2, y + 15, name);
    }
    svg_.add({"</g>\n"});
  }
  /// Stacks the uses of memory, starting with those that change least.
  void memory(double y) {
    std::int64_t most = 1;
    for (const Event& event : events_) most = std::max(most, event.all_memory());
    svg_.words(0, y + 12, "memory");
    svg_.words(0, y + 28, bytes_text(most));
    svg_.box("idle", left, y, width, height);
    const std::vector<double> times = arrivals(events_);
    std::vector<std::size_t> shown;  // in each fraction of a pixel, the event with the most memory in use
    std::vector<double> x;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (shown.empty() || x_of(times[i]) > x.back() + 0.5) {
        shown.push_back(i);
        x.push_back(x_of(times[i]));
      } else if (events_[i].all_memory() > events_[shown.back()].all_memory()) {
        shown.back() = i;
      }
    }
    x.push_back(left + width);
    std::vector<double> below(shown.size(), 0);
    for (const MemoryUse use : uses) {
      std::string points, back;
      for (std::size_t i = 0; i < shown.size(); ++i) {
        const auto bytes = static_cast<double>(events_[shown[i]].memory[static_cast<int>(use)]);
        const auto corner = [&](double along, double above) {
          return svg_number(along) + "," + svg_number(y + height - above) + " ";
        };
        back = corner(x[i + 1], below[i]) + corner(x[i], below[i]) + back;
        below[i] += height * bytes / static_cast<double>(most);
        points += corner(x[i], below[i]) + corner(x[i + 1], below[i]);
      }
      svg_.add({"<polygon class=\"M", static_cast<int>(use), "\" points=\"", points, back, "\"/>\n"});
    }
  }
  void legend(double y) {
    double x = left;
    for (const auto phase : {Phase::forward, Phase::backward, Phase::optimizer}) {
      x = svg_.legend(kind_of(phase), x, y, name_of(phase), 90);
    }
    for (int kind = 1; kind < collective_kinds; ++kind) {
      x = svg_.legend(text({"C", kind}), x, y, name_of(static_cast<Collective>(kind)), 115);
    }
    x = left;
    for (const MemoryUse use : uses) {
      x = svg_.legend(text({"M", static_cast<int>(use)}), x, y + row, name_of(use), 120);
    }
  }
  std::string summary(const std::string& times) const {
    double busy = 0;
    for (const Event& event : events_) busy += event.computes() ? event.end - event.begin : 0;
    const double share = last_ > 0 ? 100 * busy / last_ : 0;
    return scaled_text(last_ * 1e9, 1000, {"ns", "µs", "ms", "s"}) + ", of which it computes " +
           svg_number(share) + " %; times are " + times;
  }

  static constexpr MemoryUse uses[] = {MemoryUse::frozen,   MemoryUse::parameter, MemoryUse::optimizer_state,
                                       MemoryUse::gradient, MemoryUse::gathered,  MemoryUse::activation};
  static constexpr double left = 84, width = 880, row = 24, height = 120;
  static constexpr const char* style =
      ".C1{fill:#f59ab0}.C2{fill:#b9a5f0}.C3{fill:#6fb6c9}.C4{fill:#e3c04a}.C5{fill:#c98f6a}"
      ".M0{fill:#f5a03c}.M1{fill:#5fa5f0}.M2{fill:#55b554}.M3{fill:#8f7be0}.M4{fill:#d9778f}.M5{fill:#"
      "9aa5b1}";

  const std::vector<Event>& events_;
  const StepNames& names_;
  double first_ = 0, last_ = 0, scale_ = 0;
  Svg svg_{};
};

}  // namespace detail

/// An SVG of one rank's step, time to the right: the units, the computations, the communication on each axis, and
/// the memory in use. Suits light and dark pages. Times are those of the log's clock.
inline std::string draw(const std::vector<Event>& events, const StepNames& names) {
  return detail::StepPicture(events, names).svg("recorded");
}
/// The same with modelled times, as the picture states: for plans, which have no times.
inline std::string draw(const std::vector<Event>& events, const StepNames& names, const Speeds& speeds) {
  const std::vector<Event> timed = with_times(events, speeds);
  return detail::StepPicture(timed, names).svg("modelled: " + speeds_text(speeds));
}

}  // namespace shardwise
