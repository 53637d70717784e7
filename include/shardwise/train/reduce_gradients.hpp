// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Finishes the gradients of a module that are pending sums, many in one collective: in buckets, as PyTorch's
/// DistributedDataParallel does (Li et al., "PyTorch Distributed", 2020).
///
/// ```
/// backward_and_reduce(loss, model, {.last = i + 1 == micro_batches});   // of micro-batch i
/// model.up.weight.finished_gradient();   // the sum: Replicate where the parameter is Reduced
/// ```
/// `reduce_gradients(model)` after `tape.backward(loss)` gives the same, without an overlap; an optimizer's step does
/// it too.

#include <limits>
#include <stdexcept>
#include <string>

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/tensor/bundles.hpp>

namespace shardwise {

struct ReduceOptions {
  /// Collectives of several gradients have at most this many bytes; what is larger by itself is reduced alone,
  /// without a copy. 0: each is reduced alone.
  Index bucket_bytes = Index{8} << 20;
  /// In how many buckets the communication goes on beside a backward pass; 0: the pass waits for each.
  int in_background = 2;
  /// No other backward pass will add to these gradients. If not, only those are reduced that rest sharded. What needs
  /// finished gradients (optimizers, `gradient_norm`, `clip_gradients`) refuses that.
  bool last = true;
};

namespace detail {

/// Throws `std::invalid_argument` for options that leave gradients unfinished.
constexpr const ReduceOptions& finishing(const ReduceOptions& options) {
  if (!options.last) {
    throw std::invalid_argument("ReduceOptions: last is false, but what comes here needs finished gradients");
  }
  return options;
}

/// The axes of more than one rank on which two layouts differ.
constexpr AxisSet changed_axes(const Layout& from, const Layout& to, const MeshSizes& sizes) {
  return axes_where(from.axes, [&](int axis) { return from[axis] != to[axis] && sizes[axis] > 1; });
}

}  // namespace detail

/// Takes gradients of parameters from where `backward` leaves them to where they rest, and in the last backward pass
/// of a step on to the finished ones. Beside a pass it learns from units what is complete.
class GradientReducer final : public BackwardTask {
 public:
  /// Throws `std::invalid_argument` for options out of range.
  constexpr explicit GradientReducer(const ReduceOptions& options = {.last = false})
      : buckets_(checked(options).bucket_bytes, options.in_background),
        units_(std::numeric_limits<Index>::max(), std::min(options.in_background, 1)),
        last_(options.last) {}

  /// The gradient of `parameter` is complete, as far as this pass goes.
  template <TensorType X, PackedSharding How>
  constexpr void reduce(const Parameter<X, How>& parameter) {
    using Cell = detail::ParameterCell<X, How>;
    buckets_.progress();
    units_.progress();
    auto& pending = *parameter.slot();
    if constexpr (Cell::waits()) {
      if (last_ && pending.filled()) {
        carry<typename Cell::Finished>(pending.take(), Finish<Cell>{parameter.cell()}, Phase::optimizer);
      }
    } else if (pending.filled()) {
      carry<typename Cell::Resting>(pending.take(), Rest<Cell>{parameter.cell()}, Phase::backward);
    } else if (last_) {
      finish_rested(parameter.cell());
    }
  }

  /// Gradients of fully sharded parameters have been handed over that are to be reduced together.
  constexpr void end_unit() { units_.start(); }
  /// Returns when all are where they go.
  constexpr void finish() override {
    units_.finish();
    buckets_.finish();
  }

 private:
  template <class Cell>
  struct Finish {
    static constexpr bool by_unit = false;
    Shared<Cell> cell;
    constexpr void operator()(GradientReducer&, typename Cell::Finished gradient) const {
      cell->finished.add(std::move(gradient));
    }
  };
  template <class Cell>
  struct Rest {
    static constexpr bool by_unit = Cell::is_gathered;
    Shared<Cell> cell;
    constexpr void operator()(GradientReducer& reducer, typename Cell::Resting gradient) const {
      cell->resting.add(std::move(gradient));
      if (reducer.last_) reducer.finish_rested(cell);
    }
  };
  template <class Cell>
  constexpr void finish_rested(const Shared<Cell>& cell) {
    if (!cell->resting.filled()) return;
    carry<typename Cell::Finished>(cell->resting.take(), Finish<Cell>{cell}, Phase::optimizer);
  }

  /// A gradient in a bundle, what it is to become, and where that goes.
  template <TensorType To, TensorType Gradient, class Deliver>
  class Carried final : public detail::Arrival {
   public:
    constexpr Carried(GradientReducer& reducer, Gradient gradient, Deliver deliver, Phase phase)
        : reducer_(reducer), gradient_(std::move(gradient)), deliver_(std::move(deliver)), phase_(phase) {}
    constexpr void arrived() override {
      if constexpr (std::same_as<Gradient, To>) {
        deliver_(reducer_, std::move(gradient_));
      } else if constexpr (same_data(Gradient::layout, To::layout)) {
        deliver_(reducer_, To(gradient_.mesh(), gradient_.shape(), gradient_.buffer()));
      } else {
        reducer_.carry_whole<To>(std::move(gradient_), std::move(deliver_), phase_);
      }
    }

   private:
    GradientReducer& reducer_;
    Gradient gradient_;
    Deliver deliver_;
    Phase phase_;
  };

  /// Carries a gradient to layout `To`: first along the axes that cut it, by a reduce-scatter, then along the
  /// others, by an all-reduce.
  template <TensorType To, TensorType From, class Deliver>
  constexpr void carry(From gradient, Deliver deliver, Phase phase) {
    using Cut = relaid<From, packed(cut_like(From::layout, To::layout))>;
    const auto mesh = gradient.mesh();
    if constexpr (!(From::layout == Cut::layout)) {
      if (const AxisSet axes = detail::changed_axes(From::layout, Cut::layout, mesh.sizes())) {
        Cut part(mesh, gradient.shape(), MemoryUse::gradient);
        const Index count = elements(gradient.local_shape());
        const Buffer whole = gradient.buffer(), cut = part.buffer();
        const auto shape = detail::BundledTensor::padded<From::rank>(gradient.shape());
        gradient = From();
        return send<To>(mesh, {Collective::reduce_scatter, axes, MemoryUse::gathered, phase},
                        {shape, Cut::layout, whole, cut, count}, std::move(part), std::move(deliver));
      }
    }
    if constexpr (std::same_as<From, Cut>) {
      carry_whole<To>(std::move(gradient), std::move(deliver), phase);
    } else {
      Cut same(mesh, gradient.shape(), gradient.buffer());
      gradient = From();  // the only handle may be reduced in place
      carry_whole<To>(std::move(same), std::move(deliver), phase);
    }
  }
  template <TensorType To, TensorType Cut, class Deliver>
  constexpr void carry_whole(Cut gradient, Deliver deliver, Phase phase) {
    const auto mesh = gradient.mesh();
    if constexpr (!(Cut::layout == To::layout)) {
      if (const AxisSet axes = detail::changed_axes(Cut::layout, To::layout, mesh.sizes())) {
        const Index count = elements(gradient.local_shape());
        GradientSlot<Cut> slot(MemoryUse::gradient);
        slot.add(std::move(gradient));
        slot.own();  // reduced in place
        Cut own = slot.take();
        const Buffer whole = own.buffer();
        const auto shape = detail::BundledTensor::padded<Cut::rank>(own.shape());
        return send<To>(mesh, {Collective::all_reduce, axes, MemoryUse::gathered, phase},
                        {shape, Cut::layout, whole, {}, count}, To(mesh, own.shape(), whole),
                        std::move(deliver));
      }
    }
    deliver(*this, To(mesh, gradient.shape(), gradient.buffer()));
  }
  template <TensorType To, class MeshType, TensorType Gradient, class Deliver>
  constexpr void send(const MeshType& mesh, const detail::BundleWay& way, detail::BundledTensor tensor,
                      Gradient gradient, Deliver deliver) {
    tensor.arrival = make_pooled<Carried<To, Gradient, Deliver>>(*this, std::move(gradient),
                                                                 std::move(deliver), way.phase);
    detail::Bundles& bundles = Deliver::by_unit ? units_ : buckets_;
    bundles.add<typename To::Element>(mesh, way, std::move(tensor));
  }

  static constexpr const ReduceOptions& checked(const ReduceOptions& options) {
    if (options.bucket_bytes < 0) {
      throw std::invalid_argument("reduce_gradients: bucket_bytes is " +
                                  std::to_string(options.bucket_bytes) + ", which must be 0 or more");
    }
    if (options.in_background < 0) {
      throw std::invalid_argument("reduce_gradients: in_background is " +
                                  std::to_string(options.in_background) + ", which must be 0 or more");
    }
    return options;
  }

  detail::Bundles buckets_;
  detail::Bundles units_;  ///< of fully sharded parameters, each gathered and reduced by itself
  bool last_;
};

/// Moves the gradient of each parameter of `module` from where `backward` left it to `finished_gradient()`, where it
/// is added to what is there. Those that are pending on axes of more than one rank are summed: those with the same
/// element type, mesh and axes together, in the order of `visit`, by one collective a bucket: a reduce-scatter where
/// the finished gradient is sharded, else an all-reduce. Collective over these axes. The others only change their
/// type. All ranks must have gradients for the same parameters.
/// Throws `std::invalid_argument` if an option is negative.
template <class Module>
constexpr void reduce_gradients(Module& module, const ReduceOptions& options = {}) {
  GradientReducer reducer(options);
  for_each_parameter(module, [&](auto& parameter) { reducer.reduce(parameter); });
  reducer.finish();
}

namespace detail {

/// A task beside a backward pass, for no longer than a scope, also if the pass throws.
class TaskScope {
 public:
  constexpr TaskScope(Tape& tape, BackwardTask& task) : tape_(tape) { tape.set_task(&task); }
  constexpr ~TaskScope() { tape_.set_task(nullptr); }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

 private:
  Tape& tape_;
};

}  // namespace detail

/// `loss.tape().backward(loss)` and `reduce_gradients`; but the reductions begin while the pass goes on, bucket by
/// bucket, as soon as the gradients of the `Unit`s are complete.
template <class Loss, class Module, class Problem = typename detail::LossProblem<Loss>::type>
constexpr void backward_and_reduce(const Loss& loss, Module& module, const ReduceOptions& options = {}) {
  {
    GradientReducer reducer(options);
    const detail::TaskScope scope(loss.tape(), reducer);
    loss.tape().backward(loss);
  }
  reduce_gradients(module, options);
}
template <class Loss, class Module, IllFormed Why = typename detail::LossProblem<Loss>::type>
Why backward_and_reduce(const Loss&, Module&, const ReduceOptions& = {});  // see Why

}  // namespace shardwise
