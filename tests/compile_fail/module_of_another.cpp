// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The base of a module names the module, and calls its `forward`. With the name of
/// another module, as after copying the line, the base would call the wrong `forward`.
// expect: Module<Self>::Module().*private|private default constructor
// expect: constexpr Module.. = default;  // for Self alone: derive Net from Module<Net>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

struct Encoder : Module<Encoder> {
  explicit Encoder(const Mesh<tp>& mesh) : up(mesh, 4, 4) {
  }
  auto forward(const auto& x) const {
    return up(x);
  }
  Linear<Mesh<tp>> up;
};

#ifdef SHOULD_FAIL
struct Decoder : Module<Encoder> {
#else
struct Decoder : Module<Decoder> {
#endif
  explicit Decoder(const Mesh<tp>& mesh) : down(mesh, 4, 4) {
  }
  auto forward(const auto& x) const {
    return down(x);
  }
  Linear<Mesh<tp>> down;
};
