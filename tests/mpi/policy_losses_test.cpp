// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// DpoLoss and GrpoLoss, on logits whose rows and classes are sharded, against the published formulas in `double` as TRL
/// writes them with PyTorch; gradients against central differences of these.

#include <shardwise/llm/models/policy_losses.hpp>
#include <support/mpi_counter.hpp>
#include <support/plans.hpp>

#include <functional>
#include <vector>

#include "ops_check.hpp"

namespace shardwise::testing::policy_losses {
namespace {

using namespace shardwise::llm;

template <class T, int Rank, class... P>
using OnGrid = Tensor<T, Rank, Mesh<dp, tp>, P...>;

constexpr Index sequences = 6, classes = 13;

/// selective_log_softmax(logits, targets), and 0 where the target is -100.
Dense log_probabilities(const Dense& logits, const Dense& targets) {
  Dense result(targets.shape);
  for (Index r = 0; r < targets.size(); ++r) {
    if (targets[r] < 0) continue;
    double sum = 0;
    for (Index c = 0; c < classes; ++c) sum += std::exp(logits[r * classes + c]);
    result[r] = logits[r * classes + static_cast<Index>(targets[r])] - std::log(sum);
  }
  return result;
}

/// The sum of row i.
double row_sum(const Dense& x, Index i) {
  double sum = 0;
  for (Index t = 0; t < x.extent(1); ++t) sum += x[i * x.extent(1) + t];
  return sum;
}

/// F.logsigmoid(x)
double log_sigmoid(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }

/// -F.logsigmoid(beta * logits) * (1 - label_smoothing) - F.logsigmoid(-beta * logits) * label_smoothing, the mean.
double dpo(const DpoOptions& options, const Dense& chosen, const Dense& rejected,
           const Dense& reference_of_chosen, const Dense& reference_of_rejected) {
  double sum = 0;
  for (Index i = 0; i < sequences; ++i) {
    const double logits = (row_sum(chosen, i) - row_sum(rejected, i)) -
                          (row_sum(reference_of_chosen, i) - row_sum(reference_of_rejected, i));
    sum -= log_sigmoid(options.beta * logits) * (1 - options.label_smoothing) +
           log_sigmoid(-options.beta * logits) * options.label_smoothing;
  }
  return sum / sequences;
}

/// coef_1 = exp(new - old); coef_2 = clamp(coef_1, 1 - epsilon, 1 + epsilon_high);
/// per_token = -min(coef_1 * A, coef_2 * A) + beta * (exp(ref - new) - (ref - new) - 1);
/// ((per_token * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean(), or (per_token * mask).sum() / mask.sum().
double grpo(const GrpoOptions& options, const Dense& policy, const Dense& old, const Dense& reference,
            const Dense& targets, const std::vector<double>& advantages) {
  double of_sequences = 0, all = 0, all_tokens = 0;
  const Index length = targets.extent(1);
  for (Index i = 0; i < sequences; ++i) {
    double sum = 0, tokens = 0;
    for (Index r = i * length; r < (i + 1) * length; ++r) {
      if (targets[r] < 0) continue;
      const double ratio = std::exp(policy[r] - old[r]), a = advantages[static_cast<std::size_t>(i)];
      const double clamped = std::clamp(ratio, 1 - options.epsilon, 1 + options.epsilon_high);
      const double above = reference[r] - policy[r];
      sum += -std::min(ratio * a, clamped * a) + options.beta * (std::exp(above) - above - 1);
      ++tokens;
    }
    all += sum;
    all_tokens += tokens;
    of_sequences += sum / std::max(tokens, 1.) / sequences;
  }
  return options.mean == GrpoMean::tokens ? all / all_tokens : of_sequences;
}

/// Integers, -100 for the first tokens of each row, and for all of row 1.
Dense some_targets(Index length, std::uint64_t seed) {
  Dense targets = random_integers({sequences, length}, classes, seed);
  for (Index i = 0; i < sequences; ++i) {
    for (Index t = 0; t < length; ++t) {
      if (t < i % 3 || i == 1) targets[i * length + t] = -100;
    }
  }
  return targets;
}
/// Near `x`, and not finite where targets do not count.
Dense near(const Dense& x, std::uint64_t seed) {
  Dense result = random_dense(x.shape, seed);
  for (Index i = 0; i < x.size(); ++i)
    result[i] = x[i] == 0 ? -std::numeric_limits<double>::infinity() : x[i] + 0.3 * result[i];
  return result;
}
Dense masked(Dense x, const Dense& targets) {
  for (Index i = 0; i < x.size(); ++i) x[i] = targets[i] < 0 ? 0 : x[i];
  return x;
}
Dense gradient_of(Dense x, const std::function<double(const Dense&)>& f) {
  Dense result(x.shape);
  for (Index i = 0; i < x.size(); ++i) {
    const double kept = x[i], step = 1e-5;
    x[i] = kept + step;
    const double above = f(x);
    x[i] = kept - step;
    result[i] = (above - f(x)) / (2 * step);
    x[i] = kept;
  }
  return result;
}

/// Logits on a tape, and the log-probabilities of their targets.
template <class Logits, class Ids>
struct Policy {
  Tape& tape;
  Dense logits, targets;
  Ids ids;
  decltype(tape.input(std::declval<const Logits&>())) x;

  Policy(Tape& on, const typename Logits::MeshOf& mesh, Index length, std::uint64_t seed)
      : tape(on),
        logits(random_dense({sequences, length, classes}, seed)),
        targets(some_targets(length, seed + 1)),
        ids(place<Ids>(mesh, targets)),
        x(tape.input(place<Logits>(mesh, logits))) {}
  auto now() const { return -CrossEntropyLossPerRow()(x, ids); }
  Dense dense() const { return log_probabilities(logits, targets); }
};

template <class T>
constexpr double tolerance = std::is_same_v<T, double> ? 1e-12 : 1e-6;

template <class Found>
void check_loss(const Found& loss, double expected) {
  using T = typename tensor_of<Found>::Element;
  CHECK(std::abs(static_cast<double>(*loss.value().data()) - expected) <=
        tolerance<T> * std::max(1., std::abs(expected)));
}

/// Whether a dimension is sharded over more ranks than one: then its sum is an all-reduce.
template <TensorType X>
bool is_sharded(const X& x, int dim) {
  bool result = false;
  for (int axis = 0; axis < 2; ++axis)
    result |= X::layout[axis] == shard(dim) && x.mesh().sizes()[static_cast<std::size_t>(axis)] > 1;
  return result;
}
/// Calls f, which asks for so many all-reduces and for no other communication.
auto counted(std::ptrdiff_t all_reduces, auto f) {
  mpi_counter::reset();
  const auto result = f();
  INFO(mpi_counter::counts().text());
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().all_reduce.calls == all_reduces);
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == all_reduces);
  return result;
}

template <class Logits, class Ids>
void check_dpo(const typename Logits::MeshOf& mesh, const DpoOptions& options) {
  Tape tape;
  const Policy<Logits, Ids> chosen(tape, mesh, 5, 1), rejected(tape, mesh, 4, 11);
  const Dense first = masked(near(chosen.dense(), 3), chosen.targets),
              second = masked(near(rejected.dense(), 4), rejected.targets);
  const auto now = chosen.now(), other = rejected.now();
  using Y = tensor_of<decltype(now)>;
  const auto of_first = place<Y>(mesh, first), of_second = place<Y>(mesh, second);
  const auto loss = counted(is_sharded(of_first, 1) * 2 + is_sharded(of_first, 0),
                            [&] { return DpoLoss(options)(now, other, of_first, of_second); });
  check_loss(loss, dpo(options, chosen.dense(), rejected.dense(), first, second));
  counted(0, [&] { return tape.backward(loss), 0; });
  const double most = std::max(1e-8, tolerance<typename Y::Element>);
  const Dense of_chosen = gradient_of(chosen.logits, [&](const Dense& logits) {
    return dpo(options, log_probabilities(logits, chosen.targets), rejected.dense(), first, second);
  });
  CHECK(difference(gather(chosen.x.gradient()), of_chosen) <= most);
  const Dense of_rejected = gradient_of(rejected.logits, [&](const Dense& logits) {
    return dpo(options, chosen.dense(), log_probabilities(logits, rejected.targets), first, second);
  });
  CHECK(difference(gather(rejected.x.gradient()), of_rejected) <= most);
}

template <class Logits, class Ids>
void check_grpo(const typename Logits::MeshOf& mesh, const GrpoOptions& options) {
  Tape tape;
  const Policy<Logits, Ids> policy(tape, mesh, 5, 1);
  const Dense old = near(policy.dense(), 3), reference = near(policy.dense(), 4);
  const std::vector<double> advantages{0.7, -1, 2, -0.4, 1.5, -2};
  const auto now = policy.now();
  using Y = tensor_of<decltype(now)>;
  const auto drawn = place<Y>(mesh, old), other = place<Y>(mesh, reference);
  const bool tokens = is_sharded(drawn, 1), any = tokens || is_sharded(drawn, 0);
  const auto loss = counted((options.mean == GrpoMean::tokens ? any : tokens) + any,
                            [&] { return GrpoLoss(options)(now, drawn, other, policy.ids, advantages); });
  check_loss(loss, grpo(options, policy.dense(), old, reference, policy.targets, advantages));
  counted(0, [&] { return tape.backward(loss), 0; });
  const Dense expected = gradient_of(policy.logits, [&](const Dense& logits) {
    return grpo(options, log_probabilities(logits, policy.targets), old, reference, policy.targets,
                advantages);
  });
  CHECK(difference(gather(policy.x.gradient()), expected) <= std::max(1e-8, tolerance<typename Y::Element>));
}

template <class Logits, class Ids>
void check_both(const typename Logits::MeshOf& mesh) {
  for (const DpoOptions& options : {DpoOptions{}, DpoOptions{.beta = 0.7, .label_smoothing = 0.1}})
    check_dpo<Logits, Ids>(mesh, options);
  for (const GrpoMean mean : {GrpoMean::sequences, GrpoMean::tokens}) {
    check_grpo<Logits, Ids>(mesh, {.mean = mean});
    check_grpo<Logits, Ids>(mesh, {.epsilon = 0.1, .epsilon_high = 0.3, .beta = 0.4, .mean = mean});
  }
}

TEST_CASE("losses of policies are PyTorch's, with sequences, tokens and classes sharded") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    check_both<OnGrid<double, 3, Shard<0>, Shard<2>>, OnGrid<std::int32_t, 2, Shard<0>, Replicate>>(mesh);
    check_both<OnGrid<double, 3, Shard<1>, Shard<2>>, OnGrid<std::int32_t, 2, Shard<1>, Replicate>>(mesh);
    check_both<OnGrid<double, 3, Shard<0>, Shard<1>>, OnGrid<std::int32_t, 2, Shard<0>, Shard<1>>>(mesh);
    check_both<OnGrid<float, 3, Shard<0>, Shard<2>>, OnGrid<std::int32_t, 2, Shard<0>, Replicate>>(mesh);
  }
}

TEST_CASE("where the policy is as it was, each token has the gradient of its ratio, also without a range") {
  const Mesh<dp, tp> mesh(world(), {any, 1});
  const Dense targets = some_targets(5, 2);
  const std::vector<double> advantages{0.7, -1, 2, -0.4, 1.5, -2};
  Dense expected({sequences, 5});
  for (Index r = 0; r < targets.size(); ++r) {  // row i has 5 - i % 3 tokens, and row 1 none
    const Index i = r / 5;
    if (targets[r] >= 0)
      expected[r] = -advantages[static_cast<std::size_t>(i)] / static_cast<double>((5 - i % 3) * sequences);
  }
  using X = OnGrid<double, 2, Shard<0>, Replicate>;
  const X values = place<X>(mesh, masked(random_dense({sequences, 5}, 1), targets));
  const auto ids = place<OnGrid<std::int32_t, 2, Shard<0>, Replicate>>(mesh, targets);
  for (const double epsilon : {0., 0.2}) {
    Tape tape;
    const auto policy = tape.input(values);
    tape.backward(GrpoLoss({.epsilon = epsilon, .beta = 0.4})(policy, values, values, ids, advantages));
    CHECK(difference(gather(policy.gradient()), expected) <= 1e-15);
  }
}

TEST_CASE("advantages are those of a group") {
  const std::vector<double> rewards{1, 0, 0, 1, 3, 3, 3, 3};
  const std::vector<double> scaled = group_advantages(rewards, 4),
                            plain = group_advantages(rewards, 4, false);
  const double by = std::sqrt(1. / 3) + 1e-4;  // torch.std
  for (std::size_t i = 0; i < 8; ++i) {
    const double expected = i == 0 || i == 3 ? 0.5 : i < 4 ? -0.5 : 0;
    CHECK(plain[i] == expected);
    CHECK(scaled[i] == doctest::Approx(expected / by));
  }
  CHECK_THROWS_WITH_AS(group_advantages(rewards, 3),
                       "group_advantages: groups of 3 of 8 rewards: expected 2 or more, and a divisor",
                       std::invalid_argument);
}

TEST_CASE("settings and advantages that are refused") {
  CHECK_THROWS_WITH_AS(DpoLoss({.beta = 0}), "DpoLoss: beta is 0, but must be above 0",
                       std::invalid_argument);
  CHECK_THROWS_AS(DpoLoss({.label_smoothing = 0.5}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      GrpoLoss({.epsilon = 1.5}),
      "GrpoLoss: epsilon is 1.5, and must be in [0, 1]; epsilon_high is 1.5 and beta 0, which "
      "must be 0 or more",
      std::invalid_argument);
  const Mesh<dp, tp> mesh(world(), {any, 1});
  using X = OnGrid<double, 2, Shard<0>, Replicate>;
  const X x = place<X>(mesh, random_dense({sequences, 3}, 1));
  const auto ids =
      place<OnGrid<std::int32_t, 2, Shard<0>, Replicate>>(mesh, random_integers({sequences, 3}, 9, 1));
  CHECK_THROWS_WITH_AS(GrpoLoss()(x, x, x, ids, std::vector<double>(5)),
                       "GrpoLoss: there are 5 advantages, but 6 sequences", std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing::policy_losses
