// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Pictures of schedules; those in the documentation are what the code draws.

#include <doctest/doctest.h>

#include <shardwise/schedule/by_costs.hpp>
#include <shardwise/schedule/draw.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>

#include <support/pictures.hpp>

namespace shardwise {
namespace {

using testing::count;

TEST_CASE("pictures of the documentation") {
  const Costs unlike{.forward = 2, .backward_input = 3, .backward_weight = 2, .message = 1};
  const struct {
    const char* name;
    std::string svg;
  } pictures[] = {
      {"gpipe", draw(gpipe(4, 8))},
      {"one-forward-one-backward", draw(one_forward_one_backward(4, 8))},
      {"interleaved", draw(interleaved(4, 2, 8))},
      {"zb-h1", draw(zb_h1(4, 8))},
      {"zb-v", draw(zb_v(4, 8))},
      {"zb-v-unlike-costs", draw(zb_v(4, 8), unlike)},
      {"by-costs", draw(by_costs(zb_v(4, 8).rank_of_stage, 8, unlike), unlike)},
      {"dualpipe-v", draw(dualpipe_v(4, 8))},
  };
  for (const auto& [name, svg] : pictures) testing::check_picture(name, svg);
}

TEST_CASE("a box for each computation, where it is in time") {
  const std::string svg =
      draw(with_messages(one_forward_one_backward(2, 2)), {.forward = 1, .backward_input = 0.5});
  CHECK(svg == draw(one_forward_one_backward(2, 2), {.forward = 1, .backward_input = 0.5}));
  // 36 for a unit of time, as the shortest part takes 18. Rank 1 begins a forward later; the two ranks have 3 and 1.5 a
  // micro-batch, and wait 2.5.
  CHECK(svg.find("2 ranks, 2 stages, 2 micro-batches: time 7.5, idle 33.33 %") != std::string::npos);
  CHECK(count(svg, "<rect class=\"F\"") == 4 + 1);  // and one in the legend
  CHECK(count(svg, "<rect class=\"B\"") == 4 + 1);
  CHECK(count(svg, "<rect class=\"idle\"") == 2 + 1);
  CHECK(count(svg, "<rect class=\"I\"") == 0);
  CHECK(svg.find("<rect class=\"F\" x=\"84\" y=\"24\" width=\"36\" height=\"21\"/>") != std::string::npos);
  CHECK(svg.find("<rect class=\"B\" x=\"120\" y=\"24\" width=\"54\" height=\"21\"/>") != std::string::npos);
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("every other stage of a rank is darker, and what takes no time is not drawn") {
  const std::string svg = draw(zb_v(2, 3), {.backward_weight = 0});
  CHECK(count(svg, "<rect class=\"F\"") == 2 * 3 + 1);
  CHECK(count(svg, "<rect class=\"F odd\"") == 2 * 3);
  CHECK(count(svg, "class=\"W") == 0);
}

TEST_CASE("a schedule that is not proved is not drawn") {
  PipelineSchedule schedule = gpipe(2, 2);
  schedule.actions[1].pop_back();
  CHECK_THROWS_WITH_AS(draw(schedule), "pipeline schedule: rank 1: 1B1 is missing", std::invalid_argument);
}

}  // namespace
}  // namespace shardwise
