// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where a gradient gathers. Contributions are added in the gradient's own layout: three uses of one
/// `Reduced` tensor add up as one pending sum, and are reduced once.

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise {

namespace detail {

/// How elements of one type are added; and, if they are narrower than what is computed with, how many are: in that type.
struct ElementSum {
  Index bytes;  ///< of an element
  void (*add)(Index count, const void* a, const void* b, void* sum);
  Index wide_bytes;                                                  ///< of an element that is computed with
  void (*add_wide)(Index count, const void* more, void* wide_sum);   ///< null if that is the same type
  void (*narrow)(Index count, const void* wide_sum, void* rounded);  ///< null if that is the same type
};
template <class T>
constexpr ElementSum sum_of_elements() {
  using C = kernel::compute_t<T>;
  ElementSum functions{sizeof(T),
                       [](Index count, const void* a, const void* b, void* sum) {
                         kernel::add(count, static_cast<const T*>(a), static_cast<const T*>(b),
                                     static_cast<T*>(sum));
                       },
                       sizeof(C), nullptr, nullptr};
  if constexpr (!std::is_same_v<T, C>) {
    functions.add_wide = [](Index count, const void* more, void* wide_sum) {
      kernel::accumulate_wide(count, static_cast<const T*>(more), static_cast<C*>(wide_sum));
    };
    functions.narrow = [](Index count, const void* wide_sum, void* rounded) {
      kernel::narrow(count, static_cast<const C*>(wide_sum), static_cast<T*>(rounded));
    };
  }
  return functions;
}
template <class T>
inline constexpr ElementSum element_sum = sum_of_elements<T>();

}  // namespace detail

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
class GradientSlot : public Counted {
 public:
  /// `use`: what the gradient's memory is counted as.
  constexpr explicit GradientSlot(MemoryUse use = MemoryUse::activation) : use_(use) {}

  constexpr bool filled() const { return static_cast<bool>(sum_); }
  constexpr const Buffer& sum() {
    round();
    return sum_;
  }
  constexpr MemoryUse use() const { return use_; }
  /// There is a gradient, and nobody else reads it: a kernel may add to it in place.
  constexpr bool writable() const { return sum_.unique() && !gathers_wide_; }
  /// The gradient, to be changed in place by whoever asks: copied first if somebody else reads it. There must be
  /// one.
  constexpr const Buffer& own(Recorder* recorder) {
    round();
    if (!sum_.unique()) {
      const Buffer copy = allocate_buffer(sum_, recorder, sum_->bytes, use_);
      if (sum_->data) std::memcpy(copy->data, sum_->data, static_cast<std::size_t>(sum_->bytes));
      sum_ = copy;
    }
    return sum_;
  }

  /// A node has been recorded that will add to it; and: one has done so, or has nothing to add.
  constexpr void expect() { ++awaited_; }
  constexpr void settle() {
    if (--awaited_ <= 0 && listener_) listener_->complete();
  }
  /// For the length of a backward pass; none: null. Nodes that never came to their end are forgotten with it.
  constexpr void set_listener(GradientListener* listener) {
    if (!listener) awaited_ = 0;
    listener_ = listener;
  }

  constexpr Buffer take() {
    round();
    return std::move(sum_);
  }
  /// For the node whose result's gradient this is: what there is of it, when the backward pass comes to the node. To
  /// add to it later is an error.
  constexpr Buffer pass() {
    passed_ = true;
    return take();
  }
  constexpr void clear() {
    sum_ = Buffer();
    wide_ = nullptr;
  }

  template <TensorType Gradient>
  constexpr void add(Gradient more) {
    Recorder* recorder = more.mesh().recorder();
    Buffer block = more.buffer();
    more = Gradient();  // so that its block may be written to
    add(std::move(block), detail::element_sum<typename Gradient::Element>, recorder);
  }
  /// Throws `std::logic_error` if a backward pass has passed the tensor.
  [[gnu::noinline]] constexpr void add(Buffer more, const detail::ElementSum& elements, Recorder* recorder) {
    if (passed_) {
      throw std::logic_error(
          "Tape::backward: what the result was computed from, or the result itself, had its backward pass "
          "before, which emptied the tape; compute it again, or add the losses and call backward once");
    }
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

 private:
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
  constexpr void round() {
    if (!wide_) return;
    const Index count = sum_->bytes / wide_->wide_bytes;
    const Buffer wide =
        std::exchange(sum_, allocate_buffer(sum_, sum_->recorder, count * wide_->bytes, use_));
    if (sum_->data) wide_->narrow(count, wide->data, sum_->data);
    wide_ = nullptr;
  }

  Buffer sum_;
  const detail::ElementSum* wide_ = nullptr;  ///< of the elements, if the sum is wider
  MemoryUse use_;
  bool passed_ = false;
  bool gathers_wide_ = false;
  int awaited_ = 0;
  GradientListener* listener_ = nullptr;
};

namespace detail {

/// The gradient of an `X` of these extents, whose bytes are `sum`; an empty tensor if that is empty.
template <TensorType X>
constexpr cotangent_of<X> gradient_of(const typename X::MeshOf& mesh, const Shape<X::rank>& shape,
                                      Buffer sum) {
  if (!sum) return {};
  return {mesh, shape, std::move(sum)};
}

}  // namespace detail

}  // namespace shardwise
