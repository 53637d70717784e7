// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How to compute a value again in the backward pass instead of keeping it: for large results that are cheap to compute
/// from values kept anyway (Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022:
/// "selective activation recomputation").

#include <shardwise/memory/shared.hpp>
#include <shardwise/tensor/buffer.hpp>

namespace shardwise {

/// Computes the block of a value once for all holders of the recipe. The last holder frees it.
class Recipe : public Pooled<Recipe>, public Counted {
 public:
  /// The block; the first call computes it.
  constexpr const Buffer& block() {
    if (!block_) block_ = compute();
    return block_;
  }
  /// Announces a node on a tape that will ask for the block.
  constexpr virtual void is_kept() {}

 protected:
  constexpr ~Recipe() = default;

 private:
  constexpr virtual Buffer compute() = 0;

  Buffer block_;
};

namespace detail {

/// Throws because a parameter was changed between the forward and the backward pass.
[[noreturn, gnu::cold]] void value_has_changed();

}  // namespace detail

/// A value that a node on the tape needs later: its block, its recipe, or nothing.
class Kept {
 public:
  constexpr Kept() = default;
  /// Keeps a block, or a recipe for it.
  constexpr explicit Kept(const Buffer& block) : block_(block), changes_(block ? block->changes : 0) {}
  constexpr explicit Kept(const Shared<Recipe>& recipe) : recipe_(recipe) { recipe_->is_kept(); }
  constexpr explicit operator bool() const { return block_ || recipe_; }
  /// Throws `std::logic_error` if the block belongs to a parameter that has changed since.
  constexpr const Buffer& block() const {
    if (recipe_) return recipe_->block();
    if (block_ && block_->changes != changes_) detail::value_has_changed();
    return block_;
  }

 private:
  Buffer block_;
  Shared<Recipe> recipe_;
  unsigned changes_ = 0;
};

#ifdef SHARDWISE_BODIES
namespace detail {

SHARDWISE_INLINE void value_has_changed() {
  throw std::logic_error(
      "Tape::backward: a parameter was changed after the forward pass that used it: the gradient would be "
      "that of neither value; call backward before the optimizer's step");
}

}  // namespace detail
#endif

}  // namespace shardwise
