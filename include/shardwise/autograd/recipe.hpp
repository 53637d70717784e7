// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How to compute a value again in the backward pass, instead of keeping it until then: for results that are
/// large, cheap to compute, and of values that are kept anyway (Korthikanti et al., "Reducing activation
/// recomputation in large transformer models", 2022: "selective activation recomputation").

#include <utility>

#include <shardwise/memory/pooled.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise {

/// Computes an `X`, once for all who hold the recipe; the last of them frees it.
template <TensorType X>
class Recipe : public Pooled<Recipe<X>> {
 public:
  constexpr const X& value() {
    if (!value_) value_ = compute();
    return value_;
  }

 private:
  template <TensorType>
  friend class RecipeFor;

  constexpr virtual X compute() = 0;

  X value_;
  long handles_ = 1;
};

/// A counted handle to a recipe, or to none.
template <TensorType X>
class RecipeFor {
 public:
  constexpr RecipeFor() = default;
  template <class Derived, class... Arguments>
  static constexpr RecipeFor make(Arguments&&... arguments) {
    RecipeFor handle;
    handle.recipe_ = make_pooled<Derived>(std::forward<Arguments>(arguments)...);
    return handle;
  }
  constexpr RecipeFor(const RecipeFor& other) : recipe_(other.recipe_) {
    if (recipe_) ++recipe_->handles_;
  }
  constexpr RecipeFor(RecipeFor&& other) noexcept : recipe_(std::exchange(other.recipe_, nullptr)) {}
  constexpr RecipeFor& operator=(const RecipeFor& other) {
    if (other.recipe_) ++other.recipe_->handles_;
    release();
    recipe_ = other.recipe_;
    return *this;
  }
  constexpr RecipeFor& operator=(RecipeFor&& other) noexcept {
    Recipe<X>* recipe = std::exchange(other.recipe_, nullptr);
    release();
    recipe_ = recipe;
    return *this;
  }
  constexpr ~RecipeFor() { release(); }

  constexpr explicit operator bool() const { return recipe_ != nullptr; }
  constexpr Recipe<X>* operator->() const { return recipe_; }

 private:
  constexpr void release() {
    if (recipe_ && --recipe_->handles_ == 0) destroy_pooled(recipe_);
  }

  Recipe<X>* recipe_ = nullptr;
};

/// A value that a node on the tape needs later: itself, or its recipe.
template <TensorType X>
class Kept {
 public:
  constexpr Kept() = default;
  constexpr Kept(const X& value, const RecipeFor<X>& recipe) : recipe_(recipe) {
    if (!recipe_) value_ = value;
  }
  constexpr const X& value() const { return recipe_ ? recipe_->value() : value_; }

 private:
  X value_;
  RecipeFor<X> recipe_;
};

}  // namespace shardwise
