// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pictures of pipeline schedules.

#include <shardwise/layout/svg.hpp>
#include <shardwise/schedule/messages.hpp>

namespace shardwise {

namespace detail {

class SchedulePicture {
 public:
  SchedulePicture(const PipelineSchedule& schedule, const Costs& costs)
      : schedule_(schedule),
        costs_(costs),
        proof_(prove(schedule, costs)),
        timeline_(Walk(schedule, costs).run(true)) {
    double smallest = 0;  // of the three costs, each a mean over the stages
    for (const Work work : {Work::forward, Work::backward_input, Work::backward_weight}) {
      double mean = 0;
      for (int stage = 0; stage < schedule.stages(); ++stage)
        mean += costs.of({work, stage, 0}) / schedule.stages();
      if (mean > 0 && (smallest == 0 || mean < smallest)) smallest = mean;
    }
    scale_ = smallest > 0 ? 18 / smallest : 0;
  }

  std::string svg() {
    const double right = left + proof_.time * scale_;
    const double bottom = schedule_.ranks() * row;
    double idle = 0;
    for (double each : proof_.idle) idle += each;
    const double share = proof_.time > 0 ? 100 * idle / (proof_.time * schedule_.ranks()) : 0;
    const std::string words =
        text({schedule_.ranks(), " ranks, ", schedule_.stages(), " stages, ", schedule_.micro_batches,
              " micro-batches: time ", svg_number(proof_.time), ", idle ", svg_number(share), " %"});
    for (int rank = 0; rank < schedule_.ranks(); ++rank) draw_rank(rank);
    draw_legend(bottom + 4, words);
    return svg_.page(std::max(right, 560.0) + 1, bottom + 2 * row - 6, words);
  }

 private:
  void draw_rank(int rank) {
    const double top = rank * row;
    svg_.add({"<text y=\"", svg_number(top + 15), "\">rank ", rank, "</text>"});
    svg_.box("idle", left, top, proof_.time * scale_, row - 3);
    svg_.add({"<g>\n"});
    const std::vector<Action>& actions = at(schedule_.actions, rank);
    std::size_t computations = 0;
    for (const Action& action : actions) {
      if (is_message(action.work)) continue;
      const double x = left + at(timeline_.each_begin, rank)[computations++] * scale_;
      const double width = costs_.of(action) * scale_;
      if (width <= 0) continue;
      int chunk = 0;  // its number among the rank's stages
      for (int stage = 0; stage < action.stage; ++stage) chunk += at(schedule_.rank_of_stage, stage) == rank;
      const std::string kind = std::string(name_of(action.work)) + (chunk % 2 == 0 ? "" : " odd");
      svg_.box(kind, x, top, width, row - 3);
      svg_.words(x + width / 2, top + 15, std::to_string(action.micro_batch));
    }
    svg_.add({"</g>\n"});
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
    for (const auto& [kind, name, width] : entries) x = svg_.legend(kind, x, top, name, width);
    svg_.words(left, top + 10 + row, words);
  }

  static constexpr double left = 48, row = 24;

  const PipelineSchedule& schedule_;
  const Costs costs_;
  const ScheduleProof proof_;
  const Timeline timeline_;
  double scale_ = 0;
  Svg svg_{};
};

}  // namespace detail

/// An SVG with a row for each rank, time to the right, and a box for each computation, labelled with its
/// micro-batch; every other stage of a rank is darker. Suits light and dark pages. Throws `std::invalid_argument`,
/// with the problem, if the schedule cannot be proved.
inline std::string draw(const PipelineSchedule& schedule, const Costs& costs = {}) {
  const PipelineSchedule proved = with_messages(schedule);
  return detail::SchedulePicture(proved, costs).svg();
}

}  // namespace shardwise
