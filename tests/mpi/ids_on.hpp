// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tensor/tensor.hpp>

namespace shardwise::testing {

/// Four rows of six tokens of 23, other ones for each `number`.
template <class MeshType>
constexpr auto ids_on(const MeshType& mesh, int number) {
  Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate> ids(mesh, {4, 6});
  if (!mesh.dry()) {
    const auto block = ids.writable();
    for (Index i = 0; i < block.elements(); ++i)
      block.data[i] = static_cast<std::int32_t>((i + block.begin[0] + 5 * number) % 23);
  }
  return ids;
}

}  // namespace shardwise::testing
