// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Moves tensors from one mesh to another of the same job, which may have other ranks, axes and layouts.
///
/// ```
/// auto sent = send(x, next.ranks);                              // on each rank of x's mesh
/// auto y = receive<Y>(mesh, shape, previous.ranks).wait();      // on each rank of y's
/// auto z = redistribute<Shard<0>>(x, line);                     // where all ranks are on both
/// ```
/// No other ranks take part. Each rank sends one message in the background to each rank that needs part of its block.
/// If that part is contiguous, it is sent without packing and received directly into the new block; this is always so
/// if both meshes have the same sizes and layouts, because each rank then sends its whole block to its counterpart. If
/// several ranks hold copies, a receiver gets the one on its own host, if any, and the copies share the work.
///
/// Between two ranks, sends must be called in the same order as the matching receives. Otherwise the order of
/// starting and waiting does not matter, even if a send waits for its receive. The elements keep their bits. There
/// is no automatic differentiation: to return the gradient of a sent tensor, send it explicitly.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/mesh_transfer.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise {

namespace detail {

template <class M>
concept AnyMesh = requires {
  typename M::AxesOf;
};

/// The type of a tensor like `X` on another mesh, or an error: a pending reduction cannot leave its mesh, because
/// the ranks of the other one could not complete it, and nothing can become a pending maximum or minimum. Without
/// placements, those of `X`.
template <TensorType X, AnyMesh MeshType, class... Placements>
struct OnMesh {
  using Source = X;
  using Y = Tensor<typename X::Element, X::rank, MeshType, Placements...>;
  static constexpr auto type_of() {
    if constexpr (IllFormed<typename X::Problem>) {
      return TypeIs<typename X::Problem>{};
    } else if constexpr (IllFormed<typename Y::Problem>) {
      return TypeIs<typename Y::Problem>{};
    } else if constexpr (has_partial(X::layout)) {
      return Refused<Reason::value_is_pending_on_every_rank, Got<X>>{};
    } else if constexpr (has_partial_extremum(Y::layout)) {
      return Refused<Reason::nothing_can_become_a_pending_maximum_or_minimum, Got<Placements...>>{};
    } else {
      return TypeIs<Y>{};
    }
  }
  using type = typename decltype(type_of())::type;
};
template <class T, int Rank, class Mesh, AnyMesh MeshType, class... Same>
  requires(sizeof...(Same) == MeshType::axes)
struct OnMesh<Tensor<T, Rank, Mesh, Same...>, MeshType>
    : OnMesh<Tensor<T, Rank, Mesh, Same...>, MeshType, Same...> {};

/// `Y`, or the error why it cannot be received from a mesh of that type with placements `From...` (by default those
/// of `Y`).
template <class Y, class FromMesh, class... From>
struct ReceivedFrom;
template <class T, int Rank, class MeshType, class... To, class FromMesh, class... From>
struct ReceivedFrom<Tensor<T, Rank, MeshType, To...>, FromMesh, From...>
    : OnMesh<Tensor<T, Rank, FromMesh, From...>, MeshType, To...> {};
template <class T, int Rank, class MeshType, class... Same, class FromMesh>
struct ReceivedFrom<Tensor<T, Rank, MeshType, Same...>, FromMesh>
    : OnMesh<Tensor<T, Rank, FromMesh, Same...>, MeshType, Same...> {};

/// Starts to send `block` to the ranks of a mesh of its job, where it has the layout `to`.
constexpr Shared<AnyInFlight> start_sending(const AnyTensor& block, const RankGrid& ranks, const Layout& to) {
  auto transfer = Shared<MeshTransfer>::make(block.mesh, block.mesh.place().ranks, ranks, true, false);
  transfer->add(block, block.layout, {}, to);
  transfer->start();
  return transfer;
}
/// Starts to receive `block` from the ranks of a mesh of its job, where it has the layout `from`.
constexpr Shared<AnyInFlight> start_receiving(const AnyTensor& block, const RankGrid& ranks,
                                              const Layout& from) {
  auto transfer = Shared<MeshTransfer>::make(block.mesh, ranks, block.mesh.place().ranks, false, true);
  transfer->add({}, from, block, block.layout);
  transfer->start();
  return transfer;
}

/// Throws `std::invalid_argument` unless both meshes have the same ranks of one job.
constexpr void check_same_ranks(const MeshView& from, const MeshView& to) {
  if (!from.same_job(to)) {
    fail(
        {"redistribute: the two meshes are of different jobs: make them of one communicator, or of one mesh "
         "by submesh or part"});
  }
  // For each rank of the job: 1 if it is on the first mesh only, 0 if on both or neither.
  std::vector<int> on(static_cast<std::size_t>(from.place().job_size()), 0);
  for (const int rank : from.place().ranks.all()) ++on[static_cast<std::size_t>(rank)];
  for (const int rank : to.place().ranks.all()) --on[static_cast<std::size_t>(rank)];
  for (std::size_t rank = 0; rank < on.size(); ++rank) {
    if (on[rank] == 0) continue;
    fail({"redistribute: rank ", rank, " of the job is on the ", on[rank] > 0 ? "first" : "second",
          " of the two meshes only: there, use send and receive"});
  }
}

}  // namespace detail

/// `X` on a mesh of another type with these placements, or a `LayoutError`.
template <class X, class MeshType, class... Placements>
using on_mesh = typename detail::OnMesh<X, MeshType, Placements...>::type;

/// `Y`, or the `LayoutError` why it cannot be received from a mesh of that type with these placements.
template <class Y, class FromMesh, class... From>
using received_from = typename detail::ReceivedFrom<Y, FromMesh, From...>::type;

/// A tensor that is being sent. The destructor waits.
class [[nodiscard]] SendInFlight {
 public:
  /// For `send`, which returns it.
  constexpr explicit SendInFlight(Shared<detail::AnyInFlight> transfer) : transfer_(std::move(transfer)) {}
  SendInFlight(SendInFlight&&) noexcept = default;
  SendInFlight& operator=(SendInFlight&&) noexcept = default;

  /// Returns when its memory is no longer needed; later calls return at once.
  constexpr void wait() {
    if (transfer_) transfer_->finish();
    transfer_ = Shared<detail::AnyInFlight>();
  }

 private:
  Shared<detail::AnyInFlight> transfer_;
};

/// Sends `x` to the ranks of a mesh of its job, where it has the layout `To...` (by default that of `x`).
template <class... To, TensorType X, class... Axes, class Result = on_mesh<X, Mesh<Axes...>, To...>>
constexpr SendInFlight send(X x, const MeshRanks<Axes...>& to) {
  return SendInFlight(detail::start_sending(detail::AnyTensor(x), to.grid(), Result::layout));
}
template <class... To, TensorType X, class... Axes, IllFormed Why = on_mesh<X, Mesh<Axes...>, To...>>
Why send(X, const MeshRanks<Axes...>&);  // see Why

/// Receives a `Y` of global extents `shape`, on its mesh, from the ranks of another mesh of the job, where it has
/// the layout `From...` (by default that of `Y`). Throws `std::invalid_argument` for ranks outside the job;
/// `wait()` throws `std::runtime_error`, which names both ranks, if something else was sent.
template <TensorType Y, class... From, class... Axes,
          WellFormed Result = received_from<Y, Mesh<Axes...>, From...>>
[[nodiscard]] constexpr auto receive(const typename Y::MeshOf& mesh, const Shape<Y::rank>& shape,
                                     const MeshRanks<Axes...>& from) {
  using Sent = typename detail::ReceivedFrom<Y, Mesh<Axes...>, From...>::Source;
  return InFlight<Result>(
      mesh, detail::start_receiving(detail::AnyTensor(Result(mesh, shape)), from.grid(), Sent::layout));
}
template <TensorType Y, class... From, class... Axes,
          IllFormed Why = received_from<Y, Mesh<Axes...>, From...>>
Why receive(const typename Y::MeshOf&, const Shape<Y::rank>&, const MeshRanks<Axes...>&);  // see Why

/// `x` on another mesh of the same ranks, with the layout `To...` (by default the same). Collective over them. A
/// rank that keeps its block shares it with `x`. Throws `std::invalid_argument`, on every rank, if a rank is on
/// only one of the meshes: use `send` and `receive` there.
template <class... To, TensorType X, class MeshType, class Result = on_mesh<X, MeshType, To...>>
constexpr auto redistribute_async(const X& x, const MeshType& mesh) {
  const detail::AnyTensor from(x);
  const MeshView target(mesh);
  detail::check_same_ranks(from.mesh, target);
  const Box<X::rank> box = local_box(x.shape(), Result::layout, mesh.sizes(), mesh.coordinates());
  const bool stays = box == x.box() && !has_partial(Result::layout);
  const detail::AnyTensor to(stays ? Result(mesh, x.shape(), x.buffer()) : Result(mesh, x.shape()));
  auto transfer = Shared<detail::MeshTransfer>::make(from.mesh, from.mesh.place().ranks, target.place().ranks,
                                                     true, true);
  transfer->add(from, X::layout, to, Result::layout);
  transfer->start();
  return InFlight<Result>(mesh, std::move(transfer));
}
template <class... To, TensorType X, class MeshType, IllFormed Why = on_mesh<X, MeshType, To...>>
Why redistribute_async(const X&, const MeshType&);  // see Why

/// The same, complete on return.
template <class... To, TensorType X, class MeshType, class Result = on_mesh<X, MeshType, To...>>
constexpr auto redistribute(const X& x, const MeshType& mesh) {
  return redistribute_async<To...>(x, mesh).wait();
}
template <class... To, TensorType X, class MeshType, IllFormed Why = on_mesh<X, MeshType, To...>>
Why redistribute(const X&, const MeshType&);  // see Why

}  // namespace shardwise
