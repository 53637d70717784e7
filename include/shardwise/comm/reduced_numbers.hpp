// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reductions of numbers, by MPI's operations or by our own functions.

#include <algorithm>

#include <shardwise/base/finite.hpp>
#include <shardwise/comm/reducible.hpp>

namespace shardwise::detail {

constexpr float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Rounds to nearest, ties to even; a NaN becomes a quiet NaN.
constexpr std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((is_nan(value) ? bits | 0x400000U : rounded) >> 16);
}

/// bfloat16 in messages: MPI has no such type, so it is sent as 16-bit integers.
struct TravellingBf16 {
  std::uint16_t bits;
  TravellingBf16() = default;
  explicit TravellingBf16(float value) : bits(round_to_bf16(value)) {}
  explicit operator float() const { return widen_bf16(bits); }
};

/// Numbers of one type, reduced like MPI's own, with three differences. A maximum or minimum is NaN if any number is
/// (with MPI this depends on the order). Bytes add modulo 256 (Open MPI's saturate at 255, except in the last few
/// elements). A sum of bfloat16 is rounded to nearest even after each addition; for more than two terms use `add_bf16`.
template <class T, ReduceOp Op>
struct ReducedNumber {
  T value;
  static void combine(Index count, const ReducedNumber* terms, ReducedNumber* results) {
    using Wide = std::conditional_t<std::is_class_v<T>, float, T>;
    for (Index i = 0; i < count; ++i) {
      const auto a = static_cast<Wide>(terms[i].value), b = static_cast<Wide>(results[i].value);
      if constexpr (Op == ReduceOp::sum) {
        results[i].value = static_cast<T>(a + b);
      } else if (is_nan(a) || (Op == ReduceOp::max ? a > b : a < b)) {
        results[i] = terms[i];
      }
    }
  }
};

/// Whether sums use a wider type than their terms.
constexpr bool sums_wide(DataType type, ReduceOp op) { return type == DataType::bf16 && op == ReduceOp::sum; }

/// sums[i] = first[i] + terms[i] + terms[stride + i] + …, with `number` terms: bfloat16, summed in this order in
/// float and rounded once. `sums` may be `first`.
inline void add_bf16(Index count, const void* first, const void* terms, Index stride, int number,
                     void* sums) {
  constexpr Index block = 512;
  float wide[block];
  const auto* from = static_cast<const std::uint16_t*>(first);
  const auto* more = static_cast<const std::uint16_t*>(terms);
  auto* to = static_cast<std::uint16_t*>(sums);
  for (Index begin = 0; begin < count; begin += block) {
    const Index n = std::min(block, count - begin);
    for (Index i = 0; i < n; ++i) wide[i] = widen_bf16(from[begin + i]);
    for (int term = 0; term < number; ++term) {
      const std::uint16_t* next = more + term * stride + begin;
      for (Index i = 0; i < n; ++i) wide[i] += widen_bf16(next[i]);
    }
    for (Index i = 0; i < n; ++i) to[begin + i] = round_to_bf16(wide[i]);
  }
}

inline MPI_Datatype mpi_type(DataType type) {
  if (numbers_in(type) > 1) return mpi_bytes(size_of(type));
  const MPI_Datatype in_their_order[] = {MPI_FLOAT,   MPI_DOUBLE,  MPI_UINT16_T,
                                         MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T};
  return in_their_order[static_cast<std::size_t>(type)];
}

template <class T>
const OwnReduction& number_reduction(ReduceOp op) {
  if (op == ReduceOp::sum) return own_reduction<ReducedNumber<T, ReduceOp::sum>>;
  return op == ReduceOp::max ? own_reduction<ReducedNumber<T, ReduceOp::max>>
                             : own_reduction<ReducedNumber<T, ReduceOp::min>>;
}
inline const OwnReduction& number_reduction(DataType type, ReduceOp op) {
  if (type == DataType::f32) return number_reduction<float>(op);
  if (type == DataType::f64) return number_reduction<double>(op);
  if (type == DataType::bf16) return number_reduction<TravellingBf16>(op);
  if (type == DataType::i32) return number_reduction<std::int32_t>(op);
  if (type == DataType::i64) return number_reduction<std::int64_t>(op);
  return number_reduction<std::uint8_t>(op);
}

inline MPI_Op mpi_op(DataType type, ReduceOp op) {
  const bool integers = !is_floating(type);
  const bool as_mpi_does = op == ReduceOp::sum ? type != DataType::bf16 && type != DataType::u8 : integers;
  if (!as_mpi_does) return number_reduction(type, op).in_mpi().op;
  return op == ReduceOp::sum ? MPI_SUM : op == ReduceOp::max ? MPI_MAX : MPI_MIN;
}
inline MpiWords in_mpi(const Elements& elements) {
  if (elements.own) return elements.own->in_mpi();
  return {mpi_type(elements.type), mpi_op(elements.type, elements.op)};
}

}  // namespace shardwise::detail
