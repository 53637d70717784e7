// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Work on whole matrices whose blocks lie on several ranks, each matrix on one rank, its owner. Matrices of one
/// shape and layout are a stack, a tensor with one more dimension. The owners have its layout `Shard<0>` on every
/// axis, so two redistributions of the stack are all the communication, and no rank repeats another's work.

#include <shardwise/tensor/transfer.hpp>

namespace shardwise::detail {

/// Blocks of one shape, layout, type and mesh as one tensor, and back.
class Stack {
 public:
  constexpr explicit Stack(std::span<AnyTensor* const> members) : members_(members), whole_(*members[0]) {
    const AnyTensor& first = *members[0];
    whole_.rank = first.rank + 1;
    whole_.shape[0] = static_cast<Index>(members.size());
    for (int dim = 0; dim < first.rank; ++dim) whole_.shape[dim + 1] = first.shape[dim];
    for (int axis = 0; axis < first.layout.axes; ++axis) {
      if (first.layout[axis].is_shard()) whole_.layout[axis] = shard(first.layout[axis].dim() + 1);
    }
    whole_ = whole_.unwritten(whole_.layout, MemoryUse::gathered);
    for (std::size_t i = 0; i < members.size(); ++i) copy(members[i]->buffer, 0, whole_.buffer, i);
  }
  static constexpr bool holds_both(const AnyTensor& a, const AnyTensor& b) {
    return a.mesh == b.mesh && a.type == b.type && a.rank == b.rank && a.shape == b.shape &&
           a.layout == b.layout;
  }

  /// Calls f(matrix) with the data of each matrix that this rank owns; null on a dry mesh.
  template <class F>
  constexpr void on_owners(F f) {
    const Layout layout = whole_.layout;
    AnyTensor owned =
        redistributed_to(std::move(whole_), everywhere(layout.axes, shard(0)), members_[0]->type);
    make_own(owned, MemoryUse::gathered);
    const Index own = owned.box().size[0];
    for (Index i = 0; i < own; ++i) {
      char* data = static_cast<char*>(owned.buffer->data);
      f(owned.mesh.dry() ? nullptr : data + i * (owned.buffer->bytes / own));
    }
    whole_ = redistributed_to(std::move(owned), layout, members_[0]->type);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      make_own(*members_[i], members_[i]->buffer->use);
      copy(whole_.buffer, i, members_[i]->buffer, 0);
    }
  }

 private:
  /// Member `i` of one to member `j` of the other.
  constexpr void copy(const Buffer& from, std::size_t i, const Buffer& to, std::size_t j) const {
    const Index bytes = std::min(from->bytes, to->bytes);
    if (whole_.mesh.dry() || bytes == 0) return;
    std::memcpy(static_cast<char*>(to->data) + static_cast<Index>(j) * bytes,
                static_cast<const char*>(from->data) + static_cast<Index>(i) * bytes,
                static_cast<std::size_t>(bytes));
  }

  std::span<AnyTensor* const> members_;
  AnyTensor whole_;
};

/// Calls f(number, data) on the owner of each of these tensors, which are whole there, and changed in place. A stack
/// has tensors of one kind: of a shape and layout, and for which `kind_of(number)` is equal. Stacks have up to
/// `most_bytes` of whole tensors for each rank, but at least one tensor for each rank, if there are so many.
/// Collective.
template <class KindOf, class F>
constexpr void on_owners(std::span<AnyTensor> all, Index most_bytes, KindOf kind_of, F f) {
  std::vector<bool> done(all.size());
  for (std::size_t first = 0; first < all.size(); ++first) {
    if (done[first]) continue;
    const AnyTensor& like = all[first];
    const Index ranks = group_size(like.mesh.sizes(), like.layout.axes, ~0u);
    const Index bytes = elements(like.shape) * like.element_bytes();
    const Index most = ranks * std::max<Index>(1, most_bytes / std::max<Index>(bytes, 1));
    std::vector<AnyTensor*> members;
    for (std::size_t i = first; i < all.size() && static_cast<Index>(members.size()) < most; ++i) {
      if (done[i] || !Stack::holds_both(like, all[i]) || !(kind_of(first) == kind_of(i))) continue;
      done[i] = true;
      members.push_back(&all[i]);
    }
    Stack(members).on_owners([&](char* data) { f(first, data); });
  }
}

}  // namespace shardwise::detail
