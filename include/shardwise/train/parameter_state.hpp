// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What an optimizer keeps of a parameter, what it chooses a parameter's group by, and checks of its numbers.

#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise {

/// The state of one parameter: up to two blocks that lie as its finished gradient does, such as a velocity, or
/// Adam's two moments; and the parameter itself in the type that its arithmetic is done in, if it is stored in a
/// narrower one.
struct ParameterState {
  Buffer first, second, master;
  std::int64_t steps = 0;  ///< that the parameter has made: those in which it had a gradient
};

/// What a group of parameters is chosen by.
struct ParameterInfo {
  std::string_view name;  ///< its path: "layers.0.attention.wq.weight"; of tied parameters the first
  int rank = 0;           ///< number of dimensions
  Index elements = 0;     ///< global
};

namespace detail {

/// Throws `std::invalid_argument` unless 0 <= value < end.
constexpr void check_setting(const char* optimizer, const char* name, double value,
                             double end = std::numeric_limits<double>::infinity()) {
  if (value >= 0 && value < end) return;
  fail({optimizer, ": ", name, " is ", value, ", which must be 0 or more",
        end == 1 ? ", and below 1" : ", and a finite number"});
}

constexpr void count_step(std::int64_t& steps) {  // a checkpoint may say any number
  if (steps < 0 || steps > 1LL << 60) fail({"an optimizer cannot have made ", steps, " steps"});
  ++steps;
}

/// The type of the arithmetic for parameters of this one.
constexpr DataType wide(DataType type) { return type == DataType::bf16 ? DataType::f32 : type; }

/// Unless there is a block: zeros for as many elements as the finished gradient has.
constexpr void make_zeros(Buffer& block, DataType type, const MeshView& mesh, Index count) {
  if (block) return;
  block = allocate_buffer(mesh, count * size_of(type), MemoryUse::optimizer_state);
  if (block->data) std::memset(block->data, 0, static_cast<std::size_t>(block->bytes));
}

}  // namespace detail

}  // namespace shardwise
