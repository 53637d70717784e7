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
#include <shardwise/nn/loss_of_rows.hpp>
#include <shardwise/ops/apply.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

/// How the rows' losses become one.
enum class Reduction : std::uint8_t {
  mean,  ///< over all rows of the whole tensor that count, by the weights of their targets; NaN if none does
  sum,
};

/// Defaults and meaning are those of PyTorch's `F.cross_entropy`, whose `weight` is `class_weights`.
struct CrossEntropyOptions {
  Index ignore_index = ignore_index_default;  ///< rows with this target do not count
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  ///< e in (1 - e) · loss + e · (mean of -log softmax over all classes)
  /// How much each class counts, the same on all ranks; empty: all count 1. With label smoothing, -log softmax of each
  /// class counts by its own.
  std::vector<double> class_weights = {};
};

namespace detail {

/// Throws unless these options make sense.
constexpr const CrossEntropyOptions& checked(const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail({"CrossEntropyLoss: label_smoothing is ", options.label_smoothing, ", but must be in [0, 1]"});
  }
  for (std::size_t c = 0; c < options.class_weights.size(); ++c) {
    const double weight = options.class_weights[c];
    if (!(weight >= 0 && weight < std::numeric_limits<double>::infinity()))
      fail({"CrossEntropyLoss: the weight of class ", c, " is ", weight,
            ", but must be finite, and 0 or more"});
  }
  return options;
}

/// The weights of the classes, as long as a tape needs them. Throws if they are not as many as there are classes.
template <class MeshType>
constexpr Buffer weights_for(const MeshType& mesh, const CrossEntropyOptions& options, Index classes) {
  const auto& weights = options.class_weights;
  if (!weights.empty() && static_cast<Index>(weights.size()) != classes)
    fail({"CrossEntropyLoss: there are ", weights.size(), " class_weights, but ", classes, " classes"});
  Buffer copy = allocate_buffer(mesh, static_cast<Index>(weights.size() * sizeof(double)));
  if (!mesh.dry()) std::copy(weights.begin(), weights.end(), static_cast<double*>(copy->data));
  return copy;
}
constexpr kernel::TargetDistribution target_distribution(const CrossEntropyOptions& options, Index classes,
                                                         const Buffer& weights) {
  kernel::TargetDistribution expected{classes, options.label_smoothing, options.ignore_index};
  if (!options.class_weights.empty()) expected.weights = static_cast<const double*>(weights->data);
  return expected;
}

/// Classes and rows may be cut: a result that would be pending has been reduced. `OfEachRow`: rows stay where they are.
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
struct WideLoss : TypeIs<Y> {};
template <class Y, bool OnTape, bool Tracked>
struct WideLoss<Abstract<Y, OnTape, Tracked>>
    : TypeIs<Abstract<typename WideLoss<Y>::type, OnTape, Tracked>> {};
template <class T, int Rank, class MeshType, class... Placements>
struct WideLoss<Tensor<T, Rank, MeshType, Placements...>>
    : TypeIs<Tensor<kernel::compute_t<T>, Rank, MeshType, Placements...>> {};

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

/// Writes the loss of all rows, from the terms of this rank's, or the losses; returns the divisor of their sum.
template <bool OfEachRow, TensorType Logits, TensorType Y, TensorType Targets, class Terms>
constexpr double write_loss(Y& y, const Targets& targets, const Terms* of_rows,
                            const kernel::TargetDistribution& expected, Reduction reduction) {
  using C = typename Y::Element;
  C* const to = y.mesh().dry() ? nullptr : y.writable().data;
  LossOfRows loss;
  if (to) loss = loss_of_rows(targets.view(), of_rows, expected, OfEachRow ? to : nullptr);
  MeshView(y.mesh()).all_reduce(&loss, 1, sharding_axes<Logits>(y.mesh(), false));
  if (y.mesh().dry()) return 1;
  check_targets(loss, targets.shape(), expected.classes);
  if (OfEachRow) return 1;
  const double rows = reduction == Reduction::mean ? loss.counted : 1;
  *to = static_cast<C>(loss.sum / rows);
  return rows;
}

/// The pullback. Logits without another handle become their gradient in place.
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
    if (recorder) recorder->compute(3 * logits.elements(), 2 * logits.bytes());
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

/// Both kinds.
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

  // Refused: the operands that a model passes, to a loss that takes its head.
  template <Operand X, Operand W, Operand Targets,
            IllFormed Why = WrittenOtherwise<Hint::use_LinearCrossEntropyLoss_which_takes_the_head_too>>
  static detail::abstract_result<Why, X> forward(const X&, const W&, const Targets&, double = 0);  // see Why

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
    detail::count_work(mesh, 4 * block.elements(), block.bytes());
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

  /// The value of `x`: taken out of it, if it is a `Var` given as an rvalue.
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

/// The loss of each row, in the shape of the targets; 0 where a target is `ignore_index`. It has the layout of the
/// logits' rows, `Replicate` where classes are sharded. It ignores `reduction`. Otherwise it is like
/// `CrossEntropyLoss`.
///
/// ```
/// auto each = CrossEntropyLossPerRow()(model(tape.constant(ids)), targets);   // [batch, sequence]
/// auto loss = redistribute<Replicate, Replicate>(sum(mul(each, tape.constant(how_much))));
/// ```
struct CrossEntropyLossPerRow : detail::CrossEntropy<true>, Module<CrossEntropyLossPerRow> {
  using CrossEntropy::CrossEntropy;
};

/// The divisor of the mean over the rows with these targets: how many count, or the sum of their targets' weights.
/// Of several micro-batches: the sum of their losses (`Reduction::sum`), divided by the sum of these, is the mean over
/// all rows. Collective over the axes that shard the targets; throws as the losses do for a target that is not a class.
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
