// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Wrong arguments of `Linear`, each of which is a compile error that says what to write instead.

#include <shardwise/parallel/style.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style, class T, int OutDims, int InDims, bool HasBias>
class Linear;

template <class MeshType, ParallelStyle First, ParallelStyle Second, int OutDims, int InDims, bool HasBias>
class Linear<MeshType, First, Second, OutDims, InDims, HasBias> {
 public:
  Linear(const auto&...) = delete;  // combine several styles: Styles<First, Second>
};

/// A style instead of the mesh, or an element type that no tensor has.
template <class MeshType, ParallelStyle Style, class T, int OutDims, int InDims, bool HasBias>
  requires(!ParallelStyle<T> && (!Communicable<T> || !requires { typename MeshType::AxesOf; }))
class Linear<MeshType, Style, T, OutDims, InDims, HasBias> {
 public:
  template <IllFormed Why = std::conditional_t<Communicable<T>, WrittenOtherwise<Hint::pass_the_mesh_first>,
                                               layout_error<Reason::unsupported_element_type, Got<T>>>>
  Linear(const auto&...) = delete;  // see Why
};

}  // namespace shardwise
