// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Losses of a policy, which is a language model, beside a reference: `DpoLoss` learns from preferences, `GrpoLoss`
/// from rewards. They take log-probabilities of tokens, [batch, sequence], which are 0 where a target does not count:
///
/// ```
/// const auto now = -CrossEntropyLossPerRow()(policy(tape.constant(ids)), targets);
/// const auto before = -CrossEntropyLossPerRow()(reference(ids), targets);
/// auto loss = GrpoLoss({.beta = 0.04})(now, old, before, targets, group_advantages(rewards, 8));
/// ```
/// Log-probabilities are in any layout that `CrossEntropyLossPerRow` gives. Those of other models than the policy are
/// constants. A loss is a scalar, the same on all ranks that share the tokens. Forward: all-reduces of a number, or of
/// one for each sequence, over the axes that shard tokens. Backward: no communication.

#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/mean_losses.hpp>
#include <shardwise/ops/comparison.hpp>
#include <shardwise/ops/contract.hpp>
#include <shardwise/ops/operators.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/where.hpp>

namespace shardwise::llm {

struct DpoOptions {
  double beta = 0.1;           ///< how much it costs to differ from the reference
  double label_smoothing = 0;  ///< the probability that a preference is wrong
};

/// How the losses of tokens become one.
enum class GrpoMean : std::uint8_t {
  sequences,  ///< over the tokens of each sequence, then over the sequences (DeepSeekMath)
  tokens,     ///< over all tokens of all sequences (DAPO)
};

struct GrpoOptions {
  double epsilon = 0.2;           ///< a ratio of probabilities counts down to 1 - epsilon,
  double epsilon_high = epsilon;  ///< and up to 1 + epsilon_high
  double beta = 0;                ///< the factor of the divergence from the reference
  GrpoMean mean = GrpoMean::sequences;
};

namespace detail {

/// `y`, a sum over tokens, complete on the ranks that share them: `To` there.
template <Placement To, class Y>
struct CompleteSum : TypeIs<Y> {};
template <Placement To, TensorType Y>
struct CompleteSum<To, Y> : TypeIs<with_layout<Y, packed(without_pending(Y::layout, To))>> {};
template <Placement To, class Y>
constexpr auto complete(Y y) {
  return redistribute_to<typename CompleteSum<To, tensor_of<Y>>::type>(std::move(y));
}

/// `numbers[i]` for the global row i.
template <TensorType X>
constexpr X from_numbers(const typename X::MeshOf& mesh, std::span<const double> numbers) {
  X x(mesh, {std::ssize(numbers)});
  const auto block = x.writable();
  for (Index i = 0; !mesh.dry() && i < block.elements(); ++i) {
    block.data[i] = static_cast<typename X::Element>(numbers[static_cast<std::size_t>(block.begin[0] + i)]);
  }
  return x;
}

}  // namespace detail

/// The mean over pairs of -log σ(beta · (log π/ref of the chosen sequence - log π/ref of the rejected one)) (Rafailov
/// et al., "Direct preference optimization", 2023), with label smoothing as in Mitchell's conservative DPO.
class DpoLoss : public Module<DpoLoss> {
 public:
  /// Throws `std::invalid_argument` unless beta is above 0 and `label_smoothing` in [0, 0.5).
  constexpr explicit DpoLoss(const DpoOptions& options = {}) : options_(options) {
    if (!(options.beta > 0)) detail::fail({"DpoLoss: beta is ", options.beta, ", but must be above 0"});
    if (!(options.label_smoothing >= 0 && options.label_smoothing < 0.5))
      detail::fail({"DpoLoss: label_smoothing is ", options.label_smoothing, ", but must be in [0, 0.5)"});
  }

  /// Row i of `chosen` and of `rejected` is a pair; the two may have different lengths. The references are of the same
  /// tokens.
  template <Operand Chosen, Operand Rejected, Operand OfChosen, Operand OfRejected>
  constexpr auto forward(const Chosen& chosen, const Rejected& rejected, const OfChosen& reference_of_chosen,
                         const OfRejected& reference_of_rejected) const {
    const auto margin = above(chosen, reference_of_chosen) - above(rejected, reference_of_rejected);
    const double beta = options_.beta;  // -log σ(z) is softplus(-z), and softplus(z) is softplus(-z) + z
    return detail::complete<replicate>(
        mean(softplus(scale(margin, -beta)) + scale(margin, beta * options_.label_smoothing)));
  }

  constexpr void visit(auto&&) {}

 private:
  /// Of each sequence, how much more probable it is than in the reference.
  static constexpr auto above(const auto& policy, const auto& reference) {
    return detail::complete<replicate>(sum<1>(policy - alongside(reference, policy)));
  }

  DpoOptions options_;
};

/// The mean over tokens of -min(r · A, clip(r, 1 - epsilon, 1 + epsilon_high) · A) + beta · (q - log q - 1), where r is
/// the probability of the token divided by the one with which it was drawn, A the advantage of its sequence, and q the
/// probability in the reference divided by that in the policy (Shao et al., "DeepSeekMath", 2024). Only tokens whose
/// target is not -100 count.
class GrpoLoss : public Module<GrpoLoss> {
 public:
  /// Throws `std::invalid_argument` unless all three numbers are 0 or more, and epsilon at most 1.
  constexpr explicit GrpoLoss(const GrpoOptions& options = {}) : options_(options) {
    if (!(options.epsilon >= 0 && options.epsilon <= 1 && options.epsilon_high >= 0 && options.beta >= 0))
      detail::fail({"GrpoLoss: epsilon is ", options.epsilon, ", and must be in [0, 1]; epsilon_high is ",
                    options.epsilon_high, " and beta ", options.beta, ", which must be 0 or more"});
  }

  /// `old`: with which the tokens were drawn, such as the policy's own values before its first step. `targets`: those
  /// of the log-probabilities; where they are -100, log-probabilities may be anything. `advantages`: of each sequence
  /// of the whole batch, the same numbers on all ranks. Throws `std::invalid_argument`, on every rank, if there are not
  /// as many as sequences.
  template <Operand Policy, Operand Old, Operand Reference, Operand Targets>
  constexpr auto forward(const Policy& policy, const Old& old, const Reference& reference,
                         const Targets& targets, std::span<const double> advantages) const {
    const Index sequences = policy.shape()[0];
    if (std::ssize(advantages) != sequences)
      detail::fail(
          {"GrpoLoss: there are ", std::ssize(advantages), " advantages, but ", sequences, " sequences"});
    const auto counts = not_equal(targets, ignore_index_default);
    const auto shares = shares_of(policy, counts);
    using OfSequences = tensor_of<decltype(detail::complete<reduced>(sum<1>(shares)))>;
    const auto gains = alongside(
        contract<"st, s -> st">(shares, detail::from_numbers<OfSequences>(policy.mesh(), advantages)),
        policy);
    const auto ratio = exp(where(counts, policy - alongside(old, policy), 0.0));
    const auto low = 1 - options_.epsilon, high = 1 + options_.epsilon_high;
    const auto above = where(greater_equal(ratio, low), ratio, low);
    const auto gain = minimum(ratio * gains, where(less_equal(above, high), above, high) * gains);
    const auto difference = where(counts, alongside(reference, policy) - policy, 0.0);
    const auto divergence = (exp(difference) - difference - 1) * alongside(shares, policy);
    return detail::complete<replicate>(sum(options_.beta * divergence - gain));
  }

  constexpr void visit(auto&&) {}

 private:
  /// The share of each token in the mean; 0 if it does not count.
  constexpr auto shares_of(const auto& policy, const auto& counts) const {
    using X = tensor_of<decltype(policy)>;
    X ones(policy.mesh(), policy.shape());
    detail::Constant::write(ones, 1);
    const auto counted = where(counts, ones, 0.0);
    if (options_.mean == GrpoMean::tokens)
      return div(counted, at_least_one(detail::complete<reduced>(sum(counted))));
    const auto tokens = at_least_one(detail::complete<reduced>(sum<1>(counted)));
    const auto each = reciprocal(scale(tokens, static_cast<double>(policy.shape()[0])));
    return contract<"st, s -> st">(counted, each);
  }
  static constexpr auto at_least_one(const auto& x) { return where(greater(x, 1.0), x, 1.0); }

  GrpoOptions options_;
};

/// Of each reward, how far it is above the mean of its group, the `group` consecutive rewards of one prompt, divided by
/// their standard deviation + 1e-4, as TRL does; or, unless `scaled`, not divided (Liu et al., "Understanding R1-Zero",
/// 2025). Throws `std::invalid_argument` unless groups have 2 or more, and divide the rewards.
std::vector<double> group_advantages(std::span<const double> rewards, Index group, bool scaled = true);

#ifdef SHARDWISE_LLM_BODIES

SHARDWISE_INLINE std::vector<double> group_advantages(std::span<const double> rewards, Index group,
                                                      bool scaled) {
  if (group < 2 || std::ssize(rewards) % group != 0)
    detail::fail({"group_advantages: groups of ", group, " of ", std::ssize(rewards),
                  " rewards: expected 2 or more, and a divisor"});
  std::vector<double> result;
  for (auto rest = rewards; !rest.empty(); rest = rest.subspan(static_cast<std::size_t>(group))) {
    const auto own = rest.first(static_cast<std::size_t>(group));
    double mean = 0, squares = 0;
    for (const double reward : own) mean += reward / static_cast<double>(group);
    for (const double reward : own) squares += (reward - mean) * (reward - mean);
    const double by = scaled ? std::sqrt(squares / static_cast<double>(group - 1)) + 1e-4 : 1;
    for (const double reward : own) result.push_back((reward - mean) / by);
  }
  return result;
}

#endif

}  // namespace shardwise::llm
