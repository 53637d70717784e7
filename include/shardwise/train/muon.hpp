// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Muon (Jordan et al., 2024): momentum whose matrices are made orthogonal, for hidden layers; and AdamW for the other
/// parameters, in the same optimizer.
///
/// ```
/// Muon muon({.rate = 0.02, .weight_decay = 0.01});
/// muon.add_group(is_not_hidden_matrix, with_adamw({.weight_decay = 0}), 0.015);   // AdamW's rate is 0.015 · 0.02
/// muon.step(model);
/// ```
/// Momentum has the layout of the finished gradient, as all state. A matrix is made orthogonal by one rank, its owner,
/// as a whole (see train/owners.hpp). So the update does not depend on the layout, the ZeRO level or the number of
/// ranks. With `by_gram`, it depends on them up to rounding errors.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/newton_schulz.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/owners.hpp>

namespace shardwise {

/// The factor of Muon's rate for a matrix.
enum class MuonScale : std::uint8_t {
  of_shape,  ///< √max(1, rows / columns)
  as_adamw,  ///< 0.2 √max(rows, columns): updates of the size of AdamW's, so that its rate fits (Liu et al., 2025)
};

/// velocity += (1 - momentum) (gradient - velocity); direction = velocity, or with Nesterov's momentum, gradient +
/// momentum (velocity - gradient); parameter *= 1 - rate · weight_decay; then parameter -= rate · scale ·
/// orthogonal(direction). These are torch.optim.Muon's formulas and defaults; it computes in bfloat16, this in float or
/// double.
struct MuonUpdate {
  double rate = 1e-3;
  double momentum = 0.95;
  double weight_decay = 0.1;
  bool nesterov = true;
  double epsilon = 1e-7;  ///< the least norm by which a direction is divided
  kernel::NewtonSchulz steps = kernel::muon_steps;
  MuonScale scale = MuonScale::of_shape;
  /// The number of dimensions that are the rows of a parameter of more than two; the others are its columns. A weight
  /// [heads, head_dim, in] has 2.
  int row_dimensions = 1;
  /// Make several steps on one Gram matrix, that of the shorter side, where that is less work; and if all axes cut the
  /// longer side, let only Gram matrices travel, where that is less to receive. Updates differ by rounding errors.
  bool by_gram = false;
  std::optional<AdamWUpdate> adamw{};    ///< then these settings count instead, with `rate`
  bool master_weights = true;            ///< keep a float copy of bfloat16 parameters, and update that
  bool may_be_unused = false;            ///< the first step accepts parameters without a gradient
  StateType state = StateType::compute;  ///< also with `adamw`; bf16: half the bytes, stochastically rounded

  /// Returns the settings. Throws `std::invalid_argument` unless rate and weight_decay are at least 0, the momentum
  /// is in [0, 1), and epsilon in (0, 1].
  constexpr const MuonUpdate& checked() const {
    detail::check_setting("Muon", "rate", rate);
    detail::check_setting("Muon", "momentum", momentum, 1);
    detail::check_setting("Muon", "weight_decay", weight_decay);
    if (!(epsilon > 0 && epsilon <= 1))
      detail::fail({"Muon: epsilon is ", epsilon, ", which must be above 0, and at most 1"});
    if (steps.count < 1 || steps.count > kernel::NewtonSchulz::most_steps) {
      detail::fail(
          {"Muon: steps.count is ", steps.count, ", which must be 1 to ", kernel::NewtonSchulz::most_steps});
    }
    if (adamw) adamw->checked();
    return *this;
  }
  /// Calls f(name, value) for each setting, so that ranks can be compared.
  constexpr void each_setting(auto&& f) const {
    f("rate", rate), f("momentum", momentum), f("weight_decay", weight_decay), f("nesterov", nesterov);
    f("epsilon", epsilon), f("steps", steps.count), f("scale", static_cast<double>(scale));
    f("row_dimensions", row_dimensions), f("by_gram", by_gram), f("adamw", adamw.has_value());
    f("master_weights", master_weights), f("may_be_unused", may_be_unused);
    f("state", static_cast<double>(state));
    for (const auto& [a, b, c] : steps.steps) f("steps.a", a), f("steps.b", b), f("steps.c", c);
    if (adamw) adamw->each_setting(f);
  }
  constexpr int flops() const { return adamw ? adamw->flops() : 4; }
  constexpr int state_blocks() const { return adamw ? adamw->state_blocks() : 1; }

  template <class T>
  void apply(Index count, const kernel::Updated<T>& parameter, const T* gradient,
             const StateElements<kernel::compute_t<T>>& elements) const {
    if (adamw) {
      AdamWUpdate other = *adamw;
      other.rate = rate;
      return other.apply(count, parameter, gradient, elements);
    }
    using C = kernel::compute_t<T>;
    const C kept = static_cast<C>(1 - rate * weight_decay), step = static_cast<C>(rate);
    for (Index i = 0; i < count; ++i) {
      parameter.set(i, parameter.value(i) * kept - step * kernel::widen(gradient[i]));
    }
  }

  // How `Optimizer` changes the gradients of all parameters before their updates.

  constexpr bool changes_gradients() const { return !adamw; }
  /// Whether a parameter is a matrix, or does not have to be one.
  constexpr bool accepts(const detail::AnyTensor& parameter) const {
    return adamw || (row_dimensions >= 1 && row_dimensions < parameter.rank && parameter.rank < max_rank);
  }
  /// Throws `std::invalid_argument` about one that is not accepted.
  [[noreturn]] void refuse(const detail::NamedParameter& parameter) const {
    detail::fail(
        {"Muon: '", parameter.name, "', a parameter ", parameter.cell->stored.extents(), " with ",
         row_dimensions,
         " dimensions of rows, is not a matrix: give it other row_dimensions, or a group with AdamW"});
  }
  /// Writes the direction over the gradient.
  template <class T>
  void change(Index count, T* gradient, const StateElements<kernel::compute_t<T>>& elements) const {
    using C = kernel::compute_t<T>;
    C* const velocity = elements.first;
    const C rest = static_cast<C>(1 - momentum), ahead = static_cast<C>(momentum);
    for (Index i = 0; i < count; ++i) {
      const C g = kernel::widen(gradient[i]);
      velocity[i] += rest * (g - velocity[i]);
      gradient[i] = kernel::narrow<T>(nesterov ? g + ahead * (velocity[i] - g) : velocity[i]);
    }
  }
  /// Makes all directions orthogonal, and scales them. `updates`: the settings for each.
  static constexpr void change_all(std::span<detail::AnyTensor> directions,
                                   std::span<const MuonUpdate* const> updates, Index most_bytes) {
    detail::for_each_stack(
        directions, most_bytes, [&](std::size_t i) { return updates[i]; },
        [&](std::size_t i, detail::AnyTensor& stack) { return updates[i]->try_blocks(stack); },
        [&](std::size_t i, detail::AnyTensor& owned) { updates[i]->orthogonalize(owned); });
  }

 private:
  double factor(Index rows, Index columns) const {
    const auto m = static_cast<double>(rows), n = static_cast<double>(columns);
    return scale == MuonScale::as_adamw ? 0.2 * std::sqrt(std::max(m, n)) : std::sqrt(std::max(1., m / n));
  }
  /// The rows and columns of the matrices of a stack.
  constexpr std::pair<Index, Index> extents_of(const detail::AnyTensor& stack) const {
    Index rows = 1, columns = 1;
    for (int dim = 1; dim < stack.rank; ++dim) (dim <= row_dimensions ? rows : columns) *= stack.shape[dim];
    return {rows, columns};
  }
  /// Makes a stack orthogonal without owners, if only Gram matrices are to travel. Returns whether it did.
  constexpr bool try_blocks(detail::AnyTensor& stack) const {
    const auto [rows, columns] = extents_of(stack);
    if (!by_gram || !grams_travel(stack, rows, columns)) return false;
    orthogonalize_blocks(stack, rows, columns);
    return true;
  }
  constexpr void orthogonalize(detail::AnyTensor& owned) const {
    Index rows = 0, columns = 0;
    std::tie(rows, columns) = extents_of(owned);  // lambdas of clang 14 do not capture structured bindings
    const auto flops = [&](bool gram) {
      return kernel::orthogonalize_flops(rows, columns, steps.count, gram);
    };
    const bool gram = by_gram && flops(true) < flops(false);
    Recorder* const recorder = owned.mesh.recorder();
    detail::for_owned(owned, [&](char* data) {
      if (recorder) recorder->compute(flops(gram));
      if (!data) return;
      detail::with_floating(owned.type, [&]<class T>(T) {
        kernel::orthogonalize(rows, columns, reinterpret_cast<T*>(data), steps, epsilon,
                              factor(rows, columns), gram);
      });
    });
  }
  /// Whether all axes cut the longer side of these matrices, and Gram matrices and factors are fewer bytes to receive.
  constexpr bool grams_travel(const detail::AnyTensor& stack, Index rows, Index columns) const {
    const MeshSizes& sizes = stack.mesh.sizes();
    const Index ranks = group_size(sizes, stack.layout.axes, ~0u), count = stack.shape[0];
    const AxisSet others = axes_where(stack.layout.axes, [&](int axis) {
      const Placement p = stack.layout[axis];
      return sizes[axis] > 1 && !(p.is_shard() && (p.dim() <= row_dimensions) == (rows > columns));
    });
    Index travelling = 0;  // per row of a Gram matrix: a sum and a factor for each
    for (int first = 0; first < steps.count; first = kernel::end_of_steps(first, steps.count, true))
      travelling += 2 * count * std::min(rows, columns) * size_of(detail::wide(stack.type));
    const Index at_owner = (count + ranks - 1) / ranks;
    return ranks > 1 && others == 0 &&
           travelling * ranks < (count + at_owner * ranks) * std::max(rows, columns) * size_of(stack.type);
  }
  /// The blocks stay; the sums of their Gram matrices are on owners, and factors come back.
  constexpr void orthogonalize_blocks(detail::AnyTensor& stack, Index rows, Index columns) const {
    const bool wide = rows <= columns;
    const Index count = stack.shape[0], m = std::min(rows, columns),
                n = stack.local_elements() / std::max<Index>(count * m, 1);
    const int axes = stack.layout.axes;
    Recorder* const recorder = stack.mesh.recorder();
    detail::AnyTensor grams(stack.mesh, detail::wide(stack.type), stack.layout, Shape<3>{count, m, m},
                            Buffer());
    const auto on_blocks = [&](auto f) {
      if (recorder) recorder->compute(2 * count * m * m * n);
      if (stack.mesh.dry()) return;
      detail::with_floating(stack.type, [&]<class T>(T) {
        auto* const small = static_cast<kernel::compute_t<T>*>(grams.buffer->data);
        for (Index i = 0; i < count; ++i)
          f(static_cast<T*>(stack.buffer->data) + i * m * n, small + i * m * m);
      });
    };
    for (int first = 0, end = 0; first < steps.count; first = end) {
      end = kernel::end_of_steps(first, steps.count, true);
      grams = grams.unwritten(everywhere(axes, partial_sum), MemoryUse::gathered);
      on_blocks([&](const auto* x, auto* g) { kernel::gram(wide, m, n, x, g); });
      const DataType sums = grams.type;
      grams = detail::redistributed_to(std::move(grams), detail::layout_on_owners(axes), sums);
      detail::for_owned(grams, [&](char* data) {
        if (recorder) recorder->compute(kernel::gram_steps_flops(m, end - first));
        if (!data) return;
        detail::with_floating(stack.type, [&]<class T>(T) {
          auto* const g = reinterpret_cast<kernel::compute_t<T>*>(data);
          kernel::gram_factor(m, g, steps, first, end, epsilon, factor(rows, columns));
        });
      });
      grams = detail::redistributed_to(std::move(grams), everywhere(axes, replicate), sums);
      on_blocks([&](auto* x, const auto* q) { kernel::multiply_by_factor(wide, m, n, q, x); });
    }
  }
};

/// Chooses what Muon is not for: parameters of fewer than two dimensions, biases, also of [heads, head_dim], stacks of
/// experts, tables of embeddings and the head, by the names that `Llama` and `MixtureOfExperts` give them, and others
/// that have such words.
inline bool is_not_hidden_matrix(const ParameterInfo& parameter) {
  for (const std::string_view part : {"embed", "tokens.", "head."}) {
    if (parameter.name.find(part) != std::string_view::npos) return true;
  }
  const bool experts =
      parameter.rank > 2 && (parameter.name.ends_with("gate_up") || parameter.name.ends_with("down"));
  return parameter.rank < 2 || experts || parameter.name.ends_with("bias");
}
/// The change of settings by which a group of Muon uses AdamW. Its rate is Muon's, times the factor of the group.
inline auto with_adamw(const AdamWUpdate& settings = {}) {
  return [settings](MuonUpdate& update) {
    update.adamw = settings;
    update.master_weights = settings.master_weights;
    update.may_be_unused = settings.may_be_unused;
    update.state = settings.state;
  };
}

/// The constructor checks its settings: see `MuonUpdate::checked`.
using Muon = Optimizer<MuonUpdate>;
SHARDWISE_COMPILE_OPTIMIZER(MuonUpdate)

}  // namespace shardwise
