// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks of `redistribute` between two tensor types: values, both calls, and the pullback on a tape.

#include <shardwise/autograd/redistribute.hpp>
#include <support/arrival.hpp>
#include <support/elements.hpp>
#include <support/redistribution.hpp>

namespace shardwise::testing {

/// Writes this rank's block of the tensor that `seed` makes in the layout of `x`.
inline void fill(const detail::AnyTensor& x, std::uint64_t seed) {
  with_elements(x, [&]<class T>(T* elements) {
    const auto block = source_block<T>(x.mesh, x.shape, x.layout, seed);
    std::copy(block.begin(), block.end(), elements);
  });
}
/// Is it what `fill` wrote?
inline bool filled(const detail::AnyTensor& x, std::uint64_t seed) {
  bool same = false;
  with_elements(x, [&]<class T>(const T* elements) {
    const auto block = source_block<T>(x.mesh, x.shape, x.layout, seed);
    same = std::equal(block.begin(), block.end(), elements);
  });
  return same;
}
/// The tensor that `seed` makes, as an X.
template <class X>
X typed_source(const typename X::MeshOf& mesh, const Shape<X::rank>& shape, std::uint64_t seed) {
  X x(mesh, shape);
  fill(detail::AnyTensor(x), seed);
  return x;
}

/// Is `x` the tensor that `seed` made in layout `from`?
inline bool holds(const detail::AnyTensor& x, const Layout& from, std::uint64_t seed) {
  bool right = false;
  with_elements(
      x, [&](const auto* elements) { right = is_block_of(x.mesh, x.shape, elements, x.layout, from, seed); });
  return right;
}
template <TensorType X>
bool holds(const X& x, const Layout& from, std::uint64_t seed) {
  return holds(detail::AnyTensor(x), from, seed);
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

/// What MPI saw; in a simulation, what was recorded in this phase.
template <class PlanType>
std::string kinds(const PlanType& recorded, Phase phase) {
  if (mpi_counter::counting()) return kinds(mpi_counter::counts());
  std::string line;
  for (int kind = 1; kind < collective_kinds; ++kind) {
    const auto calls = recorded.count(static_cast<Collective>(kind), phase);
    if (calls > 0)
      line += (line.empty() ? "" : ", ") + std::string(name_of(static_cast<Collective>(kind))) + " " +
              std::to_string(calls);
  }
  return line;
}

/// The collectives of redistributing an X: "forward / backward".
template <class X, class... To>
std::string collectives(const typename X::MeshOf& mesh, const Shape<X::rank>& shape) {
  Tape tape;
  auto x = tape.input(typed_source<X>(mesh, shape, 1));
  const Recording recording(mesh);
  mpi_counter::reset();
  auto y = redistribute<To...>(x);
  std::string line = kinds(recording.plan(), Phase::forward) + " / ";
  using Y = tensor_of<decltype(y)>;
  if constexpr (!std::is_same_v<X, Y>) {
    arrive(tape, y, typed_source<cotangent_of<Y>>(mesh, shape, 2));
    mpi_counter::reset();
    go_back(tape, mesh);
    line += kinds(recording.plan(), Phase::backward);
  }
  return line;
}

inline void report(const std::string& how, const std::string& wrong, const detail::AnyTensor& x,
                   const Layout& to) {
  INFO(how, text(x.mesh.sizes(), x.layout.axes), " mesh, ", text(x.extents()), ": ",
       detail::text_of(x.layout), " -> ", detail::text_of(to));
  CHECK(wrong == "");
}

/// What is wrong with `y`, which `x` has become, and with what was recorded and seen meanwhile.
template <class PlanType>
std::string wrong_result(const detail::AnyTensor& x, const detail::AnyTensor& y, const PlanType& recorded) {
  const Route expected = route(x.layout, y.layout, x.rank, x.mesh.sizes());
  std::string wrong =
      disagreement(expected, {x.type, x.layout, x.mesh.sizes()}, recorded, mpi_counter::counts());
  if (!holds(y, x.layout, 5) || y.extents() != x.extents()) wrong += " wrong;";
  if (!filled(x, 5)) wrong += " the source has changed;";
  return wrong;
}
/// The map is the identity of the values, so the gradient that comes out has the value of the one that goes in.
template <class PlanType>
std::string wrong_gradient(const detail::AnyTensor& found, const Layout& arriving, const PlanType& recorded) {
  const Route expected = route(arriving, found.layout, found.rank, found.mesh.sizes());
  std::string wrong =
      disagreement(expected, {found.type, arriving, found.mesh.sizes()}, recorded, mpi_counter::counts());
  if (recorded.collectives() != recorded.collectives(Phase::backward))
    wrong += " not all counted as backward;";
  if (!found) return wrong + " no gradient";
  if (!holds(found, arriving, 9)) wrong += " wrong gradient;";
  return wrong;
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
      const X x = typed_source<X>(mesh, shape, 5);
      forward<Y>(x);
      if constexpr (X::is_float && has_cotangent(X::layout) && has_cotangent(Y::layout)) backward<Y>(x);
    }
  }

 private:
  template <class Y, class X>
  static void forward(const X& x) {
    for (bool asynchronous : {false, true}) {
      Recording recording(x.mesh());
      mpi_counter::reset();
      const Y y = asynchronous ? redistribute_async<To...>(x).wait() : redistribute<To...>(x);
      const detail::AnyTensor any(x);
      report(asynchronous ? "asynchronously, " : "",
             wrong_result(any, detail::AnyTensor(y), recording.plan()), any, Y::layout);
    }
  }

  template <class Y, class X>
  static void backward(const X& tensor) {
    const detail::AnyTensor any(tensor);
    const auto mesh = tensor.mesh();
    Tape tape;
    auto x = tape.input(tensor);
    auto y = redistribute<To...>(x);
    static_assert(std::is_same_v<tensor_of<decltype(y)>, Y>);
    const detail::AnyTensor gradient = any.unwritten(cotangent_of<Y>::layout, MemoryUse::activation);
    fill(gradient, 9);
    arrive(tape, y, gradient);
    Recording recording(mesh);
    mpi_counter::reset();
    go_back(tape, mesh);
    report(
        "backward, ",
        wrong_gradient(any.with(cotangent_of<X>::layout, x.slot()->sum()), gradient.layout, recording.plan()),
        any, Y::layout);
  }
};

/// Everything about redistributing a `Tensor<T, Rank, MeshType, From...>` to the placements `To...`, where
/// `From` and `To` are lists of placements.
template <class T, int Rank, class From, class To, class MeshType>
void check_typed(const MeshType& mesh, const Shape<Rank>& shape) {
  TypedPair<T, Rank, From, To>::check(mesh, shape);
}

}  // namespace shardwise::testing
