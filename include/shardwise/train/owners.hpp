// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Work on whole matrices whose blocks lie on several ranks, each matrix on one rank, its owner. Matrices of one
/// shape and layout are a stack, a tensor with one more dimension. The owners have its layout `Shard<0>` on every
/// axis, so two redistributions of the stack are all the communication, and no rank repeats another's work.

#include <shardwise/tensor/transfer.hpp>

namespace shardwise::detail {

/// Copies member `i` of the one to member `j` of the other.
constexpr void copy_member(const AnyTensor& from, std::size_t i, const AnyTensor& to, std::size_t j) {
  const Index bytes = std::min(from.buffer->bytes, to.buffer->bytes);
  if (to.mesh.dry() || bytes == 0) return;
  std::memcpy(static_cast<char*>(to.buffer->data) + static_cast<Index>(j) * bytes,
              static_cast<const char*>(from.buffer->data) + static_cast<Index>(i) * bytes,
              static_cast<std::size_t>(bytes));
}

/// Blocks of one shape, layout, type and mesh as one tensor.
constexpr AnyTensor stack_of(std::span<AnyTensor* const> members) {
  const AnyTensor& first = *members[0];
  AnyTensor whole = first;
  whole.rank = first.rank + 1;
  whole.shape[0] = static_cast<Index>(members.size());
  for (int dim = 0; dim < first.rank; ++dim) whole.shape[dim + 1] = first.shape[dim];
  for (int axis = 0; axis < first.layout.axes; ++axis) {
    if (first.layout[axis].is_shard()) whole.layout[axis] = shard(first.layout[axis].dim() + 1);
  }
  whole = whole.unwritten(whole.layout, MemoryUse::gathered);
  for (std::size_t i = 0; i < members.size(); ++i) copy_member(*members[i], 0, whole, i);
  return whole;
}
constexpr bool can_stack(const AnyTensor& a, const AnyTensor& b) {
  return a.mesh == b.mesh && a.type == b.type && a.rank == b.rank && a.shape == b.shape &&
         a.layout == b.layout;
}

constexpr Shared<AnyInFlight> start_to(AnyTensor x, const Layout& to) {
  const DataType type = x.type;
  return last_step(std::move(x), to, type);
}
constexpr Layout layout_on_owners(int axes) { return everywhere(axes, shard(0)); }

/// Calls f(matrix) with the data of each matrix that this rank owns; null on a dry mesh. f changes it.
template <class F>
constexpr void for_owned(AnyTensor& owned, F f) {
  make_own(owned, MemoryUse::gathered);
  const Index own = owned.box().size[0];
  for (Index i = 0; i < own; ++i) {
    f(owned.mesh.dry() ? nullptr : static_cast<char*>(owned.buffer->data) + i * (owned.buffer->bytes / own));
  }
}

/// Changes stacks of these tensors. A stack has tensors of one kind: of a shape and layout, and for which
/// `kind_of(number)` is equal. It has up to `most_bytes` of whole tensors for each rank, but at least one tensor for
/// each rank, if there are so many. `try_blocks(number, stack)`, with the number of a member, either changes the blocks
/// where they are, and returns true; or `change_owned(number, stack)` is called on owners.
///
/// Between hosts, stacks have a quarter of the bytes, and three are alive: while one is changed on its owners, the next
/// is on its way to them, and the preceding one on its way back. Collective.
template <class KindOf, class TryBlocks, class ChangeOwned>
constexpr void for_each_stack(std::span<AnyTensor> all, Index most_bytes, KindOf kind_of,
                              TryBlocks try_blocks, ChangeOwned change_owned) {
  struct Stack {
    std::size_t first;
    std::vector<AnyTensor*> members;
    Layout layout;
    Shared<AnyInFlight> on_the_way;
  };
  const auto copy_back = [](const AnyTensor& stack, const std::vector<AnyTensor*>& members) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      make_own(*members[i], members[i]->buffer->use);
      copy_member(stack, i, *members[i], 0);
    }
  };
  const auto change = [&](Stack& stack) {
    AnyTensor owned = stack.on_the_way->finish();
    change_owned(stack.first, owned);
    stack.on_the_way = start_to(std::move(owned), stack.layout);
  };
  const auto finish = [&](Stack& stack) { copy_back(stack.on_the_way->finish(), stack.members); };
  std::optional<Stack> coming, leaving;

  std::vector<char> done(all.size(), char{0});  // not of bool, for clang 14 in constant expressions
  for (std::size_t first = 0; first < all.size(); ++first) {
    if (done[first]) continue;
    const AnyTensor& like = all[first];
    const Index ranks = group_size(like.mesh.sizes(), like.layout.axes, ~0u);
    const Index bytes = elements(like.shape) * like.element_bytes();
    const bool overlaps = like.mesh.has_several_hosts();
    const Index at_once = overlaps ? most_bytes / 4 : most_bytes;
    const Index most = ranks * std::max<Index>(1, at_once / std::max<Index>(bytes, 1));
    std::vector<AnyTensor*> members;
    for (std::size_t i = first; i < all.size() && static_cast<Index>(members.size()) < most; ++i) {
      if (done[i] || !can_stack(like, all[i]) || !(kind_of(first) == kind_of(i))) continue;
      done[i] = 1;
      members.push_back(&all[i]);
    }
    AnyTensor whole = stack_of(members);
    if (try_blocks(first, whole)) {
      copy_back(whole, members);
      continue;
    }
    const Layout layout = whole.layout;
    Stack next{first, std::move(members), layout, start_to(std::move(whole), layout_on_owners(layout.axes))};
    if (!overlaps) {
      change(next);
      finish(next);
      continue;
    }
    if (coming) change(*coming);
    if (leaving) finish(*leaving);
    leaving = std::exchange(coming, std::move(next));
  }
  if (coming) change(*coming);
  if (leaving) finish(*leaving);
  if (coming) finish(*coming);
}

}  // namespace shardwise::detail
