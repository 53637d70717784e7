// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The communication of a step by the names of its modules, as constants.

#include <shardwise/module/name_modules.hpp>
#include <shardwise/shardwise.hpp>

namespace shardwise {
namespace {

using Grid = Mesh<dp, tp>;
constexpr Index rows = 6, features = 8, hidden = 12;

struct Mlp : Module<Mlp> {
  constexpr explicit Mlp(const Grid& mesh) : up(mesh, features, hidden), down(mesh, hidden, features) {}
  constexpr auto forward(const auto& x) const { return down(relu(up(x))); }
  constexpr void visit(auto&& f) {
    f("up", up);
    f("down", down);
  }
  Linear<Grid, ColwiseParallel<tp>> up;
  Linear<Grid, RowwiseParallel<tp>> down;
};
struct Net : Module<Net> {
  constexpr explicit Net(const Grid& mesh) {
    layers.reserve(11);
    for (int i = 0; i < 11; ++i) layers.emplace_back(mesh);
  }
  constexpr auto forward(const auto& x) const {
    return redistribute<Replicate, Replicate>(sum_of_squares(sequential(x, layers)));
  }
  constexpr void visit(auto&& f) { f("layers", layers); }
  std::vector<Mlp> layers;
};

/// The communication of a module in a step on dp 3 x tp 2.
constexpr Traffic traffic(std::string_view name, std::optional<Phase> phase, Index bucket_bytes = 1 << 20) {
  EventLog log;
  trace<Grid>(
      {3, 2},
      [&](const Grid& mesh) {
        Net net(mesh);
        name_modules(log, net);
        Tape tape;
        const auto x = tape.input(empty<float, Shard<0>, Replicate>(mesh, {rows, features}));
        backward_and_reduce(net(redistribute<tp, Reduced>(x)), net, {.bucket_bytes = bucket_bytes});
      },
      {}, 0, &log);
  return traffic_of(log, name, phase);
}
using enum Phase;

// Activations: the rows of dp's first rank, all-reduced over tp. Backward, `up` sums the gradient of its input, but that of
// the first layer is of the model's, which has no name.
constexpr std::int64_t activation = rows / 3 * features * sizeof(float);
static_assert(traffic("layers.7.down", forward) == Traffic{1, activation});
static_assert(traffic("layers.7.up", forward) == Traffic{0, 0});
static_assert(traffic("layers.7.up", backward) == Traffic{1, activation});
static_assert(traffic("layers.7", backward) == Traffic{1, activation});

// "layers.1" is not "layers.10".
static_assert(traffic("layers.1", forward) == Traffic{1, activation});
static_assert(traffic("layers", forward) == Traffic{11, 11 * activation});

// Gradients: half of a weight and half of a bias of `up`, half of a weight and a bias of `down`. All of the model are in one
// bucket, and each module has its part of the bytes.
constexpr std::int64_t of_up = (hidden / 2 * features + hidden / 2) * sizeof(float),
                       of_down = (hidden / 2 * features + features) * sizeof(float);
static_assert(traffic("layers.10.up", optimizer) == Traffic{1, of_up});
static_assert(traffic("layers.10.down", optimizer) == Traffic{1, of_down});
static_assert(traffic("layers.10", optimizer) == Traffic{1, of_up + of_down});
static_assert(traffic("", optimizer) == Traffic{1, 11 * (of_up + of_down)});
static_assert(traffic("layers.10", optimizer, 0) == Traffic{4, of_up + of_down});

// A container has the address of its first member, and may be the first member of a module.
struct Policy {
  constexpr explicit Policy(const Grid& mesh) : net(mesh) {}
  constexpr void visit(auto&& f) { f("net", net); }
  Net net;
};
struct Stack {
  constexpr void visit(auto&& f) { f("layers", layers); }
  std::vector<Mlp> layers;
};
struct Outer : Module<Outer> {
  constexpr explicit Outer(const Grid& mesh) { stack.layers.emplace_back(mesh); }
  constexpr auto forward(const auto& x) const {
    return redistribute<Replicate, Replicate>(sum_of_squares(sequential(x, stack.layers)));
  }
  constexpr void visit(auto&& f) { f("stack", stack); }
  Stack stack;
};

template <class M>
constexpr bool check(auto holds) {
  EventLog log;
  bool held = false;
  trace<Grid>(
      {3, 2},
      [&](const Grid& mesh) {
        M model(mesh);
        name_modules(log, model);
        held = holds(log, model, empty<float, Shard<0>, Reduced>(mesh, {rows, features}));
      },
      {}, 0, &log);
  return held;
}
static_assert(check<Outer>([](EventLog& log, Outer& outer, const auto& x) {
  outer(x);
  return traffic_of(log, "stack") == Traffic{1, activation} && traffic_of(log, "").calls > 1;
}));
static_assert(check<Policy>([](EventLog& log, Policy& policy, const auto& x) {
  policy.net(x);
  const Traffic net = traffic_of(log, "net");  // with the sum that the net itself makes
  const bool is_all = net == traffic_of(log, "");
  name_modules(log, policy.net);  // the newest names
  policy.net(x);
  return is_all && traffic_of(log, "net") == net && traffic_of(log, "").calls == 2 * net.calls;
}));

}  // namespace
}  // namespace shardwise
