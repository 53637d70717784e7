// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A mistake that has nothing to do with layouts, in a template that calls a model, is one error and not many.
// expect: no member named

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/train/unit.hpp>

using namespace shardwise;

template <class MeshType>
struct Head : Module<Head<MeshType>> {
  Linear<MeshType> linear;
  Unit unit;
  constexpr explicit Head(const MeshType& mesh) : linear(mesh, 4, 8), unit(linear) {
  }
  constexpr auto forward(const auto& x) const {
    return unit(x, [&](const auto& in) { return linear(in); });
  }
  constexpr void visit(auto&& f) {
    f("linear", linear);
  }
};

template <class MeshType>
double run(const MeshType& mesh, const Tensor<float, 2, MeshType, Replicate>& x) {
  Head<MeshType> head(mesh);
#ifdef SHOULD_FAIL
  const Index classes = head.classes;
#else
  const Index classes = 8;
#endif
  Tape tape;
  const auto y = head(tape.constant(x));
  return static_cast<double>(y.shape()[1] - classes);
}

double begin(const Mesh<tp>& mesh, const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return run(mesh, x);
}
