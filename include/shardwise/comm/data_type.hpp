// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The types of elements, as values. To use your own type of numbers, map it: `template <> inline constexpr DataType
/// data_type<Eigen::bfloat16> = DataType::bf16;`.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <shardwise/base/text.hpp>

namespace shardwise {

/// The element types that collectives can move, beside those of `block_type`. `bf16` is the upper half of a `float`.
enum class DataType : std::uint16_t { f32, f64, bf16, i32, i64, u8 };

/// Blocks of 2 to 255 numbers in 9 to 255 bytes, which are moved but not reduced.
constexpr DataType block_type(Index numbers, Index bytes) {
  return static_cast<DataType>(numbers << 8 | bytes);
}

/// Numbers in an element.
constexpr Index numbers_in(DataType type) { return type > DataType::u8 ? static_cast<Index>(type) >> 8 : 1; }

/// Bytes of an element.
constexpr Index size_of(DataType type) {
  constexpr Index in_their_order[] = {4, 8, 2, 4, 8, 1};
  return numbers_in(type) > 1 ? static_cast<Index>(type) & 255 : in_their_order[static_cast<int>(type)];
}

/// For example "bf16"; blocks are named after the bits of their numbers.
inline std::string name_of(DataType type) {
  constexpr const char* in_their_order[] = {"f32", "f64", "bf16", "i32", "i64", "u8"};
  if (numbers_in(type) > 1) return detail::text({"q", 8 * size_of(type) / numbers_in(type)});
  return in_their_order[static_cast<int>(type)];
}

/// Whether elements are floating-point numbers, which operations compute with.
constexpr bool is_floating(DataType type) {
  return type == DataType::f32 || type == DataType::f64 || type == DataType::bf16;
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

/// A type of elements that collectives can move.
template <class T>
concept Communicable = std::same_as<std::remove_cv_t<decltype(data_type<std::remove_cv_t<T>>)>, DataType>;

/// The `DataType` of a type.
template <Communicable T>
constexpr DataType data_type_of() {
  static_assert(sizeof(T) == static_cast<std::size_t>(size_of(data_type<std::remove_cv_t<T>>)));
  return data_type<std::remove_cv_t<T>>;
}

}  // namespace shardwise
