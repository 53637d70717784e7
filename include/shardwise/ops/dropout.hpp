// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `dropout`: each element is dropped with probability p, and the others are divided by 1 - p. Whether an
/// element is dropped is a function of the seed and of its global index alone, so the mask is the same on
/// every mesh and in every layout, and need not be kept for the backward pass. Give each use and each step a
/// seed of its own. Linear in x: pending sums pass.

#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/kernel/random.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct DropoutOp {
  static constexpr const char* name = "dropout";
  double p;
  std::uint64_t seed;

  static constexpr Signature signature = Signature::of("... -> ...").linear_in_each();
  static constexpr Saved saved{};

  constexpr void check() const {
    if (!(p >= 0 && p < 1)) detail::fail({"dropout: the probability ", p, " is not in [0, 1)"});
  }

  void forward(auto y, void*, auto x) const { mask(x, y.data); }
  void pull_back(auto dy, auto, const void*, auto x) const { mask(dy, x.gradient); }

 private:
  void mask(const auto& x, auto* y) const {
    detail::for_each_run(x, [&](Index local, Index global, Index count) {
      kernel::dropout(count, p, seed, static_cast<std::uint64_t>(global), x.data + local, y + local);
    });
  }
};

/// y[i] = x[i] / (1 - p) or 0. `p` and `seed` must be the same on all ranks of the mesh; with SHARDWISE_CHECK=1 all
/// throw `std::invalid_argument` if they are not. It is thrown for p outside [0, 1) too.
template <Operand X, class Result = result_of<DropoutOp, X>>
constexpr auto dropout(const X& x, double p, std::uint64_t seed) {
  if constexpr (requires { x.mesh().dry(); })  // an ill-formed operand has no mesh
    detail::check_same_on(x.mesh(), "dropout", "p", p, "seed", seed);
  return apply(DropoutOp{p, seed}, x);
}
template <Operand X, IllFormed Why = result_of<DropoutOp, X>>
Why dropout(const X&, double, std::uint64_t);  // see Why
WrittenOtherwise<Hint::pass_a_seed_as_the_next_argument> dropout(const Operand auto&, double);

}  // namespace shardwise
