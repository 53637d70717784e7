// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `CrossEntropyLoss`: cross entropy of logits whose classes may be sharded, and are never gathered ("loss
/// parallelism"; Shoeybi et al., "Megatron-LM", 2019).
///
/// ```
/// const CrossEntropyLoss criterion({.label_smoothing = 0.1});
/// auto loss = criterion(head(x), targets);   // [batch, sequence, classes] as Shard<0>, Shard<2>
/// tape.backward(loss);
/// ```
/// Forward: one all-reduce over the axes that shard the classes, of three numbers a row (four with label
/// smoothing), and one of two numbers over the axes that shard rows. Backward: no communication.
///
/// `CrossEntropyLossPerRow` gives the loss of each row, [batch, sequence]: PyTorch's reduction="none".

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/comm/reducible.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/nn/cross_entropy_options.hpp>
#include <shardwise/nn/loss_of_rows.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

namespace detail {

/// Classes and rows may be cut: what would be pending has been reduced. `OfEachRow`: rows stay where they are.
template <bool OfEachRow>
struct CrossEntropyLossRule {
  static constexpr Signature signature =
      Signature::of(OfEachRow ? "...c, ... -> ..." : "...c, ... ->").without_gradient(1);
  static constexpr Propagated rule(const Signature& own, const OperandPlacements& at) {
    Propagated result = propagate(own, at);
    if (result.legal() && result.placement.is_partial()) result.placement = replicate;
    return result;
  }
};

constexpr void check_rows(std::span<const Index> logits, std::span<const Index> targets) {
  for (std::size_t dim = 0; dim < targets.size(); ++dim) {
    if (logits[dim] == targets[dim]) continue;
    fail({"CrossEntropyLoss: logits ", logits, " and targets ", targets, " differ in dimension ", dim});
  }
}

/// The loss, a sum of many terms, is in the type in which they are added up: `float` for logits in bfloat16.
template <class Y>
struct WideLoss {
  using type = Y;
};
template <class Y, bool OnTape, bool Tracked>
struct WideLoss<Abstract<Y, OnTape, Tracked>> {
  using type = Abstract<typename WideLoss<Y>::type, OnTape, Tracked>;
};
template <class T, int Rank, class MeshType, class... Placements>
struct WideLoss<Tensor<T, Rank, MeshType, Placements...>> {
  using type = Tensor<kernel::compute_t<T>, Rank, MeshType, Placements...>;
};

/// The axes of more than one rank that shard the last dimension of logits `X`, the classes; or any other, the rows.
template <TensorType X>
constexpr AxisSet sharding_axes(const typename X::MeshOf& mesh, bool classes) {
  return axes_where(X::layout.axes, [&](int axis) {
    const Placement p = X::layout[axis];
    return mesh.sizes()[axis] > 1 && p.is_shard() && p.is_shard(X::rank - 1) == classes;
  });
}

/// Without a value: the loss of the rows that have these targets, or the losses.
template <TensorType Y, TensorType Targets>
constexpr Y empty_loss(const Targets& targets) {
  if constexpr (Y::rank == Targets::rank) {
    return Y(targets.mesh(), targets.shape());
  } else {
    return Y(targets.mesh(), {});
  }
}

/// Writes the loss of all rows, from the terms of this rank's, or the losses; returns what their sum was divided by.
template <bool OfEachRow, TensorType Logits, TensorType Y, TensorType Targets, class Terms>
constexpr double write_loss(Y& y, const Targets& targets, const Terms* of_rows,
                            const kernel::TargetDistribution& expected, Reduction reduction) {
  LossOfRows loss;
  if (!y.mesh().dry()) loss = loss_of_rows(targets.view(), of_rows, expected);
  MeshView(y.mesh()).all_reduce(&loss, 1, sharding_axes<Logits>(y.mesh(), false));
  double rows = 1;
  if (!y.mesh().dry()) {
    using C = typename Y::Element;
    check_targets(loss, targets.shape(), expected.classes);
    C* to = y.writable().data;
    if constexpr (OfEachRow) {
      kernel::for_each_cross_entropy(targets.view().elements(), of_rows, targets.data(), expected,
                                     [=](Index r, double row) { to[r] = static_cast<C>(row); });
    } else {
      if (reduction == Reduction::mean) rows = loss.counted;
      *to = static_cast<C>(loss.sum / rows);
    }
  }
  return rows;
}

/// The pullback. Logits that nobody else holds any more become their gradient in place.
template <class Terms, class T, bool OfEachRow, TensorType Logits, TensorType Targets>
struct CrossEntropyPullback {
  Logits given;
  Targets targets;
  Buffer terms;
  Buffer weights;  // that `expected` has
  kernel::TargetDistribution expected;
  double rows;  // that the sum is divided by
  Shared<GradientSlot> from;
  ResultSlot to;

  constexpr bool operator()(BackwardPart) {
    const Buffer dy = to->pass();
    if (!dy) return false;
    const auto logits = given.view();
    Recorder* recorder = given.mesh().recorder();
    if (recorder) recorder->compute(3 * logits.elements());
    Buffer gradient;
    if (given.unique()) {
      gradient = given.buffer();
    } else {
      gradient = allocate_buffer(given.buffer(), recorder, given.buffer()->bytes, from->use());
    }
    using L = typename Logits::Element;
    if (!targets.mesh().dry()) {
      const T* of_loss = static_cast<const T*>(dy->data);
      const double factor = OfEachRow ? 1 : static_cast<double>(*of_loss) / rows;
      kernel::cross_entropy_backward(logits.rows(), logits.columns(), logits.begin.back(), logits.data,
                                     static_cast<const Terms*>(terms->data), targets.data(), expected, factor,
                                     static_cast<L*>(gradient->data), OfEachRow ? of_loss : nullptr);
    }
    from->add(std::move(gradient), element_sum<L>, recorder);
    return false;
  }
};

/// What both kinds do.
template <bool OfEachRow>
class CrossEntropy {
 public:
  /// Throws `std::invalid_argument` if `label_smoothing` is not in [0, 1], or a weight is negative or not finite.
  constexpr explicit CrossEntropy(const CrossEntropyOptions& options = {})
      : options_(detail::checked(options)) {}

  /// logits: [r…, classes]; targets: integers [r…], on each axis either sharded as the logits' rows are, or full
  /// copies. Collective over the axes that shard the logits. Nothing of the size of the logits is allocated; nor
  /// by the backward pass, if the logits were given up, as in `criterion(model(x), targets)`. The result is a scalar,
  /// `Replicate` on the axes that shard the logits, and a `float` if they are in bfloat16.
  ///
  /// Throws `std::out_of_range`, the same on every rank, for a target that is neither a class nor
  /// `ignore_index`. A logit of -∞ has probability 0; with label smoothing the loss is then infinite.
  template <Operand Logits, Operand Targets>
  constexpr auto forward(Logits&& logits, const Targets& targets) const {
    using Result = typename detail::WideLoss<
        result_of<detail::CrossEntropyLossRule<OfEachRow>, std::remove_cvref_t<Logits>, Targets>>::type;
    if constexpr (AbstractOperand<Result>) {
      return Result{};
    } else {
      using C = typename Result::Element;
      if (options_.label_smoothing > 0) {
        return run<kernel::SmoothedRowTerms<C>, Result>(std::forward<Logits>(logits), targets);
      }
      return run<kernel::RowTerms<C>, Result>(std::forward<Logits>(logits), targets);
    }
  }

  constexpr void visit(auto&&) {}

 private:
  template <class Terms, class Y, class Logits, class Targets>
  constexpr auto run(Logits&& given, const Targets& targets_given) const {
    using X = std::remove_cvref_t<Logits>;
    const auto& logits = value_of(given);
    const auto& targets = value_of(targets_given);
    const auto& mesh = common_mesh(logits, targets);
    detail::check_rows(logits.shape(), targets.shape());
    auto y = detail::empty_loss<Y>(targets);
    Buffer weights = detail::weights_for(mesh, options_, logits.shape().back());
    const auto expected = detail::target_distribution(options_, logits.shape().back(), weights);
    const auto block = logits.view();
    Buffer terms = allocate_buffer(mesh, block.rows() * static_cast<Index>(sizeof(Terms)));
    Terms* of_rows = nullptr;
    if (auto* recorder = mesh.recorder()) {
      recorder->compute(4 * block.elements());
    }
    if (!mesh.dry()) {
      of_rows = static_cast<Terms*>(terms->data);
      kernel::row_terms(block.rows(), block.columns(), block.begin.back(), block.data, targets.data(),
                        of_rows, expected);
    }
    MeshView(mesh).all_reduce(of_rows, block.rows(), detail::sharding_axes<tensor_of<X>>(mesh, true));
    const double rows =
        detail::write_loss<OfEachRow, tensor_of<X>>(y, targets, of_rows, expected, options_.reduction);
    return on_common_tape(
        std::move(y),
        [&](Tape& tape, const Y&, const auto& slot) {
          using Pullback = detail::CrossEntropyPullback<Terms, typename Y::Element, OfEachRow, tensor_of<X>,
                                                        tensor_of<Targets>>;
          auto from = slot_of(given);
          tape.record<PullbackNode<Pullback>>(Pullback{given_up(std::forward<Logits>(given)), targets,
                                                       std::move(terms), std::move(weights), expected, rows,
                                                       std::move(from), slot});
          return Shared<Recipe>();
        },
        given, targets_given);
  }

  /// The value of `x`: taken out of it, if it is a `Var` that nobody will use again.
  template <class X>
  static constexpr auto given_up(X&& x) {
    if constexpr (is_var<X>) {  // not of a reference: an rvalue
      return std::forward<X>(x).release();
    } else {
      return value_of(x);
    }
  }

  CrossEntropyOptions options_;
};

}  // namespace detail

struct CrossEntropyLoss : detail::CrossEntropy<false>, Module<CrossEntropyLoss> {
  using CrossEntropy::CrossEntropy;
  CrossEntropyLoss(const Operand auto&, const auto&) = delete;  // CrossEntropyLoss(options)(logits, targets)
};

/// The loss of each row, in the shape of the targets; 0 where a target is `ignore_index`. It lies as the logits' rows do,
/// `Replicate` where classes are sharded. `reduction` means nothing to it. In all else as `CrossEntropyLoss`.
///
/// ```
/// auto each = CrossEntropyLossPerRow()(model(tape.constant(ids)), targets);   // [batch, sequence]
/// auto loss = redistribute<Replicate, Replicate>(sum(mul(each, tape.constant(how_much))));
/// ```
struct CrossEntropyLossPerRow : detail::CrossEntropy<true>, Module<CrossEntropyLossPerRow> {
  using CrossEntropy::CrossEntropy;
};

/// What the mean over the rows with these targets is divided by: how many count, or the sum of their targets' weights. Of
/// several micro-batches: the sum of their losses (`Reduction::sum`), divided by the sum of these, is the mean over all rows.
/// Collective over the axes that shard the targets; throws as the losses do for a target that is none.
template <TensorType Targets>
double loss_divisor(const CrossEntropyOptions& options, const Targets& targets) {
  const auto& weights = options.class_weights;
  const Index classes =
      weights.empty() ? std::numeric_limits<Index>::max() : static_cast<Index>(weights.size());
  const kernel::TargetDistribution expected{classes, 0, options.ignore_index,
                                            weights.empty() ? nullptr : weights.data()};
  const AxisSet rows =
      axes_where(Targets::layout.axes, [](int axis) { return Targets::layout[axis].is_shard(); });
  detail::LossOfRows loss = detail::counted_of_rows(targets.view(), expected);
  MeshView(targets.mesh()).all_reduce(&loss, 1, rows);
  detail::check_targets(loss, targets.shape(), classes);
  return loss.counted;
}

}  // namespace shardwise
