// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The picture of a pipeline schedule.

#include <algorithm>
#include <cmath>
#include <string>

#include <shardwise/schedule/messages.hpp>

namespace shardwise {

namespace detail {

/// A number in an SVG: at most two digits after the point.
inline std::string svg_number(double value) {
  const long long hundredths = std::llround(value * 100);
  std::string text = std::to_string(hundredths / 100);
  if (hundredths % 100 != 0)
    text += hundredths % 10 == 0 ? "." + std::to_string(hundredths % 100 / 10)
                                 : (hundredths % 100 < 10 ? ".0" : ".") + std::to_string(hundredths % 100);
  return text;
}

class SchedulePicture {
 public:
  SchedulePicture(const PipelineSchedule& schedule, const Costs& costs)
      : schedule_(schedule),
        costs_(costs),
        proof_(prove(schedule, costs)),
        timeline_(Walk(schedule, costs).run(true)) {
    double smallest = 0;
    for (double cost : {costs.forward, costs.backward_input, costs.backward_weight}) {
      if (cost > 0 && (smallest == 0 || cost < smallest)) smallest = cost;
    }
    scale_ = smallest > 0 ? 18 / smallest : 0;
  }

  std::string svg() {
    const double right = left + proof_.time * scale_;
    const double bottom = schedule_.ranks() * row;
    const std::string size[] = {svg_number(std::max(right, 560.0) + 1), svg_number(bottom + 2 * row - 6)};
    add({"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 -1 ", size[0], " ", size[1], "\" width=\"",
         size[0], "\" height=\"", size[1], "\">\n"});
    svg_ += style;
    double idle = 0;
    for (double each : proof_.idle) idle += each;
    const double share = proof_.time > 0 ? 100 * idle / (proof_.time * schedule_.ranks()) : 0;
    const std::string words =
        text({schedule_.ranks(), " ranks, ", schedule_.stages(), " stages, ", schedule_.micro_batches,
              " micro-batches: time ", svg_number(proof_.time), ", idle ", svg_number(share), " %"});
    add({"<title>", words, "</title>\n"});
    for (int rank = 0; rank < schedule_.ranks(); ++rank) draw_rank(rank);
    draw_legend(bottom + 4, words);
    return std::move(svg_) + "</svg>\n";
  }

 private:
  void add(std::initializer_list<TextPart> parts) { svg_ += text(parts); }
  void box(const char* kind, double x, double y, double width, double height) {
    add({"<rect class=\"", kind, "\" x=\"", svg_number(x), "\" y=\"", svg_number(y), "\" width=\"",
         svg_number(width), "\" height=\"", svg_number(height), "\"/>"});
  }

  void draw_rank(int rank) {
    const double top = rank * row;
    add({"<text y=\"", svg_number(top + 15), "\">rank ", rank, "</text>"});
    box("idle", left, top, proof_.time * scale_, row - 3);
    svg_ += "<g>\n";
    const std::vector<Action>& actions = at(schedule_.actions, rank);
    std::size_t computations = 0;
    for (const Action& action : actions) {
      if (is_message(action.work)) continue;
      const double x = left + at(timeline_.each_begin, rank)[computations++] * scale_;
      const double width = costs_.of(action.work) * scale_;
      if (width <= 0) continue;
      int chunk = 0;  // the how many of the rank's stages it is
      for (int stage = 0; stage < action.stage; ++stage) chunk += at(schedule_.rank_of_stage, stage) == rank;
      const std::string kind = std::string(name_of(action.work)) + (chunk % 2 == 0 ? "" : " odd");
      box(kind.c_str(), x, top, width, row - 3);
      add({"<text x=\"", svg_number(x + width / 2), "\" y=\"", svg_number(top + 15), "\">",
           action.micro_batch, "</text>\n"});
    }
    svg_ += "</g>\n";
  }

  void draw_legend(double top, const std::string& words) {
    constexpr struct {
      const char* kind;
      const char* name;
      double width;
    } entries[] = {{"F", "forward", 75},
                   {"B", "backward", 85},
                   {"I", "backward of inputs", 135},
                   {"W", "backward of weights", 150},
                   {"idle", "idle", 0}};
    double x = left;
    for (const auto& [kind, name, width] : entries) {
      if (svg_.find(text({"\"", kind, "\""})) == std::string::npos) continue;  // there is none
      box(kind, x, top, 12, 12);
      add({"<text x=\"", svg_number(x + 16), "\" y=\"", svg_number(top + 10), "\">", name, "</text>\n"});
      x += width;
    }
    add({"<text x=\"", svg_number(left), "\" y=\"", svg_number(top + 10 + row), "\">", words, "</text>\n"});
  }

  static constexpr double left = 48, row = 24;
  static constexpr const char* style =
      "<style>text{font:12px sans-serif;fill:#24292f}g text{fill:#111;text-anchor:middle}g rect{stroke:#fff}"
      ".idle{fill:#dde1e6}.F{fill:#a8d0ff}.F.odd{fill:#5fa5f0}.B{fill:#9be09a}.B.odd{fill:#55b554}"
      ".I{fill:#8fe0d2}.I.odd{fill:#45b8a5}.W{fill:#ffcf90}.W.odd{fill:#f5a03c}"
      "@media(prefers-color-scheme:dark){text{fill:#e6edf3}g "
      "rect{stroke:#0d1117}.idle{fill:#30363d}}</style>\n";

  const PipelineSchedule& schedule_;
  const Costs costs_;
  const ScheduleProof proof_;
  const Timeline timeline_;
  double scale_ = 0;
  std::string svg_{};
};

}  // namespace detail

/// An SVG with a row for each rank, time to the right, and a box for each computation, whose number is its micro-batch. Darker
/// boxes are those of every other stage of a rank. It reads well on light and on dark pages. Throws `std::invalid_argument`, with the words
/// of the problem, if the schedule is not proved.
inline std::string draw(const PipelineSchedule& schedule, const Costs& costs = {}) {
  const PipelineSchedule proved = with_messages(schedule);
  return detail::SchedulePicture(proved, costs).svg();
}

}  // namespace shardwise
