// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How to compute a value again in the backward pass, instead of keeping it until then: for results that are
/// large, cheap to compute, and of values that are kept anyway (Korthikanti et al., "Reducing activation
/// recomputation in large transformer models", 2022: "selective activation recomputation").

#include <shardwise/memory/shared.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise {

/// Computes an `X`, once for all who hold the recipe; the last of them frees it.
template <TensorType X>
class Recipe : public Pooled<Recipe<X>>, public Counted {
 public:
  constexpr const X& value() {
    if (!value_) value_ = compute();
    return value_;
  }

 private:
  constexpr virtual X compute() = 0;

  X value_;
};

/// A handle to a recipe, or to none.
template <TensorType X>
using RecipeFor = Shared<Recipe<X>>;

namespace detail {

/// A recipe that calls compute().
template <TensorType X, class F>
constexpr RecipeFor<X> recipe_from(F compute) {
  class Made final : public Recipe<X> {
   public:
    constexpr explicit Made(F f) : compute_(std::move(f)) {}

   private:
    constexpr X compute() override { return compute_(); }

    F compute_;
  };
  return Shared<Made>::make(std::move(compute));
}

[[noreturn, gnu::cold, gnu::noinline]] inline void value_has_changed() {
  throw std::logic_error(
      "Tape::backward: a parameter was changed after the forward pass that used it: the gradient would be "
      "that of neither value; call backward before the optimizer's step");
}

}  // namespace detail

/// A value that a node on the tape needs later: itself, or its recipe.
template <TensorType X>
class Kept {
 public:
  constexpr Kept() = default;
  constexpr explicit Kept(const X& value) : value_(value), changes_(changes()) {}
  constexpr explicit Kept(const RecipeFor<X>& recipe) : recipe_(recipe) {}
  /// Throws `std::logic_error` if it is the value of a parameter that has been changed.
  constexpr const X& value() const {
    if (recipe_) return recipe_->value();
    if (changes() != changes_) detail::value_has_changed();
    return value_;
  }

 private:
  constexpr unsigned changes() const { return value_ ? value_.buffer()->changes : 0; }

  X value_;
  RecipeFor<X> recipe_;
  unsigned changes_ = 0;
};

}  // namespace shardwise
