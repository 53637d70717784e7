// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::testing {

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
}

}  // namespace shardwise::testing
