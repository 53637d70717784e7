// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The signature of an operation: which dimensions of its operands and its result are the same index, which of them
/// may be sharded, and how it treats pending sums. Placement propagation needs nothing else. Letters name the
/// indices, as in `einsum`:
///
/// ```
/// constexpr Signature matmul = Signature::of("rk", "ok", "ro").linear_in_each();
/// constexpr Signature softmax = Signature::of("rc", "rc").whole('c');
/// ```
/// An index that the result lacks is contracted: sharding it leaves a pending reduction.

#include <shardwise/base/index.hpp>
#include <shardwise/layout/placement.hpp>

namespace shardwise {

inline constexpr int max_operands = 4;

/// The index letters of one tensor, outermost dimension first.
struct Indices {
  Array<char, max_rank> letters{};
  int rank = 0;

  constexpr Indices(char letter) : letters{letter}, rank(1) {}
  constexpr Indices(const char* text = "") {
    for (; *text != 0; ++text) letters[rank++] = *text;
  }
  /// `count` consecutive letters from 'first': the leading dimensions of a tensor of any rank.
  static constexpr Indices range(char first, int count) {
    Indices result;
    for (int i = 0; i < count; ++i) result = result.then(static_cast<char>(first + i));
    return result;
  }
  constexpr Indices then(const Indices& more) const {
    Indices result = *this;
    for (int i = 0; i < more.rank; ++i) result.letters[result.rank++] = more[i];
    return result;
  }
  constexpr Indices without(char letter) const {
    Indices result;
    for (int i = 0; i < rank; ++i) {
      if ((*this)[i] != letter) result = result.then((*this)[i]);
    }
    return result;
  }
  constexpr char operator[](int dim) const { return letters[dim]; }
  /// The dimension with this letter, or -1.
  constexpr int find(char letter) const {
    for (int dim = 0; dim < rank; ++dim) {
      if ((*this)[dim] == letter) return dim;
    }
    return -1;
  }
};

/// How an operation treats pending sums among its operands.
enum class Linearity : std::uint8_t {
  none,     ///< not linear: pending sums must be reduced first
  in_each,  ///< linear in each operand alone (a product): one may be pending, the others must be whole
  jointly,  ///< linear in all operands together (a sum): all pending, or none
};

struct Signature {
  Array<Indices, max_operands> operands{};
  Array<bool, max_operands> differentiable{};
  int count = 0;
  Indices result{};
  Indices uncut{};  ///< indices that must not be sharded
  Linearity linearity = Linearity::none;
  ReduceOp contraction = ReduceOp::sum;  ///< how blocks of a contracted index combine
  bool contractible = true;              ///< may a contracted index be cut at all?

  /// The last argument is the result.
  template <class... Rest>
  static constexpr Signature of(const Rest&... operands_then_result) {
    static_assert(sizeof...(Rest) >= 2 && sizeof...(Rest) <= max_operands + 1);
    Array<Indices, static_cast<int>(sizeof...(Rest))> all{Indices(operands_then_result)...};
    Signature signature;
    signature.count = all.size() - 1;
    for (int i = 0; i < signature.count; ++i) {
      signature.operands[i] = all[i];
      signature.differentiable[i] = true;
    }
    signature.result = all[signature.count];
    return signature;
  }
  /// All operands and the result have the same indices; an empty signature if their ranks differ.
  template <int First, int... Rest>
  static constexpr Signature elementwise() {
    if (((Rest != First) || ...)) return {};
    const Indices all = Indices::range('a', First);
    return of(all, (static_cast<void>(Rest), all)..., all);
  }
  template <class Member>
  constexpr Signature with(Member Signature::*member, Member value) const {
    Signature changed = *this;
    changed.*member = value;
    return changed;
  }
  constexpr Signature linear_in_each() const { return with(&Signature::linearity, Linearity::in_each); }
  constexpr Signature linear_jointly() const { return with(&Signature::linearity, Linearity::jointly); }
  /// The operation needs index `letter` whole on every rank.
  constexpr Signature whole(char letter) const { return with(&Signature::uncut, uncut.then(letter)); }
  constexpr Signature combining(ReduceOp op) const { return with(&Signature::contraction, op); }
  /// Results for blocks of a contracted index cannot be combined by a sum, a maximum or a minimum.
  constexpr Signature not_combining() const { return with(&Signature::contractible, false); }
  /// Operand `i`, for example one that holds token ids, has no gradient: `Replicate` and `Reduced` are equivalent
  /// for it.
  constexpr Signature without_gradient(int i) const {
    Signature changed = *this;
    changed.differentiable[i] = false;
    return changed;
  }
};

}  // namespace shardwise
