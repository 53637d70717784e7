// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The norm of all gradients of a module, and clipping by it (Pascanu, Mikolov and Bengio, "On the difficulty of
/// training recurrent neural networks", 2013), as torch.nn.utils.clip_grad_norm_ does.
///
/// ```
/// tape.backward(loss);
/// double norm = clip_gradients(model, 1.0);   // before clipping
/// optimizer.step(model);                      // with the clipped gradients
/// ```

#include <shardwise/kernel/update.hpp>
#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise {

namespace detail {

/// The axes of more than one rank.
constexpr AxisSet axes_of_many(const MeshView& mesh) {
  return axes_where(mesh.axes(), [&](int axis) { return mesh.sizes()[axis] > 1; });
}

/// Of the ranks that have the same block of a tensor, is this the first? So that each element of the whole tensor
/// counts once.
constexpr bool counts_here(const AnyTensor& x) {
  for (int axis = 0; axis < x.layout.axes; ++axis) {
    if (!x.layout[axis].is_shard() && x.mesh.coordinates()[axis] != 0) return false;
  }
  return true;
}

/// The part of a norm that this rank knows, and the ranks that know the others: those of the one mesh on which all
/// parameters live.
class NormOfRanks {
 public:
  /// Σ x² or max |x|.
  constexpr explicit NormOfRanks(bool maximum) : maximum_(maximum) {}

  constexpr void count(ParameterCell& cell) {
    join(cell.stored.mesh);
    const AnyTensor gradient = cell.finished_gradient();
    if (!gradient || !counts_here(gradient)) return;
    PhaseScope phase(recorder_, Phase::optimizer);
    const Index elements = gradient.local_elements();
    if (recorder_) recorder_->compute(2 * elements);
    if (dry_) return;
    if (maximum_) {
      part_ = larger(part_, cell.functions.largest_magnitude(elements, gradient.buffer->data));
    } else {
      part_ += cell.functions.sum_of_squares(elements, gradient.buffer->data);
    }
  }

  /// The norm, the same on every rank. Collective.
  constexpr double finish() {
    PhaseScope phase(recorder_, Phase::optimizer);
    if (axes_ != 0 && recorder_) recorder_->communicate(Collective::all_reduce, recorded_, sizeof(double));
    return dry_ ? 0 : over_all_ranks();
  }

 private:
  constexpr void join(const MeshView& mesh) {
    const AxisSet axes = axes_of_many(mesh);
    const Communicator* ranks = mesh.dry() || axes == 0 ? nullptr : &mesh.communicator(axes);
    const bool same = ranks == ranks_ && axes == axes_ && mesh.recorder() == recorder_;
    if (!first_ && !same) {
      throw std::invalid_argument("gradient_norm: the module's parameters live on two different meshes");
    }
    first_ = false;
    ranks_ = ranks;
    axes_ = axes;
    recorded_ = mesh.recorded(axes);
    recorder_ = mesh.recorder();
    dry_ = mesh.dry();
  }

  double over_all_ranks() const {
    double sum = part_;
    auto bits = std::bit_cast<std::int64_t>(part_);
    if (ranks_ && maximum_) ranks_->all_reduce(&bits, &bits, 1, DataType::i64, ReduceOp::max);
    if (ranks_ && !maximum_) ranks_->all_reduce(&sum, &sum, 1, DataType::f64, ReduceOp::sum);
    return maximum_ ? std::bit_cast<double>(bits) : std::sqrt(sum);
  }
  /// By their bits, which order numbers from 0 on, and NaN above them: a maximum of the numbers would lose NaN.
  static double larger(double a, double b) {
    return std::bit_cast<double>(std::max(std::bit_cast<std::int64_t>(a), std::bit_cast<std::int64_t>(b)));
  }

  bool maximum_;
  bool first_ = true, dry_ = true;
  double part_ = 0;
  const Communicator* ranks_ = nullptr;
  AxisSet axes_ = 0, recorded_ = 0;  // as the mesh names them, and as the recorder does
  Recorder* recorder_ = nullptr;
};

}  // namespace detail

/// The norm of all gradients of `module`, taken as one vector: √(Σ g²) for p = 2, max |g| for p = ∞. Every element
/// of the model counts once, however it is replicated. Calls `reduce_gradients(module, options)`; then one
/// all-reduce of one number over the whole mesh, if it has more than one rank. Computed in `double`. NaN if a
/// gradient is NaN; 0 without gradients, and on a dry mesh.
/// Throws `std::invalid_argument` for another p, if `options.last` is false, and if the parameters live on more than
/// one mesh.
template <class Module>
constexpr double gradient_norm(Module& module, double p = 2, const ReduceOptions& options = {}) {
  const bool maximum = p == std::numeric_limits<double>::infinity();
  if (p != 2 && !maximum) {
    detail::fail({"gradient_norm: p is ", p, ", which must be 2 or infinity"});
  }
  reduce_gradients(module, detail::finishing(options));
  detail::NormOfRanks norm(maximum);
  for (detail::ParameterCell* cell : detail::distinct(detail::parameters_of(module))) norm.count(*cell);
  return norm.finish();
}

template <DividedModule Stages>
double gradient_norm(Stages&, double = 2,
                     const ReduceOptions& = {}) = delete;  // see Pipeline::clip_gradients

namespace detail {

/// Multiplies finished gradients whose norm is `norm`.
constexpr void clip_to(double max_norm, double norm, const ParameterList& cells) {
  const double factor = max_norm / (norm + 1e-6);
  const bool clips = factor < 1 && norm <= std::numeric_limits<double>::max();
  for (ParameterCell* cell : distinct(cells)) {
    if (!cell->finished.filled()) continue;
    Recorder* recorder = cell->stored.mesh.recorder();
    PhaseScope phase(recorder, Phase::optimizer);
    const Buffer& gradient = cell->finished.own(recorder);
    const Index elements = gradient->bytes / cell->stored.element_bytes();
    if (recorder) recorder->compute(elements);
    if (clips && gradient->data) cell->functions.scale(elements, factor, gradient->data);
  }
}

}  // namespace detail

/// Multiplies all gradients of `module` by min(1, max_norm / (norm + 1e-6)), in place, and returns the norm before:
/// `gradient_norm(module, p, options)`, which is all that communicates. Where the factor is 1, gradients stay as they
/// are, bit by bit; and also where the norm is not finite, so that `check_finite` can tell which of them are not.
/// Throws `std::invalid_argument` if `max_norm` is negative or NaN, and as `gradient_norm` does.
template <class Module>
constexpr double clip_gradients(Module& module, double max_norm, double p = 2,
                                const ReduceOptions& options = {}) {
  if (!(max_norm >= 0)) {
    detail::fail({"clip_gradients: max_norm is ", max_norm, ", which must be 0 or more"});
  }
  const double norm = gradient_norm(module, p, options);
  detail::clip_to(max_norm, norm, detail::parameters_of(module));
  return norm;
}

template <DividedModule Stages>
double clip_gradients(Stages&, double, double = 2,
                      const ReduceOptions& = {}) = delete;  // see Pipeline::clip_gradients

}  // namespace shardwise
