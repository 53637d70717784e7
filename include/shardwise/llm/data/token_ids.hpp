// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The types of a micro-batch's tensors, without reading data: a program that plans a model needs no range-v3.

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise::llm {

namespace detail {

/// `positions` is the placement on axes along which sequences are sharded, such as `cp`.
template <class MeshType>
constexpr Layout rows_over_data_axes(Placement positions) {
  using AxesOf = typename MeshType::AxesOf;
  return Layout::by_axis(MeshType::axes, [=](int axis) {
    if (!AxesOf::data[axis]) return replicate;
    return AxesOf::sequence[axis] ? positions : shard(0);
  });
}

}  // namespace detail

/// Token ids [sequences, length]: `Shard<0>` on `data` axes, except `Shard<1>` on those along which sequences are
/// sharded, such as `cp`; `Replicate` on the others.
template <class MeshType>
using TokenIds =
    tensor_with<std::int32_t, 2, MeshType, packed(detail::rows_over_data_axes<MeshType>(shard(1)))>;
/// The same for document numbers, whose rows are not sharded.
template <class MeshType>
using DocumentNumbers =
    tensor_with<std::int32_t, 2, MeshType, packed(detail::rows_over_data_axes<MeshType>(replicate))>;

}  // namespace shardwise::llm
