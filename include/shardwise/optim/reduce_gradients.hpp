// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Finishes the gradients of a module that are pending sums, many in one all-reduce: in buckets, as PyTorch's
/// DistributedDataParallel does (Li et al., "PyTorch Distributed", 2020).
///
/// ```
/// tape.backward(loss);
/// reduce_gradients(model);               // an optimizer's step does it too, for what is still pending
/// model.up.weight.finished_gradient();   // the sum: Replicate where the parameter is Reduced
/// ```

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/mesh/communicator.hpp>
#include <shardwise/nn/module.hpp>

namespace shardwise {

struct ReduceOptions {
  /// All-reduces of several gradients have at most this many bytes; what is larger by itself is reduced alone,
  /// without a copy. 0: each is reduced alone.
  Index bucket_bytes = Index{8} << 20;
};

namespace detail {

/// A gradient, with elements of type `T`, on its way through a bucket.
template <class T>
class BucketPiece {
 public:
  constexpr BucketPiece(T* memory, Index elements) : block(memory), count(elements) {}
  BucketPiece(const BucketPiece&) = delete;
  BucketPiece& operator=(const BucketPiece&) = delete;

  /// Hands the block on: it is now the sum.
  constexpr virtual void finish() = 0;
  /// Ends the piece's life; pieces live in the pool.
  constexpr virtual void destroy() = 0;

  T* const block;  // null on a dry mesh
  const Index count;
  BucketPiece* next = nullptr;

 protected:
  constexpr ~BucketPiece() = default;
};

/// The gradient of a parameter of type `X`.
template <TensorType X>
class PieceOf final : public BucketPiece<typename X::Element> {
 public:
  using Finished = finished_gradient_of<X>;

  /// Nobody else reads `pending`.
  constexpr PieceOf(cotangent_of<X> pending, GradientSlot<Finished>& to)
      : BucketPiece<typename X::Element>(pending.writable().data, elements(pending.local_shape())),
        pending_(std::move(pending)),
        to_(to) {}
  constexpr void finish() override {
    to_.add(Finished(pending_.mesh(), pending_.shape(), pending_.buffer()));
  }
  constexpr void destroy() override { destroy_pooled(this); }

 private:
  cotangent_of<X> pending_;
  GradientSlot<Finished>& to_;
};

/// Gradients that wait for the same all-reduce.
class BucketBase {
 public:
  BucketBase(const BucketBase&) = delete;
  BucketBase& operator=(const BucketBase&) = delete;

  /// Sums the pieces over the ranks, hands them on, and is empty again.
  constexpr virtual void reduce() = 0;
  /// Ends the bucket's life; buckets live in the pool.
  constexpr virtual void destroy() = 0;

  const int* const type;  ///< which derived class this is: the address of its `bucket_type`
  BucketBase* next = nullptr;

 protected:
  constexpr explicit BucketBase(const int* derived) : type(derived) {}
  constexpr ~BucketBase() = default;
};

template <class T, class MeshType>
inline constexpr int bucket_type = 0;

template <class T, class MeshType>
class Bucket final : public BucketBase {
 public:
  /// The sums are over the ranks of `axes`; `capacity` is in elements.
  constexpr Bucket(const MeshType& mesh, AxisSet axes, Index capacity)
      : BucketBase(&bucket_type<T, MeshType>), mesh_(mesh), axes_(axes), capacity_(capacity) {}
  constexpr ~Bucket() { empty(); }

  constexpr bool is_for(const MeshType& mesh, AxisSet axes) const { return mesh_ == mesh && axes_ == axes; }

  /// The piece now belongs to the bucket. What does not fit any more is reduced at once.
  constexpr void add(BucketPiece<T>* piece) {
    if (piece->count > capacity_) {
      Bucket alone(mesh_, axes_, piece->count);
      alone.add(piece);
      return alone.reduce();
    }
    if (piece->count > capacity_ - elements_) reduce();
    if (last_) {
      last_->next = piece;
    } else {
      first_ = piece;
    }
    last_ = piece;
    elements_ += piece->count;
  }

  constexpr void reduce() override {
    if (!first_) return;
    PhaseScope phase(mesh_.recorder(), Phase::optimizer);
    const Index bytes = elements_ * static_cast<Index>(sizeof(T));
    if (auto* recorder = mesh_.recorder()) recorder->communicate(Collective::all_reduce, axes_, bytes);
    if (first_ == last_) {
      if constexpr (!MeshType::dry) sum(first_->block);
    } else {
      const Buffer joint = Buffer::allocate(mesh_, bytes, MemoryUse::gradient);
      if constexpr (!MeshType::dry) sum_through(static_cast<T*>(joint.data()));
    }
    for (BucketPiece<T>* piece = first_; piece; piece = piece->next) piece->finish();
    empty();
  }
  constexpr void destroy() override { destroy_pooled(this); }

 private:
  void sum(T* block) const {
    mesh_.communicator(axes_).all_reduce(block, block, elements_, data_type<T>, ReduceOp::sum);
  }
  void sum_through(T* joint) const {
    T* place = joint;
    for (BucketPiece<T>* piece = first_; piece; place += piece->count, piece = piece->next) {
      kernel::copy(piece->count, piece->block, place);
    }
    sum(joint);
    place = joint;
    for (BucketPiece<T>* piece = first_; piece; place += piece->count, piece = piece->next) {
      kernel::copy(piece->count, place, piece->block);
    }
  }
  constexpr void empty() {
    while (first_) {
      BucketPiece<T>* piece = first_;
      first_ = piece->next;
      piece->destroy();
    }
    last_ = nullptr;
    elements_ = 0;
  }

  MeshType mesh_;
  AxisSet axes_;
  Index capacity_;
  Index elements_ = 0;
  BucketPiece<T>* first_ = nullptr;
  BucketPiece<T>* last_ = nullptr;
};

/// A bucket for each element type, mesh and set of axes that is met, in the order in which they are met: the same
/// on every rank.
class Buckets {
 public:
  constexpr explicit Buckets(Index bytes) : bytes_(bytes) {}
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;
  constexpr ~Buckets() {
    while (first_) {
      BucketBase* bucket = first_;
      first_ = bucket->next;
      bucket->destroy();
    }
  }

  template <class T, class MeshType>
  constexpr Bucket<T, MeshType>& at(const MeshType& mesh, AxisSet axes) {
    using BucketType = Bucket<T, MeshType>;
    BucketBase** place = &first_;
    for (; *place; place = &(*place)->next) {
      if ((*place)->type != &bucket_type<T, MeshType>) continue;
      auto* bucket = static_cast<BucketType*>(*place);
      if (bucket->is_for(mesh, axes)) return *bucket;
    }
    constexpr Index most = std::numeric_limits<int>::max();  // that one call takes
    auto* bucket =
        make_pooled<BucketType>(mesh, axes, std::min(most, bytes_ / static_cast<Index>(sizeof(T))));
    *place = bucket;
    return *bucket;
  }

  constexpr void reduce() {
    for (BucketBase* bucket = first_; bucket; bucket = bucket->next) bucket->reduce();
  }

 private:
  Index bytes_;
  BucketBase* first_ = nullptr;
};

/// The axes on which gradients of an `X` are terms of a sum. On an axis of one rank the term is the sum.
template <TensorType X>
constexpr AxisSet pending_axes(const MeshSizes& sizes) {
  AxisSet axes = 0;
  for (int axis = 0; axis < X::layout.axes; ++axis) {
    if (X::layout[axis] == reduced && sizes[static_cast<std::size_t>(axis)] > 1) axes |= 1u << axis;
  }
  return axes;
}

template <TensorType X>
constexpr void reduce_into(Buckets& buckets, Parameter<X>& parameter) {
  auto& pending = *parameter.slot();
  if (!pending.filled()) return;
  const auto& mesh = parameter.mesh();
  const AxisSet axes = pending_axes<X>(mesh.sizes());
  if (axes == 0 || elements(pending.gradient().local_shape()) == 0) {  // nothing to sum
    const cotangent_of<X> sum = pending.take();
    parameter.finished_slot().add(finished_gradient_of<X>(mesh, sum.shape(), sum.buffer()));
    return;
  }
  pending.own();
  buckets.at<typename X::Element>(mesh, axes)
      .add(make_pooled<PieceOf<X>>(pending.take(), parameter.finished_slot()));
}

}  // namespace detail

/// Moves the gradient of each parameter of `module` from where `backward` left it to `finished_gradient()`, where it
/// is added to what is there. Those that are pending on axes of more than one rank are summed: those with the same
/// element type, mesh and axes together, in the order of `visit`, by one all-reduce a bucket; collective over these
/// axes. The others only change their type. All ranks must have gradients for the same parameters.
/// Throws `std::invalid_argument` if `bucket_bytes` is negative.
template <class Module>
constexpr void reduce_gradients(Module& module, const ReduceOptions& options = {}) {
  if (options.bucket_bytes < 0) {
    throw std::invalid_argument("reduce_gradients: bucket_bytes is " + std::to_string(options.bucket_bytes) +
                                ", which must be 0 or more");
  }
  detail::Buckets buckets(options.bucket_bytes);
  for_each_parameter(module, [&](auto& parameter) {
    PhaseScope phase(parameter.mesh().recorder(), Phase::optimizer);
    detail::reduce_into(buckets, parameter);
  });
  buckets.reduce();
}

}  // namespace shardwise
