// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The optimizer state of a parameter, the properties by which groups are chosen, and checks of settings.

#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise {

/// The state of one parameter: up to two blocks with the layout of its finished gradient, such as a velocity or
/// Adam's two moments; and a master copy in the compute type, if that is wider than the stored one.
struct ParameterState {
  Buffer first, second, master;
  std::int64_t steps = 0;  ///< of this parameter: those in which it had a gradient
};

struct ParameterInfo {
  std::string_view name;  ///< its path: "layers.0.attention.wq.weight"; the first one if it is tied
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

constexpr void count_step(std::int64_t& steps) {  // no overflow: a checkpoint may contain any number
  if (steps < 0 || steps > 1LL << 60) fail({"an optimizer cannot have made ", steps, " steps"});
  ++steps;
}

constexpr DataType wide(DataType type) { return type == DataType::bf16 ? DataType::f32 : type; }

/// Creates a block of `count` zeros, unless there is one.
constexpr void make_zeros(Buffer& block, DataType type, const MeshView& mesh, Index count) {
  if (block) return;
  block = allocate_buffer(mesh, count * size_of(type), MemoryUse::optimizer_state);
  if (block->data) std::memset(block->data, 0, static_cast<std::size_t>(block->bytes));
}

}  // namespace detail

}  // namespace shardwise
