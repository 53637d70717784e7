// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Detects losses and gradients that are not finite, on all ranks alike, and names the parameters. Costs nothing
/// while the loss and the norm of the gradients are finite.
///
/// ```
/// const double norm = clip_gradients(model, 1.0);
/// check_finite(model, step, loss, norm);   // throws, with the same text on every rank
/// adamw.step(model);
/// ```
/// To skip the step and continue, as torch's `GradScaler` does:
/// ```
/// const std::string problem = find_non_finite(model, loss, norm);
/// if (problem.empty()) {
///   adamw.step(model);
/// } else {
///   clear_gradients(model);
/// }
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/sums.hpp>
#include <shardwise/train/clip.hpp>

namespace shardwise {

/// The loss, a gradient or a parameter is not finite.
class NonFiniteError : public std::runtime_error {
 public:
  /// `problem` names the loss or the parameters.
  NonFiniteError(std::int64_t step, const std::string& problem)
      : std::runtime_error("step " + std::to_string(step) + ": " + problem), step_(step) {}
  std::int64_t step() const { return step_; }

 private:
  std::int64_t step_;
};

namespace detail {

/// Lists the parameters with NaNs or infinities. Each parameter has four counts: two of its values, and two of its
/// gradient (`kind` 1).
inline std::string text_of_non_finite(const char* what, const std::vector<NamedParameter>& parameters,
                                      const std::vector<std::int64_t>& counts, std::size_t kind) {
  constexpr std::size_t most = 8;
  std::string list;
  std::size_t bad = 0;
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const std::size_t i = kind == 0 ? n : parameters.size() - 1 - n;
    const std::int64_t nans = counts[4 * i + 2 * kind], infinities = counts[4 * i + 2 * kind + 1];
    if (nans + infinities == 0 || ++bad > most) continue;
    list += (bad > 1 ? ", " : "") + parameters[i].name + " (";
    if (nans > 0) list += std::to_string(nans) + " NaN";
    if (nans > 0 && infinities > 0) list += ", ";
    if (infinities > 0) list += std::to_string(infinities) + " infinite";
    list += ")";
  }
  if (bad == 0) return "";
  if (bad > most) list += ", and " + std::to_string(bad - most) + " more";
  return text({"NaN or infinite ", what, " in ", bad, " of ", parameters.size(), " parameters: ", list});
}

/// "NaN or infinite values in 1 of 9 parameters: tokens.weight (1 NaN); NaN or infinite gradients in 2 of 9
/// parameters: head.weight (1 NaN, 2 infinite), norm.weight (1 NaN)": values in the order of a forward pass,
/// finished gradients in that of a backward pass; empty if all are finite. Collective.
std::string non_finite_elements(const std::vector<NamedParameter>& parameters);

inline std::string text_of_non_finite(double x) { return is_nan(x) ? "NaN" : x > 0 ? "inf" : "-inf"; }

}  // namespace detail

/// Describes what is not finite, the loss or parameters and gradients, in the order in which a forward or backward
/// pass reaches them; or an empty text. `norm` is the result of `clip_gradients` or `gradient_norm` for this module
/// and its current gradients; like `loss`, it is the same on every rank. If the norm is not finite this is
/// collective: one all-reduce of four numbers per parameter over the whole mesh, and every rank gets the same text.
/// Otherwise there is no communication.
template <class Module>
std::string find_non_finite(Module& module, double loss, double norm) {
  std::string text;
  if (!detail::is_finite(loss)) text = "the loss is " + detail::text_of_non_finite(loss);
  if (detail::is_finite(norm)) return text.empty() ? text : text + ", though all gradients are finite";
  if (!text.empty()) text += "; ";
  const std::string elements =
      detail::non_finite_elements(detail::distinct(detail::named_parameters_of(module)));
  if (!elements.empty()) return text + elements;
  return text + "the norm of the gradients is " + detail::text_of_non_finite(norm) +
         ", though those that are there now are finite";
}

/// Throws `NonFiniteError` if `find_non_finite(module, loss, norm)` reports a problem: "step 17: the loss is NaN;
/// NaN or infinite gradients in …". The same on every rank, if the loss is.
template <class Module>
constexpr void check_finite(Module& module, std::int64_t step, double loss, double norm) {
  if (detail::is_finite(loss) && detail::is_finite(norm)) return;
  throw NonFiniteError(step, find_non_finite(module, loss, norm));
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE std::string non_finite_elements(const std::vector<NamedParameter>& parameters) {
  std::vector<std::int64_t> counts;
  const auto add = [&](const ParameterState& cell, bool there, const AnyTensor& x) {
    kernel::NonFinite here;
    if (there && x.counts_here()) here = cell.functions.count_non_finite(x.local_elements(), x.buffer->data);
    counts.insert(counts.end(), {here.nans, here.infinities});
  };
  for (const NamedParameter& parameter : parameters) {
    ParameterState& cell = *parameter.cell;
    cell.await();  // it may still be in flight
    if (cell.stored.mesh.dry()) return "";
    add(cell, cell.set, cell.stored);
    add(cell, cell.finished.filled(), cell.finished_gradient());
  }
  if (parameters.empty()) return "";
  const MeshView& mesh = parameters.back().cell->stored.mesh;
  PhaseScope phase(mesh.recorder(), Phase::optimizer);
  mesh.all_reduce(counts.data(), static_cast<Index>(counts.size()), DataType::i64, ReduceOp::sum);
  const std::string values = text_of_non_finite("values", parameters, counts, 0);
  const std::string gradients = text_of_non_finite("gradients", parameters, counts, 1);
  return values + (values.empty() || gradients.empty() ? "" : "; ") + gradients;
}

}  // namespace shardwise::detail
#endif
