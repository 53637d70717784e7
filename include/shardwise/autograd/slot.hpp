// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where a gradient gathers. Contributions are added in the gradient's own layout: three uses of one
/// `Reduced` tensor add up as one pending sum, and are reduced once.

#include <shardwise/autograd/token_rows.hpp>
#include <shardwise/base/bodies.hpp>
#include <shardwise/memory/pooled_list.hpp>

namespace shardwise {

/// Is told when no node that a tape has will add to a gradient any more.
class GradientListener {
 public:
  constexpr virtual void complete() = 0;
};

/// Of the gradient it has the bytes. Whoever has the slot knows the tensor that the gradient is of, and so its type and
/// extents: those of the tensor, but for what is pending.
///
/// The gradient of a parameter in bfloat16 is added up in float, as there may be many micro-batches, and is rounded when
/// it is asked for. As long as nothing was added to the first contribution, it is that.
///
/// As long as all contributions are the rows of a few tokens, they are kept so, and are added up when the gradient is
/// asked for.
class GradientSlot : public Counted {
 public:
  /// `use`: what the gradient's memory is counted as.
  constexpr explicit GradientSlot(MemoryUse use = MemoryUse::activation) : use_(use) {}

  constexpr bool filled() const { return sum_ || !rows_.empty(); }
  constexpr MemoryUse use() const { return use_; }
  /// There is a gradient, and nobody else reads it: a kernel may add to it in place.
  constexpr bool writable() const { return sum_.unique() && !gathers_wide_ && !has_rows(); }
  /// The gradient, to be changed in place by whoever asks: copied first if somebody else reads it. There must be
  /// one.
  [[gnu::noinline]] constexpr const Buffer& own(Recorder* recorder) {
    if (has_rows()) add_up_rows();
    if (wide_) round();
    if (!sum_.unique()) {
      const Buffer copy = allocate_buffer(sum_, recorder, sum_->bytes, use_);
      if (sum_->data) std::memcpy(copy->data, sum_->data, static_cast<std::size_t>(sum_->bytes));
      sum_ = copy;
    }
    return sum_;
  }

  /// Somebody will add to it, a node that was recorded; and: has done so, or has nothing to add.
  constexpr void expect() { ++awaited_; }
  constexpr void settle() {
    if (--awaited_ <= 0 && listener_) listener_->complete();
  }
  /// For the length of a backward pass; none: null. Nodes that never came to their end are forgotten with it.
  constexpr void set_listener(GradientListener* listener) {
    if (!listener) awaited_ = 0;
    listener_ = listener;
  }

  [[gnu::noinline]] constexpr Buffer take() {
    if (has_rows()) add_up_rows();
    if (wide_) round();
    return std::move(sum_);
  }
  /// To be read; what `has_rows` says stays as it is.
  [[gnu::noinline]] constexpr const Buffer& sum() {
    if (has_rows() && !sum_) {
      GradientSlot all(use_);
      for (const detail::TokenRows& some : rows_) all.add_up(some);
      sum_ = all.take();
    }
    if (wide_) round();
    return sum_;
  }
  /// For the node whose result's gradient this is: what there is of it, when the backward pass comes to the node. To
  /// add to it later is an error.
  constexpr Buffer pass() {
    close();
    return take();
  }
  /// Nobody will take what is added.
  constexpr void close() { passed_ = true; }
  constexpr void clear() {
    sum_ = Buffer();
    wide_ = nullptr;
    rows_.clear();
  }

  /// Are all contributions rows of tokens? Then they can be taken as that.
  constexpr bool has_rows() const { return !rows_.empty(); }
  /// Can they be gathered along some axes alone? Not where another axis cuts the blocks of these again.
  constexpr bool rows_gather_along(AxisSet axes) const {
    for (const detail::TokenRows& some : rows_) {
      const Layout& ids = some.ids.layout;
      for (int axis = 0; axis < ids.axes; ++axis) {
        if ((axes >> axis & 1u) == 0 || !ids[axis].is_shard()) continue;
        for (int inner = axis + 1; inner < ids.axes; ++inner) {
          const bool stays = (axes >> inner & 1u) == 0 && some.ids.mesh.sizes()[inner] > 1;
          if (stays && ids[inner] == ids[axis]) return false;
        }
      }
    }
    return true;
  }
  constexpr void take_rows(detail::PooledList<detail::TokenRows>& to) {
    sum_ = Buffer();
    while (has_rows()) rows_.move_to(to, rows_.front());
  }
  /// Keeps the contribution as it is if there is no other kind, and if all together have at most so many tokens on a
  /// rank: numbers that are the same on every rank. Returns whether it does.
  [[gnu::noinline]] constexpr bool keep(const detail::TokenRows& some, Index most_tokens) {
    if (sum_ && !has_rows()) return false;
    Index tokens = some.most_tokens();
    for (const detail::TokenRows& other : rows_) tokens += other.most_tokens();
    if (tokens > most_tokens) return false;
    sum_ = Buffer();  // of the others
    rows_.emplace_back(some).rows.buffer->set_use(use_);
    return true;
  }
  /// Adds the sums of the rows.
  constexpr void add_up(const detail::TokenRows& some) {
    if (writable()) {
      some.add_to(sum_);
    } else {
      add(some.summed(use_), *some.elements, some.rows.mesh.recorder());
    }
  }

  template <TensorType Gradient>
  constexpr void add(Gradient more) {
    Recorder* recorder = more.mesh().recorder();
    Buffer block = more.buffer();
    more = Gradient();  // so that its block may be written to
    add(std::move(block), detail::element_sum<typename Gradient::Element>, recorder);
  }
  /// Throws `std::logic_error` if a backward pass has passed the tensor.
  constexpr void add(Buffer more, const detail::ElementSum& elements, Recorder* recorder) {
    std::is_constant_evaluated() ? add_here(std::move(more), elements, recorder)
                                 : add_once(std::move(more), elements, recorder);
  }

 private:
  void add_once(Buffer more, const detail::ElementSum& elements, Recorder* recorder);
  constexpr void add_here(Buffer more, const detail::ElementSum& elements, Recorder* recorder) {
    if (passed_) {
      throw std::logic_error(
          "Tape::backward: what the result was computed from, or the result itself, had its backward pass "
          "before, or was cleared, and is on the tape no longer; compute it again, or add the losses and "
          "call "
          "backward once");
    }
    if (has_rows()) add_up_rows();
    if (!sum_) {
      sum_ = std::move(more);
      if (use_ != MemoryUse::activation) sum_->set_use(use_);
      gathers_wide_ = use_ != MemoryUse::activation && elements.add_wide;
      return;
    }
    const Index count = more->bytes / elements.bytes;
    if (recorder) recorder->compute(count);
    if (gathers_wide_) return add_wide(count, more, elements, recorder);
    Buffer sum;  // an `if`, because g++ 12 miscounts the handles of `?:` in constants
    if (writable()) {
      sum = sum_;
    } else {
      sum = allocate_buffer(sum_, recorder, sum_->bytes, use_);
    }
    if (sum->data) elements.add(count, sum_->data, more->data, sum->data);
    sum_ = std::move(sum);
  }

  constexpr void add_wide(Index count, const Buffer& more, const detail::ElementSum& elements,
                          Recorder* recorder) {
    if (!wide_) {
      wide_ = &elements;
      const Index bytes = count * elements.wide_bytes;
      const Buffer first = std::exchange(sum_, allocate_buffer(sum_, recorder, bytes, use_));
      if (sum_->data) {
        std::memset(sum_->data, 0, static_cast<std::size_t>(bytes));
        elements.add_wide(count, first->data, sum_->data);
      }
    }
    if (sum_->data) elements.add_wide(count, more->data, sum_->data);
  }
  constexpr void add_up_rows() {
    detail::PooledList<detail::TokenRows> all;
    take_rows(all);
    for (const detail::TokenRows& some : all) add_up(some);
  }
  constexpr void round() {
    const Index count = sum_->bytes / wide_->wide_bytes;
    const Buffer wide =
        std::exchange(sum_, allocate_buffer(sum_, sum_->recorder, count * wide_->bytes, use_));
    if (sum_->data) wide_->narrow(count, wide->data, sum_->data);
    wide_ = nullptr;
  }

  Buffer sum_;
  detail::PooledList<detail::TokenRows> rows_;
  const detail::ElementSum* wide_ = nullptr;  ///< of the elements, if the sum is wider
  MemoryUse use_;
  bool passed_ = false;
  bool gathers_wide_ = false;
  int awaited_ = 0;
  GradientListener* listener_ = nullptr;
};

namespace detail {

/// What a node has of its result: when the node goes, no gradient of it goes any further.
class ResultSlot : public Shared<GradientSlot> {
 public:
  constexpr ResultSlot(const Shared<GradientSlot>& slot) : Shared(slot) {}
  constexpr ResultSlot(ResultSlot&&) = default;
  ResultSlot& operator=(ResultSlot&&) = delete;
  constexpr ~ResultSlot() {
    if (*this) (**this).close();
  }
};

/// The gradient of an `X` of these extents, whose bytes are `sum`; an empty tensor if that is empty.
template <TensorType X>
constexpr cotangent_of<X> gradient_of(const typename X::MeshOf& mesh, const Shape<X::rank>& shape,
                                      Buffer sum) {
  if (!sum) return {};
  return {mesh, shape, std::move(sum)};
}

}  // namespace detail

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {

SHARDWISE_INLINE void GradientSlot::add_once(Buffer more, const detail::ElementSum& elements,
                                             Recorder* recorder) {
  add_here(std::move(more), elements, recorder);
}

}  // namespace shardwise
#endif
