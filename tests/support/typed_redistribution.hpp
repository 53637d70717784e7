// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks of `redistribute` between two tensor types: values, both calls, and the pullback on a tape.

#include <shardwise/autograd/redistribute.hpp>
#include <support/redistribution.hpp>

namespace shardwise::testing {

/// The tensor that `seed` makes, as an X.
template <class X>
X typed_source(const typename X::MeshOf& mesh, const Shape<X::rank>& shape, std::uint64_t seed) {
  X x(mesh, shape);
  const auto block = source_block<typename X::Element>(mesh, shape, X::layout, seed);
  std::copy(block.begin(), block.end(), x.writable().data);
  return x;
}

/// Is `x` the tensor that `seed` made in layout `from`?
template <class X>
bool holds(const X& x, const Layout& from, std::uint64_t seed) {
  return is_block_of(x.mesh(), x.shape(), x.data(), X::layout, from, seed);
}

/// On a tape, brings a gradient to a tensor from outside, when `backward` comes by.
template <TensorType Y>
class Arrival final : public TapeNode {
 public:
  Arrival(const Shared<GradientSlot>& slot, const cotangent_of<Y>& gradient)
      : slot_(slot), gradient_(gradient) {}
  void pull_back() override { slot_->add(std::move(gradient_)); }

 private:
  Shared<GradientSlot> slot_;
  cotangent_of<Y> gradient_;
};

/// Calls backward on a tape that has an `Arrival`.
template <class MeshType>
void go_back(Tape& tape, const MeshType& mesh) {
  tape.backward(tape.input(
      tensor_with<float, 0, MeshType, packed(everywhere(MeshType::axes, replicate))>(mesh, Shape<0>{})));
}

/// "kind calls, kind calls" of what MPI saw.
inline std::string kinds(const mpi_counter::Counts& counts) {
  std::string line;
  counts.each([&](const char* kind, const mpi_counter::Tally& tally) {
    if (tally.calls > 0)
      line += (line.empty() ? "" : ", ") + std::string(kind) + " " + std::to_string(tally.calls);
  });
  return line;
}

/// The collectives of redistributing an X: "forward / backward".
template <class X, class... To>
std::string collectives(const typename X::MeshOf& mesh, const Shape<X::rank>& shape) {
  Tape tape;
  auto x = tape.input(typed_source<X>(mesh, shape, 1));
  mpi_counter::reset();
  auto y = redistribute<To...>(x);
  std::string line = kinds(mpi_counter::counts()) + " / ";
  using Y = tensor_of<decltype(y)>;
  if constexpr (!std::is_same_v<X, Y>) {
    tape.record<Arrival<Y>>(y.slot(), typed_source<cotangent_of<Y>>(mesh, shape, 2));
    mpi_counter::reset();
    go_back(tape, mesh);
    line += kinds(mpi_counter::counts());
  }
  return line;
}

inline void report(const std::string& wrong, const MeshSizes& sizes, const std::string& shape,
                   const Layout& from, const Layout& to) {
  INFO(text(sizes, from.axes), " mesh, ", shape, ": ", text(from), " -> ", text(to));
  CHECK(wrong == "");
}

template <class T, int Rank, class From, class To>
struct TypedPair;

template <class T, int Rank, template <class...> class List, class... From, class... To>
struct TypedPair<T, Rank, List<From...>, List<To...>> {
  template <class MeshType>
  static void check(const MeshType& mesh, const Shape<Rank>& shape) {
    if constexpr (testing::convertible(layout_of<From...>, layout_of<To...>)) {
      using X = Tensor<T, Rank, MeshType, From...>;
      using Y = Tensor<T, Rank, MeshType, To...>;
      report(forward<X, Y>(mesh, shape), mesh.sizes(), text(shape), X::layout, Y::layout);
      if constexpr (X::is_float && has_cotangent(X::layout) && has_cotangent(Y::layout)) {
        report(backward<X, Y>(mesh, shape), mesh.sizes(), text(shape), X::layout, Y::layout);
      }
    }
  }

 private:
  template <class X, class Y, class MeshType>
  static std::string forward(const MeshType& mesh, const Shape<Rank>& shape) {
    const Route expected = route(X::layout, Y::layout, Rank, mesh.sizes());
    auto x = typed_source<X>(mesh, shape, 5);
    std::string wrong;
    {
      Recording recording(mesh);
      mpi_counter::reset();
      Y y = redistribute<To...>(x);
      wrong += disagreement(expected, recording.plan(), mpi_counter::counts());
      if (!holds(y, X::layout, 5) || y.shape() != shape) wrong += " wrong;";
    }
    Recording recording(mesh);
    mpi_counter::reset();
    auto pending = redistribute_async<To...>(x);
    Y later = pending.wait();
    wrong += disagreement(expected, recording.plan(), mpi_counter::counts());
    if (!holds(later, X::layout, 5)) wrong += " asynchronously wrong;";
    const auto original = source_block<T>(mesh, shape, X::layout, 5);
    if (!std::equal(original.begin(), original.end(), x.data())) wrong += " the source has changed;";
    return wrong;
  }

  /// The map is the identity of the values, so the gradient that comes out has the value of the one that
  /// goes in.
  template <class X, class Y, class MeshType>
  static std::string backward(const MeshType& mesh, const Shape<Rank>& shape) {
    using Gradient = cotangent_of<X>;
    using Arriving = cotangent_of<Y>;
    Tape tape;
    auto x = tape.input(typed_source<X>(mesh, shape, 5));
    auto y = redistribute<To...>(x);
    static_assert(std::is_same_v<tensor_of<decltype(y)>, Y>);
    tape.record<Arrival<Y>>(y.slot(), typed_source<Arriving>(mesh, shape, 9));
    Recording recording(mesh);
    mpi_counter::reset();
    go_back(tape, mesh);
    std::string wrong = disagreement(route(Arriving::layout, Gradient::layout, Rank, mesh.sizes()),
                                     recording.plan(), mpi_counter::counts());
    if (recording.plan().collectives() != recording.plan().collectives(Phase::backward)) {
      wrong += " not all counted as backward;";
    }
    if (!x.gradient()) return wrong + " no gradient";
    if (!holds(x.gradient(), Arriving::layout, 9)) wrong += " wrong gradient;";
    return wrong.empty() ? wrong : "backward:" + wrong;
  }
};

/// Everything about redistributing a `Tensor<T, Rank, MeshType, From...>` to the placements `To...`, where
/// `From` and `To` are lists of placements.
template <class T, int Rank, class From, class To, class MeshType>
void check_typed(const MeshType& mesh, const Shape<Rank>& shape) {
  TypedPair<T, Rank, From, To>::check(mesh, shape);
}

}  // namespace shardwise::testing
