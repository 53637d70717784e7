// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A style of your own answers all questions of a layer along its axes, or names no axis. If
/// Shardwise accepted a style without `bias`, it would split neither the bias nor the weight.
// expect: LayoutError<Reason::style_is_incomplete, Got<Split<tp>>, Cure<Hint::define_NamedAxes_input_weight_bias_output_of_as_ColwiseParallel_does>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;

template <class Axis>
struct Split {
  using NamedAxes = AxisList<Axis>;
  static constexpr bool suits(ModuleKind kind) {
    return kind == ModuleKind::linear;
  }
  static constexpr Placement input(Placement, int) {
    return reduced;
  }
  static constexpr Placement weight(int out, int) {
    return shard(out);
  }
  static constexpr Placement output_of(Placement natural) {
    return natural;
  }
};

#ifdef SHOULD_FAIL
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, Split<tp>>(mesh, 64, 256);
}
#else
struct Whole : Split<tp> {
  static constexpr Placement bias() {
    return shard(0);
  }
};
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, Whole>(mesh, 64, 256);
}
#endif
