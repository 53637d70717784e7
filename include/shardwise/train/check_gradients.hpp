// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A check of a model's gradients, for a test, on simulated ranks or on MPI ranks. shardwise.hpp does not include it.
///
/// ```
/// check_gradients(model, [&](Tape& tape) { return mse_loss(model(tape.constant(x)), tape.constant(target)); });
/// ```
/// `check_operation` checks a single operation.

#include <shardwise/train/loss_and_gradients.hpp>

namespace shardwise {

namespace detail {

/// `evaluate` returns the loss, and leaves its finished gradients in the parameters.
void compare_gradients(const std::vector<NamedParameter>& parameters, const std::function<double()>& evaluate,
                       double tolerance, int samples);

}  // namespace detail

/// Compares the gradients of `loss(tape)` with its central differences, at up to `samples` elements of each trained
/// parameter of `module`, which must be of `double`. The loss must depend on nothing but the parameters: draw no
/// other dropout masks in each call. The elements are the same on every rank, and in every run. Collective. Leaves
/// the values of the parameters as they are, and no gradients.
///
/// Throws `std::logic_error`, on all ranks, with the name of the parameter, the number of the element and both
/// numbers, if they differ by more than `tolerance` times the larger one, or times 1; and `std::invalid_argument` for
/// a trained parameter of another type, or on a dry mesh.
template <class Module, class Loss, class Problem = detail::loss_problem<Loss, Module>>
void check_gradients(Module& module, Loss loss, double tolerance = 1e-6, int samples = 8) {
  detail::compare_gradients(
      detail::distinct(detail::named_parameters_of(module)),
      [&] { return detail::loss_and_gradients(module, loss); }, tolerance, samples);
  clear_gradients(module);
}
template <class Module, class Loss, IllFormed Why = detail::loss_problem<Loss, Module>>
void check_gradients(Module&, Loss, double = 1e-6, int = 8) = delete;  // see Why

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

/// This rank's copy of an element of the whole tensor `x`; null if it has none.
SHARDWISE_INLINE double* element_here(const AnyTensor& x, Index element) {
  const AnyBox box = x.box();
  Index place = 0, stride = 1;
  for (int dim = x.rank; dim-- > 0; element /= x.shape[dim]) {
    const Index at = element % x.shape[dim] - box.begin[dim];
    if (at < 0 || at >= box.size[dim]) return nullptr;
    place += at * stride;
    stride *= box.size[dim];
  }
  return static_cast<double*>(x.buffer->data) + place;
}

SHARDWISE_INLINE void compare_gradients(const std::vector<NamedParameter>& parameters,
                                        const std::function<double()>& evaluate, double tolerance,
                                        int samples) {
  struct Sample {
    const NamedParameter& of;
    Index element;
    double gradient;
  };
  for (const NamedParameter& each : parameters) {
    const AnyTensor& stored = each.cell->stored;
    if (stored.mesh.dry()) throw std::invalid_argument("check_gradients: the model is on a dry mesh");
    if (each.cell->layouts.trained() && stored.type != DataType::f64)
      fail({"check_gradients: '", each.name, "' is of ", name_of(stored.type), ", and must be of f64"});
  }
  evaluate();
  std::vector<Sample> chosen;
  for (const NamedParameter& each : parameters) {
    const Index count = elements(each.cell->stored.shape);
    const AnyTensor gradient = each.cell->finished_gradient();
    for (int i = 0; i < samples && count > 0 && each.cell->layouts.trained(); ++i) {
      const auto number = derived_seed(static_cast<std::uint64_t>(i), each.name);
      const auto element = static_cast<Index>(number % static_cast<std::uint64_t>(count));
      const double* here = gradient && gradient.counts_here() ? element_here(gradient, element) : nullptr;
      double value = here ? *here : 0;
      gradient.mesh.all_reduce(&value, 1, DataType::f64, ReduceOp::sum);
      chosen.push_back({each, element, value});
    }
  }
  for (const Sample& sample : chosen) {
    double* here = element_here(sample.of.cell->stored, sample.element);
    const double before = here ? *here : 0;
    const auto put = [&](double value) {
      sample.of.cell->writable();
      if (here) *here = value;
    };
    const auto loss_at = [&](double value) {
      put(value);
      try {
        return evaluate();
      } catch (...) {
        put(before);
        throw;
      }
    };
    constexpr double step = 1e-5;
    const double above = loss_at(before + step), below = loss_at(before - step);
    put(before);
    const double difference = (above - below) / (2 * step);
    const double larger = std::max({1., std::abs(difference), std::abs(sample.gradient)});
    if (std::abs(difference - sample.gradient) <= tolerance * larger) continue;
    fail<std::logic_error>({"check_gradients: the gradient of '", sample.of.name, "' at element ",
                            sample.element, " is ", sample.gradient, ", and its central difference is ",
                            difference});
  }
}

}  // namespace shardwise::detail
#endif
