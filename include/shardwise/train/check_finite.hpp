// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Losses and gradients that are not finite: found on all ranks alike, and told with the names of the parameters.
/// Nothing is computed or communicated while the loss and the norm of the gradients are finite.
///
/// ```
/// const double norm = clip_gradients(model, 1.0);
/// check_finite(model, step, loss, norm);   // throws, with the same text on every rank
/// adamw.step(model);
/// ```
/// To leave the step out and go on, as torch's `GradScaler` does:
/// ```
/// const std::string problem = find_non_finite(model, loss, norm);
/// if (problem.empty()) {
///   adamw.step(model);
/// } else {
///   clear_gradients(model);
/// }
/// ```

#include <shardwise/train/clip.hpp>

namespace shardwise {

class NonFiniteError : public std::runtime_error {
 public:
  NonFiniteError(std::int64_t step, const std::string& problem)
      : std::runtime_error("step " + std::to_string(step) + ": " + problem), step_(step) {}
  std::int64_t step() const { return step_; }

 private:
  std::int64_t step_;
};

namespace detail {

/// Counts the elements of a module's parameters and of their finished gradients that are NaN, or infinite.
template <class = void>
class NonFiniteElements {
 public:
  void count(const NamedParameter& parameter) {
    names_.push_back(parameter.name);
    ParameterCell& cell = *parameter.cell;
    cell.await();  // it may still be on its way
    mesh_ = &cell.stored.mesh;
    add(cell, cell.set && !mesh_->dry(), cell.stored);
    add(cell, cell.finished.filled() && !mesh_->dry(), cell.finished_gradient());
  }

  /// Adds up those of all ranks. Collective.
  void finish() {
    if (!mesh_ || mesh_->dry()) return;
    PhaseScope phase(mesh_->recorder(), Phase::optimizer);
    mesh_->all_reduce(counts_.data(), static_cast<Index>(counts_.size()), DataType::i64, ReduceOp::sum);
  }

  /// "NaN or infinite values in 1 of 9 parameters: tokens.weight (1 NaN); NaN or infinite gradients in 2 of 9 parameters:
  /// head.weight (1 NaN, 2 infinite), norm.weight (1 NaN)": values in the order in which a forward pass comes by,
  /// gradients in that of a backward pass; empty if there are none.
  std::string text() const {
    const std::string values = text("values", 0), gradients = text("gradients", 1);
    return values + (values.empty() || gradients.empty() ? "" : "; ") + gradients;
  }

 private:
  void add(const ParameterCell& cell, bool there, const AnyTensor& x) {
    kernel::NonFinite here;
    if (there && x.counts_here()) here = cell.functions.count_non_finite(x.local_elements(), x.buffer->data);
    counts_.insert(counts_.end(), {here.nans, here.infinities});
  }
  std::string text(const char* what, std::size_t kind) const {
    constexpr std::size_t most = 8;
    std::string list;
    std::size_t bad = 0;
    for (std::size_t n = 0; n < names_.size(); ++n) {
      const std::size_t i = kind == 0 ? n : names_.size() - 1 - n;
      const std::int64_t nans = counts_[4 * i + 2 * kind], infinities = counts_[4 * i + 2 * kind + 1];
      if (nans + infinities == 0 || ++bad > most) continue;
      list += (bad > 1 ? ", " : "") + names_[i] + " (";
      if (nans > 0) list += std::to_string(nans) + " NaN";
      if (nans > 0 && infinities > 0) list += ", ";
      if (infinities > 0) list += std::to_string(infinities) + " infinite";
      list += ")";
    }
    if (bad == 0) return "";
    if (bad > most) list += ", and " + std::to_string(bad - most) + " more";
    return detail::text(
        {"NaN or infinite ", what, " in ", bad, " of ", names_.size(), " parameters: ", list});
  }

  std::vector<std::string> names_;
  std::vector<std::int64_t>
      counts_;  // NaNs and infinities, of each parameter's values, then of its gradients
  const MeshView* mesh_ = nullptr;
};

constexpr bool is_finite(double x) { return x - x == 0; }
inline std::string text_of_non_finite(double x) { return std::isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf"; }

}  // namespace detail

/// What is not finite, the loss, or parameters and gradients, with the names of the parameters that the forward pass, or the
/// backward pass, comes by first; or an empty text. `norm` is what `clip_gradients` or `gradient_norm` gave, of this
/// module and the gradients that it has now; `loss`, like it, is the same number on every rank.
/// If the norm is not finite this is collective: one all-reduce of four numbers a parameter over the whole mesh, and the
/// text is the same on every rank. Else nothing communicates.
template <class Module>
std::string find_non_finite(Module& module, double loss, double norm) {
  std::string text;
  if (!detail::is_finite(loss)) text = "the loss is " + detail::text_of_non_finite(loss);
  if (detail::is_finite(norm)) return text.empty() ? text : text + ", though all gradients are finite";
  detail::NonFiniteElements<> found;
  for (const auto& parameter : detail::distinct(detail::named_parameters_of(module))) found.count(parameter);
  found.finish();
  if (!text.empty()) text += "; ";
  const std::string elements = found.text();
  if (!elements.empty()) return text + elements;
  return text + "the norm of the gradients is " + detail::text_of_non_finite(norm) +
         ", though those that are there now are finite";
}

/// Throws `NonFiniteError` if `find_non_finite(module, loss, norm)` finds something: "step 17: the loss is NaN; NaN
/// or infinite gradients in …". On every rank the same, if the loss is.
template <class Module>
constexpr void check_finite(Module& module, std::int64_t step, double loss, double norm) {
  if (detail::is_finite(loss) && detail::is_finite(norm)) return;
  throw NonFiniteError(step, find_non_finite(module, loss, norm));
}

}  // namespace shardwise
