// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A step written by hand against communicators, on 4 ranks; mistakes are planted into one rank's, each of a kind at each
/// of its calls. A simulation finds all, and tells the line.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/simulate/simulate.hpp>

#include <functional>
#include <string>
#include <vector>

namespace sw = shardwise;
using sw::Communicator;
using sw::DataType;
using sw::dp;
using sw::Index;
using sw::ReduceOp;
using sw::tp;

namespace {

enum class Kind {
  skipped,
  twice,
  other_count,
  other_type,
  other_reduction,
  other_axis,
  exchanged_with_next,
  never_waited_for,
  input_changed,
  read_too_early,
  other_rank,
  none
};

struct Bug {
  int call = -1;
  Kind kind = Kind::none;
};

constexpr int calls = 8, culprit = 1;
/// That of the first call in `step`, of which each has one of its own; and of the messages.
int first_line = 0, message_line = 0;

bool is_async(int call) { return call == 3 || call == 5; }
bool is_message(int call) { return call == 6; }
bool reduces(int call) { return call == 1 || call == 2 || call == 3 || call == 7; }

/// Whether a mistake of this kind can be made there.
bool possible(const Bug& bug) {
  switch (bug.kind) {
    case Kind::other_reduction:
      return reduces(bug.call);
    case Kind::never_waited_for:
    case Kind::input_changed:
    case Kind::read_too_early:
      return is_async(bug.call);
    case Kind::other_rank:
      return is_message(bug.call);
    case Kind::exchanged_with_next:
      return bug.call == 0 || bug.call == 3;  // other neighbours are of two axes: any order does
    case Kind::none:
      return false;
    default:
      return true;
  }
}

/// One rank's part; returns what it comes to.
float step(const Bug& planted) {
  const sw::Mesh<dp, tp> mesh(sw::world(), {2, 2});
  const Bug bug = sw::world().rank() == culprit ? planted : Bug();
  const auto is = [&](int call, Kind kind) { return bug.call == call && bug.kind == kind; };
  const auto n = [&](int call) { return Index{is(call, Kind::other_count) ? 3 : 4}; };
  const auto type = [&](int call) { return is(call, Kind::other_type) ? DataType::i32 : DataType::f32; };
  const auto op = [&](int call) { return is(call, Kind::other_reduction) ? ReduceOp::max : ReduceOp::sum; };
  const auto& tp_ranks = mesh.communicator<tp>();
  const auto& dp_ranks = mesh.communicator<dp>();
  const auto along = [&](int call, const Communicator& right, const Communicator& wrong) {
    return is(call, Kind::other_axis) ? wrong : right;
  };
  std::vector<float> x(16, 1.0F + static_cast<float>(sw::world().rank())), y(16), z(16), sum(16);
  std::vector<sw::Request*> never;
  const auto wait = [&](int call, sw::Request request, std::vector<float>& input,
                        const std::vector<float>& output) {
    if (is(call, Kind::input_changed)) input[0] += 1;
    if (is(call, Kind::read_too_early) && output[0] != output[0])
      throw std::runtime_error("NaN of call " + std::to_string(call));
    if (is(call, Kind::never_waited_for)) {
      never.push_back(new sw::Request(std::move(request)));
      return;
    }
    request.wait();
  };
  const auto lists = [](Index count) { return std::vector<Index>{count, count}; };
  const std::vector<Index> places{0, 4};
  const auto message = [&](const Communicator& ranks) {
    const int me = sw::world().rank(), to = (me + (is(6, Kind::other_rank) ? 2 : 1)) % 4, from = (me + 3) % 4;
    auto list = std::make_shared<sw::detail::MessageList>();
    list->push_back({to, sum.data(), n(6), static_cast<int>(type(6)), false});
    list->push_back({from, z.data(), 4, static_cast<int>(DataType::f32), true});
    message_line = __LINE__ + 1;
    ranks.send_and_receive(list, type(6)).wait();
    if (list->back().arrived != 4 || list->back().arrived_label != list->back().label)
      throw std::runtime_error("another message in call 6");
  };
  first_line = __LINE__ + 3;
  // clang-format off
  const std::vector<std::function<void()>> step_by_step{
      [&] { along(0, tp_ranks, dp_ranks).all_gather(x.data(), y.data(), lists(n(0)), places, type(0)); },
      [&] { along(1, tp_ranks, dp_ranks).reduce_scatter(y.data(), z.data(), lists(n(1)), type(1), op(1)); },
      [&] { along(2, dp_ranks, tp_ranks).all_reduce(z.data(), sum.data(), n(2), type(2), op(2)); },
      [&] { wait(3, along(3, tp_ranks, dp_ranks).all_reduce_async(z.data(), y.data(), n(3) + 4, type(3), op(3)), z, y); },
      [&] { along(4, tp_ranks, dp_ranks).all_to_all(sum.data(), lists(n(4)), places, y.data(), lists(4), places, type(4)); },
      [&] { wait(5, along(5, dp_ranks, tp_ranks).all_gather_async(x.data(), y.data(), lists(n(5)), places, type(5)), x, y); },
      [&] { message(along(6, sw::world(), tp_ranks)); },
      [&] { sw::world().all_reduce(z.data(), sum.data(), n(7), type(7), op(7)); },
  };
  // clang-format on
  for (int call = 0; call < calls; ++call) {
    const auto at = [&](int which) { step_by_step[static_cast<std::size_t>(which)](); };
    if (is(call, Kind::exchanged_with_next)) at(call + 1);
    if (!is(call, Kind::skipped)) at(call);
    if (is(call, Kind::twice)) at(call);
    if (is(call, Kind::exchanged_with_next)) ++call;
  }
  return sum[0] + y[7];
}

/// What a simulation says; nothing if it is content.
std::string said(const Bug& bug, std::uint64_t seed) {
  try {
    sw::simulate(4, [&] { step(bug); }, {.seed = seed});
  } catch (const sw::SimulationError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the step itself is right, and the same with every seed") {
  std::vector<float> first(4);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> results(4);
    sw::simulate(4, [&] { results[static_cast<std::size_t>(sw::world().rank())] = step({}); },
                 {.seed = seed});
    if (seed == 0) first = results;
    CHECK(results == first);
  }
  CHECK(first[0] == first[0]);
}

TEST_CASE("planted mistakes are found, with the line") {
  int planted = 0;
  for (int call = 0; call < calls; ++call) {
    for (int kind = 0; kind < static_cast<int>(Kind::none); ++kind) {
      const Bug bug{call, static_cast<Kind>(kind)};
      if (!possible(bug)) continue;
      if (call == 7 && bug.kind == Kind::other_axis) continue;  // it has all ranks
      ++planted;
      const std::string words = said(bug, static_cast<std::uint64_t>(planted));
      CAPTURE(call);
      CAPTURE(kind);
      INFO(words);
      const int of_call = is_message(call) ? message_line : first_line + call;
      const std::string line = "planted_bugs_test.cpp:" + std::to_string(of_call);
      const bool said_by_step =
          bug.kind == Kind::read_too_early || words.find("rank 2 of 4: another message") == 0;
      const bool refused = is_message(call) && bug.kind == Kind::other_axis;
      CHECK(words.find(refused        ? "send: no rank 2 among 2"
                       : said_by_step ? " call "
                                      : line) != std::string::npos);
    }
  }
  CHECK(planted >= 50);
}
