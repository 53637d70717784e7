// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The element types and reductions of collectives, as values rather than template parameters, so that the
/// interface to MPI is compiled once.
///
/// To use your own type, map it to one of these:
/// `template <> inline constexpr DataType data_type<Eigen::bfloat16> = DataType::bf16;`

#include <type_traits>

#include <shardwise/base/index.hpp>
#include <shardwise/layout/placement.hpp>

namespace shardwise {

/// The element types that collectives can move. `bf16` is the upper half of a `float`.
enum class DataType : std::uint8_t { f32, f64, bf16, i32, i64, u8 };

constexpr Index size_of(DataType type) {
  constexpr Index in_their_order[] = {4, 8, 2, 4, 8, 1};
  return in_their_order[static_cast<int>(type)];
}

constexpr const char* name_of(DataType type) {
  constexpr const char* in_their_order[] = {"f32", "f64", "bf16", "i32", "i64", "u8"};
  return in_their_order[static_cast<int>(type)];
}

constexpr const char* name_of(ReduceOp op) {
  constexpr const char* in_their_order[] = {"sum", "max", "min"};
  return in_their_order[static_cast<int>(op)];
}

/// The `data_type` of an unmapped type.
struct NoDataType {};

/// The `DataType` of a C++ type; specialise it for your own type.
template <class T>
inline constexpr auto data_type = NoDataType{};

template <>
inline constexpr DataType data_type<float> = DataType::f32;
template <>
inline constexpr DataType data_type<double> = DataType::f64;
template <>
inline constexpr DataType data_type<std::int32_t> = DataType::i32;
template <>
inline constexpr DataType data_type<long> = sizeof(long) == 8 ? DataType::i64 : DataType::i32;
template <>
inline constexpr DataType data_type<long long> = DataType::i64;
template <>
inline constexpr DataType data_type<std::uint8_t> = DataType::u8;

template <class T>
concept Communicable = std::same_as<std::remove_cv_t<decltype(data_type<std::remove_cv_t<T>>)>, DataType>;

template <Communicable T>
constexpr DataType data_type_of() {
  static_assert(sizeof(T) == static_cast<std::size_t>(size_of(data_type<std::remove_cv_t<T>>)));
  return data_type<std::remove_cv_t<T>>;
}

}  // namespace shardwise
