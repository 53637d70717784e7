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

#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise {

namespace detail {

/// The norm of these parameters' gradients, Σ x² or max |x|, the same on every rank of their common mesh. Collective.
[[gnu::noinline]] constexpr double norm_of(const ParameterList& cells, bool maximum) {
  const MeshView* mesh = nullptr;
  double sum = 0;
  // The bits of the maximum: as integers they order numbers from 0 on, with NaN above all; a maximum of floats
  // would lose NaN.
  std::int64_t bits = 0;
  for (ParameterState* cell : distinct(cells)) {
    if (mesh && !(*mesh == cell->stored.mesh))
      throw std::invalid_argument("gradient_norm: the module's parameters live on two different meshes");
    mesh = &cell->stored.mesh;
    const AnyTensor gradient = cell->finished_gradient();
    if (!gradient || cell->layouts.counted || !gradient.counts_here()) continue;
    PhaseScope phase(mesh->recorder(), Phase::optimizer);
    const Index elements = gradient.local_elements();
    count_work(*mesh, 2 * elements, gradient.buffer->bytes);
    if (mesh->dry()) continue;
    if (maximum) {
      const double here = cell->functions.largest_magnitude(elements, gradient.buffer->data);
      bits = std::max(bits, std::bit_cast<std::int64_t>(here));
    } else {
      sum += cell->functions.sum_of_squares(elements, gradient.buffer->data);
    }
  }
  if (!mesh) return 0;
  PhaseScope phase(mesh->recorder(), Phase::optimizer);
  if (maximum) {
    mesh->all_reduce(&bits, 1, DataType::i64, ReduceOp::max);
  } else {
    mesh->all_reduce(&sum, 1, DataType::f64, ReduceOp::sum);
  }
  if (mesh->dry()) return 0;
  return maximum ? std::bit_cast<double>(bits) : std::sqrt(sum);
}

constexpr void check_max_norm(double max_norm) {
  if (!(max_norm >= 0)) fail({"clip_gradients: max_norm is ", max_norm, ", which must be 0 or more"});
}

/// Scales finished gradients whose norm is `norm`. With SHARDWISE_CHECK=1 it is collective, and compares `max_norm`.
[[gnu::noinline]] constexpr void clip_to(double max_norm, double norm, const ParameterList& cells) {
  if (!cells.empty()) check_same_on(cells.front()->stored.mesh, "clip_gradients", "max_norm", max_norm);
  const double factor = max_norm / (norm + 1e-6);
  const bool clips = factor < 1 && norm <= std::numeric_limits<double>::max();
  for (ParameterState* cell : distinct(cells)) {
    if (!cell->finished.filled() || cell->layouts.counted) continue;
    Recorder* recorder = cell->stored.mesh.recorder();
    PhaseScope phase(recorder, Phase::optimizer);
    const Buffer& gradient = cell->finished.own(recorder);
    const Index elements = gradient->bytes / cell->stored.element_bytes();
    if (recorder) recorder->compute(elements, 2 * gradient->bytes);
    if (clips && gradient->data) cell->functions.scale(elements, factor, gradient->data);
  }
}

}  // namespace detail

/// The norm of all gradients of `module` as one vector: √(Σ g²) for p = 2, max |g| for p = ∞. Every element of the
/// model counts once, even if it is replicated. Calls `reduce_gradients(module, options)`; then, on several ranks,
/// one all-reduce of one number over the whole mesh. Computed in `double`. NaN if a gradient is NaN; 0 without
/// gradients, and on a dry mesh. Throws `std::invalid_argument` for another p, if `options.last` is false, and if
/// the parameters are on more than one mesh.
template <class Module, class Problem = detail::visit_problem<Module>>
constexpr double gradient_norm(Module& module, double p = 2, const ReduceOptions& options = {}) {
  const bool maximum = p == std::numeric_limits<double>::infinity();
  if (p != 2 && !maximum) {
    detail::fail({"gradient_norm: p is ", p, ", which must be 2 or infinity"});
  }
  reduce_gradients(module, detail::finishing(options));
  return detail::norm_of(detail::parameters_of(module), maximum);
}
template <class Module, IllFormed Why = detail::visit_problem<Module>>
Why gradient_norm(Module&, double = 2, const ReduceOptions& = {});  // see Why

template <DividedModule Stages>
double gradient_norm(Stages&, double = 2,
                     const ReduceOptions& = {}) = delete;  // see Pipeline::clip_gradients

/// Multiplies all gradients of `module` by min(1, max_norm / (norm + 1e-6)), in place, and returns the previous
/// norm, `gradient_norm(module, p, options)`; without SHARDWISE_CHECK=1 only that communicates. Gradients stay
/// unchanged, bit by bit, if the factor is 1, and also if the norm is not finite, so that `check_finite` can find
/// the cause. Throws `std::invalid_argument` if `max_norm` is negative or NaN, or, with SHARDWISE_CHECK=1, if it
/// differs between ranks; and as `gradient_norm` does.
template <class Module, class Problem = detail::visit_problem<Module>>
constexpr double clip_gradients(Module& module, double max_norm, double p = 2,
                                const ReduceOptions& options = {}) {
  detail::check_max_norm(max_norm);
  const double norm = gradient_norm(module, p, options);
  detail::clip_to(max_norm, norm, detail::parameters_of(module));
  return norm;
}
template <class Module, IllFormed Why = detail::visit_problem<Module>>
Why clip_gradients(Module&, double, double = 2, const ReduceOptions& = {});  // see Why
template <class..., IllFormed Why = WrittenOtherwise<Hint::use_clip_gradients_of_the_model>>
Why clip_grad_norm_(const auto&...);  // NOLINT(readability-identifier-naming): see Why
template <IllFormed Reported>
double clip_gradients(const Reported&, double);
double clip_gradients(auto&) = delete;  // give it the largest norm too: clip_gradients(model, 1.0)

template <DividedModule Stages>
double clip_gradients(Stages&, double, double = 2,
                      const ReduceOptions& = {}) = delete;  // see Pipeline::clip_gradients

}  // namespace shardwise
