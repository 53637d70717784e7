// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `LinearCrossEntropyLoss`: a head and the cross entropy of its logits in one, for some rows at a time, so that the
/// logits of all rows, the largest tensor of a language model, never exist at once, nor does their gradient (Hsu et
/// al., "Liger kernel", 2024; classes may be sharded as in `CrossEntropyLoss`).
///
/// ```
/// const LinearCrossEntropyLoss criterion({.label_smoothing = 0.1});
/// auto loss = criterion(x, head, targets);   // what CrossEntropyLoss makes of head(x)
/// tape.backward(loss);
/// ```

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/head_blocks.hpp>
#include <shardwise/ops/linear.hpp>

namespace shardwise {

/// How many rows are processed at a time.
struct LossPieces {
  Index rows = 256;  ///< whose logits exist at a time
  /// One all-reduce for all rows, where classes are sharded: the backward pass must then compute the logits again.
  /// Otherwise there is one for each piece.
  bool one_all_reduce = false;
};

namespace detail {

/// The rule of the product, and of the loss of what it gives.
template <bool OfEachRow>
struct LinearCrossEntropyLossRule {
  static constexpr Signature signature =
      Signature::of(OfEachRow ? "...k, ck, ... -> ..." : "...k, ck, ... ->").without_gradient(2);
  static constexpr Propagated rule(const Signature& own, const OperandPlacements& at) {
    const Indices &x = own.operands[0], &w = own.operands[1], &targets = own.operands[2];
    const Indices classes = targets.then('c');
    const Propagated logits = propagate(Signature::of(x, w, classes).linear_in_each().whole('k'), at);
    if (!logits.legal()) return logits;
    return CrossEntropyLossRule<OfEachRow>::rule(
        Signature::of(classes, targets, own.result).without_gradient(1), {logits.placement, at[2]});
  }
};

/// The base of both losses.
template <bool OfEachRow>
class LinearCrossEntropy {
 public:
  /// Throws `std::invalid_argument` if `label_smoothing` is not in [0, 1], a weight is negative or not finite, or a
  /// piece has no rows.
  constexpr explicit LinearCrossEntropy(const CrossEntropyOptions& options = {},
                                        const LossPieces& pieces = {})
      : options_(detail::checked(options)), pieces_(pieces) {
    if (pieces.rows < 1) {
      detail::fail({"LinearCrossEntropyLoss: a piece has ", pieces.rows, " rows, but must have 1 or more"});
    }
  }

  /// x: [r…, features]; w: [classes, features]; targets: integers [r…]. The same as `CrossEntropyLoss` of `linear(x,
  /// w)` and the targets, with its layouts and errors, up to rounding: the gradient of w accumulates piece by piece,
  /// in float if it is bfloat16. A `softcap` above 0 replaces logits by softcap · tanh(logit / softcap) (Gemma 2).
  ///
  /// On a tape, each piece's gradients are computed as soon as its terms are: no product is computed twice, and what is
  /// kept until the backward pass are the gradients of x and w. If classes are sharded there is one all-reduce for each
  /// piece, of three numbers a row (four with label smoothing), unless `one_all_reduce`: then x and w are kept, and the
  /// backward pass computes the logits again.
  template <Operand X, Operand W, Operand Targets>
  constexpr auto forward(const X& x, const W& w, const Targets& targets, double softcap = 0) const {
    using Result = typename detail::WideLoss<
        result_of<detail::LinearCrossEntropyLossRule<OfEachRow>, X, W, Targets>>::type;
    if constexpr (AbstractOperand<Result>) {
      return Result{};
    } else {
      using C = typename Result::Element;
      if (options_.label_smoothing > 0) {
        return run<kernel::SmoothedRowTerms<C>, Result>(x, w, targets, softcap);
      }
      return run<kernel::RowTerms<C>, Result>(x, w, targets, softcap);
    }
  }
  /// The same of a head, a `Linear` without bias, which gets x in the layout that it wants.
  template <Operand X, class Head, Operand Targets>
    requires(!Operand<Head>)
  constexpr auto forward(const X& x, const Head& head, const Targets& targets) const {
    using Bias = decltype(head.bias);
    if constexpr (Operand<Bias>) {
      return redistribute_to<layout_error<Reason::head_of_this_loss_has_a_bias, Got<tensor_of<Bias>>>>(x);
    } else {
      return forward(head.take(x), head.weight, targets);
    }
  }

  constexpr void visit(auto&&) {}

 private:
  template <class Terms, class Y, class X, class W, class Targets>
  constexpr auto run(const X& x_given, const W& w_given, const Targets& targets_given, double softcap) const {
    constexpr bool tracked = any_tracked<X, W, Targets>;
    using T = typename tensor_of<X>::Element;
    using Logits = result_of<LinearOp<1>, tensor_of<X>, tensor_of<W>>;
    const auto& x = value_of(x_given);
    const auto& w = value_of(w_given);
    const auto& targets = value_of(targets_given);
    const auto& mesh = common_mesh(x, w, targets);
    detail::check_rows(detail::shape_of_result(LinearOp<1>(), x.shape(), w.shape()), targets.shape());
    auto y = detail::empty_loss<Y>(targets);
    const Buffer weights = detail::weights_for(mesh, options_, w.shape()[0]);

    detail::HeadBlocks<T, tensor_of<X>::rank, typename tensor_of<Targets>::Element> head{
        {x.view()},   {w.view()}, nullptr, detail::target_distribution(options_, w.shape()[0], weights),
        pieces_.rows, softcap};
    const AxisSet over_classes = detail::sharding_axes<Logits>(mesh, true);
    double all_rows = 1;  // that the sum is divided by if all count
    if (options_.reduction == Reduction::mean) all_rows = static_cast<double>(elements(targets.shape()));
    const bool at_once = tracked && !OfEachRow && (over_classes == 0 || !pieces_.one_all_reduce);
    Buffer dx, dw;
    if constexpr (tracked) {
      if (at_once) {
        dx = gradient_block(mesh, x_given, head.x);
        dw = gradient_block(mesh, w_given, head.w);
      }
    }
    const Buffer terms = allocate_buffer(mesh, head.rows() * static_cast<Index>(sizeof(Terms)));
    const int products = 1 + (dx ? 1 : 0) + (dw ? 1 : 0);
    detail::count_work(mesh, products * head.product_flops() + (at_once ? 7 : 4) * head.elements(),
                       head.moved_bytes(products), "linear_cross_entropy");
    Terms* of_rows = nullptr;
    T* logits = nullptr;
    {
      const Buffer piece = allocate_buffer(mesh, head.bytes_of_piece());
      const Index bytes_of_sum = dw ? head.bytes_of_sum() : 0;
      const Buffer sum = allocate_buffer(mesh, bytes_of_sum);
      if (!mesh.dry()) {
        if (bytes_of_sum > 0) head.wide = static_cast<kernel::compute_t<T>*>(sum->data);
        head.targets = targets.data();
        of_rows = static_cast<Terms*>(terms->data);
        logits = static_cast<T*>(piece->data);
      }
      head.for_each_piece([&](Index first, Index count) {
        if (!mesh.dry()) {
          head.logits(first, count, logits);
          head.terms(first, count, logits, of_rows);
        }
        if (!at_once) return;
        MeshView(mesh).all_reduce(of_rows ? of_rows + first : nullptr, count, over_classes);
        if (!mesh.dry()) head.pull_back(first, count, logits, of_rows, 1 / all_rows);
      });
      if (!mesh.dry()) head.round_sum();
    }
    if (!at_once) MeshView(mesh).all_reduce(of_rows, head.rows(), over_classes);
    const double rows =
        detail::write_loss<OfEachRow, Logits>(y, targets, of_rows, head.expected, options_.reduction);

    return on_common_tape(
        std::move(y),
        [&](Tape& tape, const Y&, const auto& slot) {
          using L = typename Y::Element;
          if (at_once) {
            using Node = detail::ComputedGradientsNode<T, L>;
            using Gradient = typename Node::Gradient;
            tape.record<Node>(Gradient{std::move(dw), slot_of(w_given)},
                              Gradient{std::move(dx), slot_of(x_given)}, MeshView(mesh), rows, all_rows,
                              slot);
          } else {
            using Pullback = detail::LinearCrossEntropyPullback<Terms, L, OfEachRow, T, tensor_of<X>::rank,
                                                                tensor_of<Targets>>;
            tape.record<PullbackNode<Pullback>>(
                Pullback{detail::node_input(x_given, true), detail::node_input(w_given, true), targets, terms,
                         weights, head.expected, pieces_.rows, softcap, rows, slot});
          }
          return Shared<Recipe>();
        },
        x_given, w_given, targets_given);
  }

  /// Where the gradient of an operand goes in the forward pass; nowhere, if it has none.
  template <class MeshType, class X, class Block>
  static constexpr Buffer gradient_block(const MeshType& mesh, const X& x, Block& block) {
    Buffer gradient;
    if constexpr (OperandTraits<X>::tracked) {
      using T = typename tensor_of<X>::Element;
      gradient = allocate_buffer(mesh, block.elements() * static_cast<Index>(sizeof(T)), slot_of(x)->use());
      if (!mesh.dry()) block.gradient = static_cast<T*>(gradient->data);
    }
    return gradient;
  }

  CrossEntropyOptions options_;
  LossPieces pieces_;
};

}  // namespace detail

struct LinearCrossEntropyLoss : detail::LinearCrossEntropy<false>, Module<LinearCrossEntropyLoss> {
  using LinearCrossEntropy::LinearCrossEntropy;
  LinearCrossEntropyLoss(const Operand auto&, const auto&...) = delete;  // …Loss(options)(x, head, targets)
};

/// The loss of each row, as in `CrossEntropyLossPerRow`. The factor of a row's loss is known in the backward pass
/// only, so there is one all-reduce of all rows, and the backward pass computes the logits again.
struct LinearCrossEntropyLossPerRow : detail::LinearCrossEntropy<true>, Module<LinearCrossEntropyLossPerRow> {
  using LinearCrossEntropy::LinearCrossEntropy;
};

}  // namespace shardwise
