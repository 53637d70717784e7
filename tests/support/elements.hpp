// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::testing {

/// The place in the whole tensor, row-major, of an element of a block.
template <class T, int Rank>
Index whole_place(const View<T, Rank>& block, Index at) {
  Index place = 0, stride = 1;
  for (std::size_t dim = Rank; dim-- > 0;) {
    place += (block.begin[dim] + at % block.size[dim]) * stride;
    at /= block.size[dim];
    stride *= block.shape[dim];
  }
  return place;
}

/// Calls f with a pointer to the elements of this rank's block.
template <class F>
void with_elements(const detail::AnyTensor& x, F f) {
  void* const data = x.buffer->data;
  switch (x.type) {
    case DataType::f32:
      return f(static_cast<float*>(data));
    case DataType::f64:
      return f(static_cast<double*>(data));
    case DataType::bf16:
      return f(static_cast<Eigen::bfloat16*>(data));
    case DataType::i32:
      return f(static_cast<std::int32_t*>(data));
    case DataType::i64:
      return f(static_cast<std::int64_t*>(data));
    case DataType::u8:
      return f(static_cast<std::uint8_t*>(data));
  }
  throw std::logic_error("with_elements: a block is not a number");
}

}  // namespace shardwise::testing
