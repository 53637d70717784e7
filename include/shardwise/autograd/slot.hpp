// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The place where a gradient accumulates. Contributions are added in the gradient's own layout: three uses of one
/// `Reduced` tensor add up to one pending sum, which is reduced once.

#include <shardwise/autograd/sparse_rows.hpp>
#include <shardwise/base/bodies.hpp>
#include <shardwise/memory/pooled_list.hpp>

namespace shardwise {

/// Its `complete` is called when no recorded node will add to the gradient any more.
class GradientListener {
 public:
  /// The gradient has all its contributions.
  constexpr virtual void complete() = 0;
};

/// A slot has the bytes of the gradient. The owner of the slot knows the tensor, and so the gradient's type and
/// extents.
///
/// The gradient of a parameter in bfloat16 accumulates in float, because there may be many micro-batches, and is
/// rounded when it is read. A single contribution is kept as it is.
///
/// If all contributions are sparse rows, they are kept as rows, and added up when the gradient is read.
class GradientSlot : public Counted {
 public:
  /// `use`: the kind of memory as which the gradient is counted.
  constexpr explicit GradientSlot(MemoryUse use = MemoryUse::activation) : use_(use) {}

  /// Whether there is a gradient, and as which kind of memory it is counted.
  constexpr bool filled() const { return sum_ || !rows_.empty(); }
  constexpr MemoryUse use() const { return use_; }
  /// Whether there is a gradient without another reader, so that a kernel may add to it in place.
  constexpr bool writable() const { return sum_.unique() && !gathers_wide_ && !has_rows(); }
  /// The gradient, which must exist, for the caller to change in place. It is copied first if it has another reader.
  [[gnu::noinline]] constexpr const Buffer& own(Recorder* recorder) {
    if (has_rows() || wide_) add_up();
    if (!sum_.unique()) {
      const Buffer copy = allocate_buffer(sum_, recorder, sum_->bytes, use_);
      if (sum_->data) std::memcpy(copy->data, sum_->data, static_cast<std::size_t>(sum_->bytes));
      sum_ = copy;
    }
    return sum_;
  }

  /// A recorded node announces a contribution with `expect`, and with `settle` that it has arrived or will not come.
  constexpr void expect() { ++awaited_; }
  constexpr void settle() {
    if (--awaited_ <= 0 && listener_) listener_->complete();
  }
  /// For one backward pass; null for none. It also drops announced contributions that never arrived.
  constexpr void set_listener(GradientListener* listener) {
    if (!listener) awaited_ = 0;
    listener_ = listener;
  }

  /// Noted while recorded, to find waste (see `RedistributeNode`): the layout that the gradient takes next, packed, if
  /// its tensor is the result of a redistribution; and the redistribution that brought the latest contribution.
  static constexpr std::uint64_t unknown = ~std::uint64_t{};
  PackedLayout onward = unknown;
  std::uint64_t arrived = unknown;

  /// Moves the gradient out of the slot; an empty buffer if there is none.
  constexpr Buffer take() {
    if (has_rows() || wide_) add_up();
    return std::move(sum_);
  }
  /// The gradient for reading; `has_rows` does not change.
  constexpr const Buffer& sum() {
    if (has_rows() || wide_) show();
    return sum_;
  }
  /// The node of the result takes the gradient when the backward pass reaches it. Adding to the slot later is an error.
  constexpr Buffer pass() {
    close();
    return take();
  }
  /// Contributions from now on are dropped.
  constexpr void close() { passed_ = true; }
  constexpr void clear() {
    sum_ = Buffer();
    wide_ = nullptr;
    rows_.clear();
  }

  /// Whether all contributions are sparse rows, so that they can be taken as rows.
  constexpr bool has_rows() const { return !rows_.empty(); }
  /// Whether the rows can be gathered along these axes alone. They cannot if another axis shards their blocks again.
  constexpr bool rows_gather_along(AxisSet axes) const {
    for (const detail::SparseRows& some : rows_) {
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
  constexpr void take_rows(detail::PooledList<detail::SparseRows>& to) {
    sum_ = Buffer();
    while (has_rows()) rows_.move_to(to, rows_.front());
  }
  /// Keeps the contribution as rows if all others are rows, and together they have at most `most_ids` ids on a
  /// rank: numbers that are equal on all ranks. Returns whether it does.
  [[gnu::noinline]] constexpr bool keep(const detail::SparseRows& some, Index most_ids) {
    if (sum_ && !has_rows()) return false;
    Index ids = some.most_ids();
    for (const detail::SparseRows& other : rows_) ids += other.most_ids();
    if (ids > most_ids) return false;
    sum_ = Buffer();  // drop the sum of the other contributions
    rows_.emplace_back(some).rows.buffer->set_use(use_);
    return true;
  }
  /// Adds the sums of the rows.
  constexpr void add_up(const detail::SparseRows& some) {
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
  /// Throws `std::logic_error` if a backward pass has already used the gradient.
  constexpr void add(Buffer more, const detail::ElementSum& elements, Recorder* recorder) {
    add_block(std::move(more), elements, recorder);
  }

 private:
  /// Leaves the gradient as one block in its own element type.
  SHARDWISE_ONCE(void, add_up, (), (), add_up_here())
  constexpr void add_up_here() {
    if (has_rows()) add_up_rows();
    if (wide_) round();
  }
  constexpr void show_here() {
    if (has_rows() && !sum_) {
      GradientSlot all(use_);
      for (const detail::SparseRows& some : rows_) all.add_up(some);
      sum_ = all.take();
    }
    if (wide_) round();
  }
  SHARDWISE_ONCE(void, show, (), (), show_here())
  SHARDWISE_ONCE(void, add_block, (Buffer more, const detail::ElementSum& elements, Recorder* recorder),
                 (std::move(more), elements, recorder), add_here(std::move(more), elements, recorder))
  constexpr void add_here(Buffer more, const detail::ElementSum& elements, Recorder* recorder) {
    if (passed_) {
      throw std::logic_error(
          "Tape::backward: the result, or one of its operands, had its backward pass before, or was cleared, "
          "and is no longer on the tape; compute it again, or add the losses and call backward once");
    }
    if (has_rows()) add_up_rows();
    if (!sum_) {
      sum_ = std::move(more);
      if (use_ != MemoryUse::activation) sum_->set_use(use_);
      gathers_wide_ = use_ != MemoryUse::activation && elements.add_wide;
      return;
    }
    const Index count = more->bytes / elements.bytes;
    if (recorder) recorder->compute(count, 3 * more->bytes);
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
    detail::PooledList<detail::SparseRows> all;
    take_rows(all);
    for (const detail::SparseRows& some : all) add_up(some);
  }
  constexpr void round() {
    const Index count = sum_->bytes / wide_->wide_bytes;
    const Buffer wide =
        std::exchange(sum_, allocate_buffer(sum_, sum_->recorder, count * wide_->bytes, use_));
    if (sum_->data) wide_->narrow(count, wide->data, sum_->data);
    wide_ = nullptr;
  }

  Buffer sum_;
  detail::PooledList<detail::SparseRows> rows_;
  const detail::ElementSum* wide_ = nullptr;  ///< of the elements, if the sum is wider
  MemoryUse use_;
  bool passed_ = false;
  bool gathers_wide_ = false;
  int awaited_ = 0;
  GradientListener* listener_ = nullptr;
};

namespace detail {

SHARDWISE_COMPILE(end_pooled<GradientSlot>)

/// The slot of a node's result. When the node is destroyed, the slot is closed.
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
