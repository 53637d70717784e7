// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The computation of `LinearCrossEntropyLoss` for some rows at a time, and its nodes on a tape.

#include <shardwise/kernel/cross_entropy.hpp>
#include <shardwise/kernel/gemm.hpp>
#include <shardwise/ops/op_node.hpp>

namespace shardwise::detail {

/// This rank's blocks of x, of the head's weight w, [classes, features], and of the targets.
template <class T, int Rank, class Id>
struct HeadBlocks {
  Input<T, Rank> x;
  Input<T, 2> w;
  const Id* targets;
  kernel::TargetDistribution expected;
  Index at_a_time;     ///< rows of a piece
  double softcap = 0;  ///< above 0: logits are softcap · tanh(product / softcap)
  /// Accumulates the gradient of w in float, if it is bfloat16 and there are several pieces; else null.
  kernel::compute_t<T>* wide = nullptr;

  constexpr Index rows() const { return x.rows(); }
  constexpr Index classes() const { return w.rows(); }
  constexpr Index features() const { return w.columns(); }
  constexpr Index elements() const { return rows() * classes(); }
  constexpr std::int64_t product_flops() const { return 2 * elements() * features(); }
  /// Bytes that this number of products, and the loss of all rows, read and write.
  constexpr Index moved_bytes(int products) const {
    const Index pieces = (rows() + at_a_time - 1) / std::max<Index>(at_a_time, 1);
    return products * (pieces * w.bytes() + x.bytes()) + 4 * elements() * static_cast<Index>(sizeof(T));
  }
  constexpr Index bytes_of_piece() const {
    return std::min(at_a_time, rows()) * classes() * static_cast<Index>(sizeof(T));
  }
  /// The size of `wide`, or 0 if it is not needed.
  constexpr Index bytes_of_sum() const {
    using C = kernel::compute_t<T>;
    if (std::is_same_v<T, C> || rows() <= at_a_time) return 0;
    return classes() * features() * static_cast<Index>(sizeof(C));
  }
  /// f(first, count) for the rows of each piece; with a count of 0 if there are no rows.
  template <class F>
  constexpr void for_each_piece(F f) const {
    Index first = 0, count = 0;
    do {
      count = std::min(at_a_time, rows() - first);
      f(first, count);
      first += count;
    } while (first < rows());
  }

  /// f(class, count) for blocks of classes: products of few rows with many classes were up to 17 % faster in blocks
  /// that fit the cache (oneDNN on a Xeon; 256 rows, 16000 classes, 256 features). In bfloat16, oneDNN is faster on
  /// contiguous rows.
  template <class F>
  void for_each_class_block(F f) const {
    const Index most = std::is_same_v<T, kernel::compute_t<T>> ? 1024 : std::max<Index>(classes(), 1);
    for (Index c = 0; c < classes(); c += most) f(c, std::min(most, classes() - c));
  }

  void logits(Index first, Index count, T* piece) const {
    for_each_class_block([&](Index c, Index block) {
      kernel::gemm(kernel::Transpose::no, kernel::Transpose::yes, count, block, features(),
                   x.data + first * features(), features(), w.data + c * features(), features(), piece + c,
                   classes(), false);
    });
    if (softcap == 0) return;
    using C = kernel::compute_t<T>;
    const C most = static_cast<C>(softcap), factor = static_cast<C>(1 / softcap);
    kernel::map(
        count * classes(), piece, [=](C product) { return most * kernel::tanh(product * factor); }, piece);
  }
  template <class Terms>
  void terms(Index first, Index count, const T* piece, Terms* of_rows) const {
    kernel::row_terms(count, classes(), w.begin[0], piece, targets + first, of_rows + first, expected);
  }
  /// Adds the gradients of these rows' loss times `factor`, or times each row's `factors`. It overwrites the logits.
  template <class Terms>
  void pull_back(Index first, Index count, T* piece, const Terms* of_rows, double factor,
                 const kernel::compute_t<T>* factors = nullptr) const {
    using kernel::Transpose;
    pull_back_logits(first, count, piece, of_rows, factor, factors);
    if (x.gradient) {
      kernel::gemm(Transpose::no, Transpose::no, count, features(), classes(), piece, classes(), w.data,
                   features(), x.gradient + first * features(), features(), x.accumulate);
    }
    const auto add_to = [&](auto* sum, bool accumulate) {
      for_each_class_block([&](Index c, Index block) {
        kernel::gemm(Transpose::yes, Transpose::no, block, features(), count, piece + c, classes(),
                     x.data + first * features(), features(), sum + c * features(), features(), accumulate);
      });
    };
    if (wide) {
      add_to(wide, first > 0);
    } else if (w.gradient) {
      add_to(w.gradient, w.accumulate || first > 0);
    }
  }
  /// Replaces logits by the gradients of the products.
  template <class Terms>
  void pull_back_logits(Index first, Index count, T* piece, const Terms* of_rows, double loss_factor,
                        const kernel::compute_t<T>* factors) const {
    const auto pull_back_rows = [&](Index row, Index rows, T* logits) {
      kernel::cross_entropy_backward(rows, classes(), w.begin[0], logits, of_rows + row, targets + row,
                                     expected, loss_factor, logits, factors ? factors + row : nullptr);
    };
    if (softcap == 0) return pull_back_rows(first, count, piece);
    using C = kernel::compute_t<T>;
    struct CapSlopes;
    C* slopes = kernel::scratch<CapSlopes, C>(classes());
    const C factor = static_cast<C>(1 / softcap);
    for (Index r = 0; r < count; ++r, piece += classes()) {
      kernel::map(
          classes(), slopes, [=](C logit) { return 1 - logit * factor * (logit * factor); }, piece);
      pull_back_rows(first + r, 1, piece);  // overwrites the logits
      kernel::map(
          classes(), piece, [](C gradient, C slope) { return gradient * slope; }, piece, slopes);
    }
  }
  /// Rounds `wide` to the gradient, after the last piece.
  void round_sum() const {
    if (!wide) return;
    const Index count = classes() * features();
    if (w.accumulate) kernel::accumulate_wide(count, w.gradient, wide);
    kernel::convert(count, wide, w.gradient);
  }
};

/// The pullback of a loss L whose forward computed the gradients for a mean over `expected` rows. It only applies a
/// factor, which is 1 if exactly `expected` rows count.
template <class T, class L>
class ComputedGradientsNode final : public TapeNode {
 public:
  struct Gradient {
    Buffer block;
    Shared<GradientSlot> slot;
  };

  constexpr ComputedGradientsNode(Gradient w, Gradient x, const MeshView& mesh, double rows, double expected,
                                  const Shared<GradientSlot>& loss)
      : gradients_{std::move(w), std::move(x)}, mesh_(mesh), rows_(rows), expected_(expected), loss_(loss) {
    for (Gradient& gradient : gradients_) {
      if (gradient.block) gradient.slot->expect();
    }
  }

  constexpr bool pull_back(BackwardPart part) override {
    Buffer dy = left_;  // (g++ 12 miscounts the handles of `?:`)
    if (part != BackwardPart::parameters) dy = loss_->pass();
    if (!dy) return false;
    for (Gradient& gradient : gradients_) {
      if (!gradient.block) continue;
      if (part == BackwardPart::inputs && gradient.slot->use() != MemoryUse::activation) {
        left_ = dy;
        continue;
      }
      const Index count = gradient.block->bytes / static_cast<Index>(sizeof(T));
      count_work(mesh_, count, 2 * gradient.block->bytes);
      if (dy->data) scale(count, static_cast<const L*>(dy->data), static_cast<T*>(gradient.block->data));
      gradient.slot->add(std::move(gradient.block), element_sum<T>, mesh_.recorder());
      gradient.slot->settle();
    }
    return part == BackwardPart::inputs && left_;
  }

 private:
  void scale(Index count, const L* dy, T* gradient) const {
    using C = kernel::compute_t<T>;
    if (rows_ == 0) return;  // no row counts, and all is 0
    const auto factor = static_cast<C>(static_cast<double>(*dy) * expected_ / rows_);
    if (factor == C{1}) return;
    kernel::map(
        count, gradient, [=](C value) { return value * factor; }, gradient);
  }

  std::array<Gradient, 2> gradients_;  // the parameter's first, because it is communicated
  MeshView mesh_;
  double rows_;      // the divisor of the sum
  double expected_;  // the divisor with which the gradients were computed
  ResultSlot loss_;
  Buffer left_;  // the loss's gradient, until the parameter gets its own
};

/// The pullback that computes the logits again, for a loss L or for the losses of each row.
template <class Terms, class L, bool OfEachRow, class T, int Rank, TensorType Targets>
struct LinearCrossEntropyPullback {
  NodeInput<T, Rank> x;
  NodeInput<T, 2> w;
  Targets targets;
  Buffer terms;
  Buffer weights;  // the data of `expected`
  kernel::TargetDistribution expected;
  Index at_a_time;
  double softcap;
  double rows;  // the divisor of the sum
  ResultSlot loss;

  constexpr bool operator()(BackwardPart) {
    const Buffer dy = loss->pass();
    if (!dy) return false;
    x.fetch();
    w.fetch();
    Recorder* recorder = targets.mesh().recorder();
    GradientTarget dx(x.slot, dy, x.bytes(), recorder, true, false);
    GradientTarget dw(w.slot, dy, w.bytes(), recorder, true, false);
    HeadBlocks<T, Rank, typename Targets::Element> head{{x.extents}, {w.extents}, nullptr,
                                                        expected,    at_a_time,   softcap};
    const Buffer piece = allocate_buffer(dy, recorder, head.bytes_of_piece(), MemoryUse::activation);
    const Index bytes_of_sum = w.slot ? head.bytes_of_sum() : 0;
    const Buffer sum = allocate_buffer(dy, recorder, bytes_of_sum, MemoryUse::activation);
    if (recorder) {
      recorder->compute(((x.slot ? 2 : 1) + (w.slot ? 1 : 0)) * head.product_flops() + 3 * head.elements(),
                        head.moved_bytes((x.slot ? 2 : 1) + (w.slot ? 1 : 0)), "linear_cross_entropy");
    }
    if (!targets.mesh().dry()) {
      head.x = dx.argument(x.extents);
      head.w = dw.argument(w.extents);
      head.targets = targets.data();
      if (bytes_of_sum > 0) head.wide = static_cast<kernel::compute_t<T>*>(sum->data);
      const auto* of_loss = static_cast<const L*>(dy->data);
      const double factor = OfEachRow ? 1 : static_cast<double>(*of_loss) / rows;
      T* logits = static_cast<T*>(piece->data);
      head.for_each_piece([&](Index first, Index count) {
        head.logits(first, count, logits);
        head.pull_back(first, count, logits, static_cast<const Terms*>(terms->data), factor,
                       OfEachRow ? of_loss : nullptr);
      });
      head.round_sum();
    }
    dx.deliver(dy, element_sum<T>, recorder);
    dw.deliver(dy, element_sum<T>, recorder);
    return false;
  }
};

}  // namespace shardwise::detail
