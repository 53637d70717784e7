// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Traces of schedules, and pages.

#include <doctest/doctest.h>

#include <map>

#include <shardwise/inspect/trace_file.hpp>
#include <shardwise/schedule/by_costs.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>

#include <support/pages.hpp>

namespace shardwise {
namespace {

using Json = nlohmann::json;

TEST_CASE("pages of schedules") {
  const Costs unlike{.forward = 2, .backward_input = 3, .backward_weight = 2, .message = 1};
  testing::write_page("gpipe", trace_file(gpipe(4, 8)));
  testing::write_page("one-forward-one-backward", trace_file(one_forward_one_backward(4, 8)));
  testing::write_page("interleaved", trace_file(interleaved(4, 2, 8)));
  testing::write_page("zb-h1", trace_file(zb_h1(4, 8)));
  testing::write_page("zb-v", trace_file(zb_v(4, 8)));
  testing::write_page("zb-v-unlike-costs", trace_file(zb_v(4, 8), unlike));
  testing::write_page("by-costs", trace_file(by_costs(zb_v(4, 8).rank_of_stage, 8, unlike), unlike));
  testing::write_page("dualpipe-v", trace_file(dualpipe_v(4, 8)));
}

TEST_CASE("the trace of a schedule has each computation, with its time") {
  const Costs costs{.forward = 1, .backward_input = 0.5};
  const std::string text = trace_file(with_messages(one_forward_one_backward(2, 2)), costs);
  CHECK(text == trace_file(one_forward_one_backward(2, 2), costs));
  const Json trace = Json::parse(text);
  CHECK(trace.at("otherData").at("times") == "costs");
  std::map<int, std::string> names;
  std::map<int, std::vector<std::string>> boxes;
  for (const Json& entry : trace.at("traceEvents")) {
    const int process = entry.at("pid");
    const Json& args = entry.at("args");
    if (entry.at("name") == "process_name") names[process] = args.at("name");
    if (entry.at("ph") != "X") continue;
    CHECK(args.at("unit") == "stage " + std::to_string(process));
    CHECK(entry.at("name") == std::to_string(args.at("micro_batch").get<int>()));
    boxes[process].push_back(
        detail::text({args.at("phase").get<std::string>(), " ", args.at("micro_batch").get<int>(), " at ",
                      entry.at("ts").get<double>() * 1e-6, " for ", entry.at("dur").get<double>() * 1e-6}));
  }
  CHECK(names == std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}});
  // Rank 1 begins a forward later. A micro-batch takes 1 and 1.5.
  CHECK(boxes[0] == std::vector<std::string>{"forward 0 at 0 for 1", "forward 1 at 1 for 1",
                                             "backward 0 at 3.5 for 1.5", "backward 1 at 6 for 1.5"});
  CHECK(boxes[1] == std::vector<std::string>{"forward 0 at 1 for 1", "backward 0 at 2 for 1.5",
                                             "forward 1 at 3.5 for 1", "backward 1 at 4.5 for 1.5"});
}

TEST_CASE("a computation without a cost is an instant") {
  const Json trace = Json::parse(trace_file(zb_v(2, 3), {.backward_weight = 0}));
  std::map<std::string, std::map<std::string, int>> counts;
  for (const Json& entry : trace.at("traceEvents")) {
    if (entry.at("ph") != "M") ++counts[entry.at("args").at("phase")][entry.at("ph")];
  }
  CHECK(counts == std::map<std::string, std::map<std::string, int>>{{"forward", {{"X", 12}}},
                                                                    {"backward of inputs", {{"X", 12}}},
                                                                    {"backward of weights", {{"i", 12}}}});
}

TEST_CASE("schedules that are not proved, and costs below 0, have no trace") {
  PipelineSchedule schedule = gpipe(2, 2);
  schedule.actions[1].pop_back();
  CHECK_THROWS_WITH_AS(trace_file(schedule), "pipeline schedule: rank 1: 1B1 is missing",
                       std::invalid_argument);
  CHECK_THROWS_AS(trace_file(gpipe(2, 2), {.forward = -1}), std::invalid_argument);
}

TEST_CASE("a name that ends a script does not end the page's trace") {
  const std::string name = "a </script><script>throw 1</script> <!-- \"b\" \\u003c";
  const std::string text = page(trace_file({}, {{"a"}}, name));
  CHECK(testing::trace_in(text).at("traceEvents").at(0).at("args").at("name") == name);
  CHECK(text.find("throw 1</") == std::string::npos);
  // For the browser also: two that overlap, and one without a length.
  const Event sent{
      .kind = Collective::all_gather, .axes = 1, .background = true, .unit = 0, .amount = 8, .end = 1};
  Event other = sent, at_once = sent;
  other.number = 1, other.begin = 0.5, other.end = 1.5;
  at_once.background = false, at_once.begin = at_once.end = 1.5;
  testing::write_page("names", trace_file({sent, other, at_once}, {{"<b>a</b>"}, {"<i>unit</i>"}}, name));
}

}  // namespace
}  // namespace shardwise
