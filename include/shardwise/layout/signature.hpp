// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The signature of an operation: which dimensions of its operands and its result are the same index, which of them
/// may be sharded, and how it treats pending sums. Placement propagation needs nothing else. Letters name the
/// indices, as in `einsum`:
///
/// ```
/// constexpr Signature linear = Signature::of("...k, ok -> ...o").linear_in_each();
/// constexpr Signature softmax = Signature::of("...c -> ...c").whole('c');
/// ```
/// `...` stands for any number of dimensions, the same ones in each tensor. So does a letter with a star, such as `o*`.
/// An index that the result lacks is contracted: sharding it leaves a pending reduction.

#include <string_view>

#include <shardwise/base/index.hpp>
#include <shardwise/layout/placement.hpp>

namespace shardwise {

/// The largest number of operands of an operation.
inline constexpr int max_operands = 5;

/// The index letters of one tensor, outermost dimension first.
struct Indices {
  Array<char, max_rank> letters{};
  int rank = 0;

  /// From one letter, or from a text of letters.
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
  /// With `dims` instead of a letter.
  constexpr Indices replaced(char letter, const Indices& dims) const {
    Indices result;
    for (int i = 0; i < rank; ++i) result = result.then((*this)[i] == letter ? dims : Indices((*this)[i]));
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

namespace detail {

/// `...`, for which the letter is a dot, or a letter with a star: any number of dimensions, until ranks are known.
constexpr char several(char letter) { return static_cast<char>(static_cast<unsigned char>(letter) | 0x80u); }
constexpr bool is_several(char letter) { return several(letter) == letter; }
/// The only letter of `x` that stands for several dimensions; 0 if `x` has no such letter, or more than one.
constexpr char the_one_of_several(const Indices& x) {
  char found = 0;
  int count = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (is_several(x[i])) found = x[i], ++count;
  }
  return count == 1 ? found : '\0';
}

}  // namespace detail

struct Signature {
  Array<Indices, max_operands> operands{};
  Array<bool, max_operands> differentiable{};
  int count = 0;
  Indices result{};
  Indices uncut{};  ///< indices that must not be sharded
  Linearity linearity = Linearity::none;
  ReduceOp contraction = ReduceOp::sum;  ///< how blocks of a contracted index combine
  bool contractible = true;              ///< may a contracted index be cut at all?
  bool no_such_dimension = false;        ///< why there are no operands: they lack the operation's dimension
  bool unreadable = false;               ///< why there are no operands: the text has another form

  /// Einsum text: the operands, with commas between them, an arrow, the result. `unreadable` if it is another text.
  static constexpr Signature of(std::string_view text) {
    Signature signature;
    Indices* tensor = signature.operands.data();
    for (; !text.empty(); text.remove_prefix(1)) {
      const char c = text[0];
      const bool in_result = tensor == &signature.result, has_room = tensor->rank < max_rank;
      if (text.starts_with("->") && !in_result) {
        signature.count = static_cast<int>(tensor - signature.operands.data()) + 1;
        tensor = &signature.result;
        text.remove_prefix(1);
      } else if (text.starts_with("...") && has_room) {
        *tensor = tensor->then(detail::several('.'));
        text.remove_prefix(2);
      } else if (c == '*' && tensor->rank > 0) {
        char& last = tensor->letters[tensor->rank - 1];
        last = detail::several(last);
      } else if (c == ',' && !in_result && tensor != &signature.operands[max_operands - 1]) {
        ++tensor;
      } else if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && has_room) {
        *tensor = tensor->then(c);
      } else if (c != ' ') {
        return {.unreadable = true};
      }
    }
    if (tensor != &signature.result) return {.unreadable = true};
    for (int i = 0; i < signature.count; ++i) signature.differentiable[i] = true;
    return signature;
  }
  /// The same from computed index letters. The last argument is the result.
  template <class... Rest>
    requires(sizeof...(Rest) >= 2 && sizeof...(Rest) <= max_operands + 1)
  static constexpr Signature of(const Rest&... operands_then_result) {
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
  /// Replaces `...` and letters with a star by dimensions, for operands of these ranks. The result has no operands if
  /// the ranks do not fit.
  constexpr Signature of_ranks(const Array<int, max_operands>& ranks, int operand_count) const {
    if (operand_count != count) return {.no_such_dimension = no_such_dimension};
    Signature known = *this;
    for (int round = 0; round < count; ++round) {  // one operand may determine the dimensions of another
      for (int i = 0; i < count; ++i) {
        const char letter = detail::the_one_of_several(known.operands[i]);
        if (letter != 0) known = known.dimensions(letter, ranks[i] - (known.operands[i].rank - 1));
      }
    }
    for (int i = 0; i < count; ++i) {
      bool fits = known.operands[i].rank == ranks[i];
      for (int dim = 0; fits && dim < ranks[i]; ++dim) fits = !detail::is_several(known.operands[i][dim]);
      if (!fits) return {};
    }
    return known;
  }
  /// The letter with a star, `letter`, stands for `size` dimensions. They get letters that are free.
  constexpr Signature dimensions(char letter, int size) const {
    Indices dims;
    for (char next = 'A'; dims.rank < size; ++next) {
      bool used = false;
      for (const Indices& x : operands) used |= x.find(next) >= 0;
      if (!used) dims = dims.then(next);
    }
    Signature changed = *this;
    for (Indices& x : changed.operands) x = x.replaced(detail::several(letter), dims);
    changed.result = result.replaced(detail::several(letter), dims);
    return changed;
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
