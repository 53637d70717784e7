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

/// A value that a node on the tape needs later: itself, or its recipe.
template <TensorType X>
class Kept {
 public:
  constexpr Kept() = default;
  constexpr explicit Kept(const X& value) : value_(value) {}
  constexpr explicit Kept(const RecipeFor<X>& recipe) : recipe_(recipe) {}
  constexpr const X& value() const { return recipe_ ? recipe_->value() : value_; }

 private:
  X value_;
  RecipeFor<X> recipe_;
};

}  // namespace shardwise
