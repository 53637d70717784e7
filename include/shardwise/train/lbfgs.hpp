// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// L-BFGS (Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", 1989), with a
/// backtracking line search. It takes the whole loss, as a function of a tape:
///
/// ```
/// Lbfgs lbfgs({.iterations = 50});
/// double loss = lbfgs.step(model, [&](Tape& tape) { return mse_loss(model(tape.constant(x)), tape.constant(y)); });
/// ```

#include <shardwise/module/named_parameters.hpp>
#include <shardwise/train/loss_and_gradients.hpp>
#include <shardwise/train/optimizer.hpp>

namespace shardwise {

struct LbfgsSettings {
  double rate = 1;                   ///< the first length of each line search
  int iterations = 20;               ///< the most of one step
  int history = 10;                  ///< the changes of so many iterations are kept
  double gradient_tolerance = 1e-7;  ///< a step ends where the 2-norm of the gradient is not larger
  double change_tolerance = 1e-9;    ///< and where the loss decreases by less

  /// Returns the settings. Throws `std::invalid_argument` if one is negative, or a number of iterations is 0.
  constexpr const LbfgsSettings& checked() const {
    detail::check_setting("Lbfgs", "rate", rate);
    detail::check_setting("Lbfgs", "gradient_tolerance", gradient_tolerance);
    detail::check_setting("Lbfgs", "change_tolerance", change_tolerance);
    if (iterations < 1 || history < 1) {
      detail::fail(
          {"Lbfgs: iterations is ", iterations, ", and history is ", history, ": both must be 1 or more"});
    }
    return *this;
  }
};

/// Keeps twice as many blocks in `double` as `history` says, of the size of this rank's stored block of each
/// parameter. They are in no checkpoint: a run that is resumed begins without a history.
class Lbfgs {
 public:
  /// Throws `std::invalid_argument` for invalid settings.
  explicit Lbfgs(const LbfgsSettings& settings = {}) : settings_(settings.checked()) {}

  /// Makes up to `iterations` iterations, and returns the loss where it leaves the parameters of `module`, which must
  /// be the same in every step. `loss(tape)` is called once or more in each iteration, and must be the same function
  /// each time. The parameters stay where they are if the loss is not finite, or if no step makes it smaller. Clears
  /// all gradients. On a dry mesh it evaluates the loss once and returns 0. Collective: all ranks decide by the same
  /// sums over the mesh.
  ///
  /// If `loss` throws, the parameters go back to where the last iteration left them.
  ///
  /// Throws `std::invalid_argument` if the parameters live on several meshes, or are not those of earlier steps, and
  /// `std::logic_error` if no gradient reaches any.
  template <class Module, class Loss, class Problem = detail::loss_problem<Loss, Module>>
  double step(Module& module, Loss loss) {
    const double result = run(detail::distinct(detail::parameters_of(module)),
                              [&] { return detail::loss_and_gradients(module, loss); });
    clear_gradients(module);
    return result;
  }
  template <class Module, class Loss, IllFormed Why = detail::loss_problem<Loss, Module>>
  void step(Module&, Loss) = delete;  // see Why

 private:
  using Vector = std::vector<double>;  ///< this rank's blocks of all trained parameters, one after the other
  struct Change {
    Vector of_values, of_gradients;
    double product = 0;  ///< of both
  };

  double run(const detail::ParameterList& cells, const std::function<double()>& evaluate);
  void know(const detail::ParameterList& cells);
  Vector numbers(bool of_gradients) const;
  void write(const Vector& from, double length, const Vector& along) const;
  double dot(const Vector& a, const Vector& b) const;
  Vector direction(const Vector& gradient) const;

  LbfgsSettings settings_;
  std::vector<Shared<detail::ParameterState>> cells_;
  std::vector<Change> history_;
};

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {

SHARDWISE_INLINE double Lbfgs::run(const detail::ParameterList& cells,
                                   const std::function<double()>& evaluate) {
  know(cells);
  double loss = evaluate();
  detail::check_a_gradient(cells);
  if (cells_.front()->stored.mesh.dry()) return loss;
  if (!detail::is_finite(loss)) return loss;
  Vector slope = numbers(true);
  for (int i = 0; i < settings_.iterations; ++i) {
    if (std::sqrt(dot(slope, slope)) <= settings_.gradient_tolerance) break;
    const Vector before = numbers(false), along = direction(slope);
    const double descent = dot(slope, along);
    if (!(descent < 0 && descent >= std::numeric_limits<double>::lowest())) break;  // or NaN
    // The first direction is the gradient, which says nothing about how far to go.
    double length = settings_.rate * (history_.empty() ? std::min(1., 1 / std::sqrt(-descent)) : 1);
    double next = loss;
    const auto accepted = [&] { return next <= loss + 1e-4 * length * descent; };  // Armijo's condition
    for (int tries = 0; tries < 30; ++tries, length /= 2) {
      write(before, length, along);
      try {
        next = evaluate();
      } catch (...) {
        write(before, 0, along);
        throw;
      }
      if (accepted()) break;
    }
    if (!accepted()) {
      write(before, 0, along);
      break;
    }
    Change change{numbers(false), numbers(true)};
    const Vector next_slope = change.of_gradients;
    for (std::size_t k = 0; k < before.size(); ++k) {
      change.of_values[k] -= before[k];
      change.of_gradients[k] -= slope[k];
    }
    change.product = dot(change.of_values, change.of_gradients);
    if (change.product > 1e-10 * dot(change.of_gradients, change.of_gradients)) {
      history_.push_back(std::move(change));
      if (static_cast<int>(history_.size()) > settings_.history) history_.erase(history_.begin());
    }
    slope = next_slope;
    if (std::exchange(loss, next) - next < settings_.change_tolerance) break;
  }
  return loss;
}

SHARDWISE_INLINE void Lbfgs::know(const detail::ParameterList& cells) {
  std::vector<Shared<detail::ParameterState>> trained;
  for (detail::ParameterState* cell : cells) {
    if (!cell->layouts.trained()) continue;
    trained.push_back(Shared<detail::ParameterState>::to(*cell));
    if (!(cell->stored.mesh == trained.front()->stored.mesh))
      throw std::invalid_argument("Lbfgs: the model's parameters live on two different meshes");
  }
  if (trained.empty()) throw std::invalid_argument("Lbfgs: the model has no parameter to train");
  const auto same = [](const auto& a, const auto& b) { return &*a == &*b; };
  if (cells_.empty()) cells_ = trained;
  if (!std::equal(cells_.begin(), cells_.end(), trained.begin(), trained.end(), same))
    throw std::invalid_argument("Lbfgs: the parameters are not those of the steps before");
}

/// The values of the parameters, or the gradients, in the layout of the values; 0 where there is none.
SHARDWISE_INLINE Lbfgs::Vector Lbfgs::numbers(bool of_gradients) const {
  Vector all;
  for (const auto& cell : cells_) {
    const detail::AnyTensor& stored = cell->stored;
    Vector block(static_cast<std::size_t>(stored.local_elements()));
    if (!of_gradients) {
      block = detail::numbers_of(stored);
    } else if (cell->finished.filled()) {
      block =
          detail::numbers_of(detail::redistributed_to(cell->finished_gradient(), stored.layout, stored.type));
    }
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

SHARDWISE_INLINE void Lbfgs::write(const Vector& from, double length, const Vector& along) const {
  std::size_t next = 0;
  for (const auto& cell : cells_) {
    const detail::AnyTensor& stored = cell->writable();
    detail::with_floating(stored.type, [&]<class T>(T) {
      auto* to = static_cast<T*>(stored.buffer->data);
      for (Index i = stored.local_elements(); i > 0; --i, ++next)
        *to++ = T(from[next] + length * along[next]);
    });
  }
}

SHARDWISE_INLINE double Lbfgs::dot(const Vector& a, const Vector& b) const {
  double sum = 0;
  Index begin = 0;
  for (const auto& cell : cells_) {
    const Index count = cell->stored.local_elements();
    if (cell->stored.counts_here()) sum += kernel::dot(count, a.data() + begin, b.data() + begin);
    begin += count;
  }
  cells_.front()->stored.mesh.all_reduce(&sum, 1, DataType::f64, ReduceOp::sum);
  return sum;
}

/// -H · gradient, where H approximates the inverse of the Hessian: the two loops over the history.
SHARDWISE_INLINE Lbfgs::Vector Lbfgs::direction(const Vector& gradient) const {
  Vector all = gradient, factors;
  const auto add = [&](double factor, const Vector& x) {
    for (std::size_t k = 0; k < all.size(); ++k) all[k] += factor * x[k];
  };
  // NOLINTNEXTLINE(modernize-loop-convert): clang 14 does not compile std::views::reverse
  for (auto change = history_.rbegin(); change != history_.rend(); ++change) {
    factors.push_back(dot(change->of_values, all) / change->product);
    add(-factors.back(), change->of_gradients);
  }
  double scale = -1;
  if (!history_.empty()) {
    const Change& last = history_.back();
    scale = -last.product / dot(last.of_gradients, last.of_gradients);
  }
  for (double& value : all) value *= scale;
  for (const Change& change : history_) {
    const double factor = dot(change.of_gradients, all) / change.product;
    add(-factors.back() - factor, change.of_values);
    factors.pop_back();
  }
  return all;
}

}  // namespace shardwise
#endif
