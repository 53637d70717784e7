// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `DataType` and `ReduceOp` in MPI's words. MPI knows no bfloat16: it travels as 16-bit integers and is
/// reduced by functions of ours, which add in `float` and round to nearest even after each addition.

#include <array>
#include <bit>
#include <cstdint>

#include <shardwise/mesh/data_type.hpp>
#include <shardwise/mesh/mpi.hpp>
#include <shardwise/mesh/mpi_error.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

inline MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::f32:
      return MPI_FLOAT;
    case DataType::f64:
      return MPI_DOUBLE;
    case DataType::bf16:
      return MPI_UINT16_T;
    case DataType::i32:
      return MPI_INT32_T;
    case DataType::i64:
      return MPI_INT64_T;
    case DataType::u8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

constexpr float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// To nearest, ties to even; a NaN stays a (quiet) NaN.
constexpr std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((value != value ? bits | 0x400000U : rounded) >> 16);
}

/// An `MPI_User_function` on bfloat16: inout = in (op) inout.
template <ReduceOp Op>
void reduce_bf16(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* terms = static_cast<const std::uint16_t*>(in);
  auto* results = static_cast<std::uint16_t*>(inout);
  for (int i = 0, n = *count; i < n; ++i) {
    const float a = widen_bf16(terms[i]);
    const float b = widen_bf16(results[i]);
    if constexpr (Op == ReduceOp::sum) {
      results[i] = round_to_bf16(a + b);
    } else if constexpr (Op == ReduceOp::max) {
      results[i] = a > b || a != a ? terms[i] : results[i];
    } else {
      results[i] = a < b || a != a ? terms[i] : results[i];
    }
  }
}

/// Made at the first use, never freed: they are three small objects, and MPI may be gone when statics die.
inline MPI_Op bf16_op(ReduceOp op) {
  static const std::array<MPI_Op, 3> ops = [] {
    std::array<MPI_Op, 3> made{};
    check_mpi(MPI_Op_create(&reduce_bf16<ReduceOp::sum>, 1, &made[0]), "MPI_Op_create");
    check_mpi(MPI_Op_create(&reduce_bf16<ReduceOp::max>, 1, &made[1]), "MPI_Op_create");
    check_mpi(MPI_Op_create(&reduce_bf16<ReduceOp::min>, 1, &made[2]), "MPI_Op_create");
    return made;
  }();
  return ops[static_cast<std::size_t>(op)];
}

inline MPI_Op mpi_op(DataType type, ReduceOp op) {
  if (type == DataType::bf16) return bf16_op(op);
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
  }
  return MPI_OP_NULL;
}

}  // namespace shardwise::detail
