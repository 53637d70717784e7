// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reductions of a simulation, without MPI: in the order of the ranks, ((0, 1), 2), …, as in a node's shared memory; sums of
/// bfloat16 are made in float and rounded once.

#include <cstring>

#include <shardwise/mesh/reducible.hpp>

namespace shardwise::detail::simulated {

template <class T>
void add_numbers(Index count, const void* terms, void* results) {
  for (Index i = 0; i < count; ++i) static_cast<T*>(results)[i] += static_cast<const T*>(terms)[i];
}
template <class T>
void combine_numbers(ReduceOp op, Index count, const void* terms, void* results) {
  if (op == ReduceOp::sum) return add_numbers<T>(count, terms, results);
  const bool max = op == ReduceOp::max;
  return (max ? own_reduction<ExtremeNumber<T, ReduceOp::max>>
              : own_reduction<ExtremeNumber<T, ReduceOp::min>>)
      .combine(count, terms, results);
}

/// results = results and terms, reduced.
inline void combine(const Elements& elements, Index count, const void* terms, void* results) {
  if (elements.own) return elements.own->combine(count, terms, results);
  switch (elements.type) {
    case DataType::f32:
      return combine_numbers<float>(elements.op, count, terms, results);
    case DataType::f64:
      return combine_numbers<double>(elements.op, count, terms, results);
    case DataType::i32:
      return combine_numbers<std::int32_t>(elements.op, count, terms, results);
    case DataType::i64:
      return combine_numbers<std::int64_t>(elements.op, count, terms, results);
    case DataType::u8:
      return combine_numbers<std::uint8_t>(elements.op, count, terms, results);
    case DataType::bf16:
      return (elements.op == ReduceOp::max ? own_reduction<ReducedBf16<ReduceOp::max>>
                                           : own_reduction<ReducedBf16<ReduceOp::min>>)
          .combine(count, terms, results);
  }
}

/// The reduction of the ranks' terms.
inline std::vector<char> reduced(const Elements& elements, Index count,
                                 const std::vector<const char*>& terms) {
  const auto bytes = static_cast<std::size_t>(count * elements.width);
  std::vector<char> result(terms[0], terms[0] + bytes);
  if (!elements.own && sums_wide(elements.type, elements.op)) {
    std::vector<char> others;
    for (std::size_t r = 1; r < terms.size(); ++r) others.insert(others.end(), terms[r], terms[r] + bytes);
    add_bf16(count, result.data(), others.data(), count, static_cast<int>(terms.size()) - 1, result.data());
    return result;
  }
  for (std::size_t r = 1; r < terms.size(); ++r) combine(elements, count, terms[r], result.data());
  return result;
}

}  // namespace shardwise::detail::simulated
