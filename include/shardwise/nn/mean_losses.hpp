// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Losses that are means over all elements, however these are sharded: `mse_loss`, `l1_loss`, `bce_with_logits_loss`.
///
/// ```
/// auto loss = mse_loss(model(x), tape.constant(target));
/// tape.backward(loss);
/// ```
/// Forward: one all-reduce of a number over the axes that shard elements. Backward: no communication.

#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/elementary.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

namespace detail {

/// Each formula has its value, and its slopes in x and in the target t.

struct SquaredError {
  static constexpr const char* name = "mse_loss";
  static auto value(auto x, auto t) { return (x - t) * (x - t); }
  static auto slope(auto x, auto t) { return 2 * (x - t); }
  static auto target_slope(auto x, auto t) { return 2 * (t - x); }
};

struct AbsoluteError {
  static constexpr const char* name = "l1_loss";
  static auto value(auto x, auto t) { return std::abs(x - t); }
  static auto slope(auto x, auto t) { return static_cast<decltype(x)>((x > t) - (x < t)); }
  static auto target_slope(auto x, auto t) { return slope(t, x); }
};

/// -t · log σ(x) - (1 - t) · log(1 - σ(x)), with σ(x) = 1 / (1 + exp(-x)).
struct BinaryCrossEntropy {
  static constexpr const char* name = "bce_with_logits_loss";
  static auto value(auto x, auto t) { return kernel::softplus(x) - x * t; }
  static auto slope(auto x, auto t) { return kernel::sigmoid(x) - t; }
  static auto target_slope(auto x, auto) { return -x; }
};

}  // namespace detail

/// The mean of a formula over the global elements. `F`: one of the structs above.
template <class F>
struct MeanLossOp {
  static constexpr const char* name = F::name;
  static constexpr Signature signature = Signature::of("..., ... ->");
  static constexpr Saved saved{.inputs = 0b11};

  static constexpr std::int64_t flops(const auto&, const auto& x, const auto&) { return 3 * x.elements(); }

  template <class T, int Rank>
  static void forward(View<T, 0> y, void*, View<const T, Rank> x, View<const T, Rank> t) {
    double sum = 0;
    for (Index i = 0; i < x.elements(); ++i) {
      sum += static_cast<double>(F::value(kernel::widen(x.data[i]), kernel::widen(t.data[i])));
    }
    *y.data = kernel::narrow<T>(static_cast<kernel::compute_t<T>>(sum / count(x)));
  }
  template <class T, int Rank>
  static void pull_back(View<const T, 0> dy, View<const T, 0>, const void*, Input<T, Rank> x,
                        Input<T, Rank> t) {
    using C = kernel::compute_t<T>;
    const C factor = static_cast<C>(static_cast<double>(kernel::widen(*dy.data)) / count(x));
    const auto slopes = [&](T* gradient, auto slope) {
      if (gradient) {
        kernel::map(
            x.elements(), gradient, [=](C a, C b) { return factor * slope(a, b); }, x.data, t.data);
      }
    };
    slopes(x.gradient, [](C a, C b) { return F::slope(a, b); });
    slopes(t.gradient, [](C a, C b) { return F::target_slope(a, b); });
  }

 private:
  static double count(const auto& x) { return static_cast<double>(elements(x.shape)); }
};

namespace detail {

/// The type of a loss whose pending sums are finished. A `LayoutError` stays what it is.
template <class Y>
struct FinishedLoss : TypeIs<Y> {};
template <TensorType Y>
struct FinishedLoss<Y> : TypeIs<with_layout<Y, packed(without_pending(Y::layout, replicate))>> {};

template <class Op, class X, class Target>
constexpr auto mean_loss(const X& x, const Target& target) {
  auto y = apply(Op{}, x, target);
  return redistribute_to<typename FinishedLoss<tensor_of<decltype(y)>>::type>(std::move(y));
}

}  // namespace detail

// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define SHARDWISE_MEAN_LOSS(name, F)                                                            \
  template <Operand X, Operand Target, WellFormed Result = result_of<MeanLossOp<F>, X, Target>> \
  constexpr auto name(const X& x, const Target& target) {                                       \
    return detail::mean_loss<MeanLossOp<F>>(x, target);                                         \
  }                                                                                             \
  template <class X, class Target, IllFormed Why = result_of<MeanLossOp<F>, X, Target>>         \
  Why name(const X&, const Target&)
// NOLINTEND(bugprone-macro-parentheses)

/// The mean of (x - target)². This and the losses below take two tensors of one shape and layout. The result is a
/// scalar in their element type, the same on the ranks that share the elements; NaN without elements. Collective over
/// the axes that shard them. Throws `std::invalid_argument` if the shapes differ.
SHARDWISE_MEAN_LOSS(mse_loss, detail::SquaredError);

/// The mean of |x - target|; its slope at 0 is 0.
SHARDWISE_MEAN_LOSS(l1_loss, detail::AbsoluteError);

/// The binary cross entropy of logits x and targets, which are probabilities, from 0 to 1.
SHARDWISE_MEAN_LOSS(bce_with_logits_loss, detail::BinaryCrossEntropy);
#undef SHARDWISE_MEAN_LOSS

}  // namespace shardwise
