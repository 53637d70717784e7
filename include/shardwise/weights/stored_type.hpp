// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The element types of safetensors files, and the conversions between them and those in memory.
///
/// Floating-point numbers become one another, rounded once to nearest, ties to even. Integers become one
/// another if the value fits. Nothing else is converted.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <tuple>

#include <Eigen/Core>

#include <shardwise/base/bodies.hpp>
#include <shardwise/comm/data_type.hpp>

namespace shardwise {

/// Ordered as in the format's reference implementation, which sorts tensors by it: short ones first.
enum class StoredType : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64,
  other  ///< which nothing is converted from or to
};

namespace detail {

inline constexpr std::array<std::string_view, 16> stored_type_names{
    "BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
    "BF16", "I32", "U32", "F32",     "F64",     "I64", "U64", ""};

}  // namespace detail

/// As files spell it: "BF16".
constexpr std::string_view name_of(StoredType type) {
  return detail::stored_type_names[static_cast<std::size_t>(type)];
}
/// Bytes of one element.
constexpr Index size_of(StoredType type) {
  return type < StoredType::i16 ? 1 : type < StoredType::i32 ? 2 : type < StoredType::f64 ? 4 : 8;
}
/// The type of that name in safetensors files, or nothing.
constexpr std::optional<StoredType> stored_type_named(std::string_view name) {
  const auto& names = detail::stored_type_names;
  const auto* found = std::ranges::find(names, name);
  const auto type = static_cast<StoredType>(found - names.begin());
  return type < StoredType::other ? std::optional(type) : std::nullopt;
}

/// The type under which elements in memory are stored as they are. Throws `std::runtime_error` for blocks.
constexpr StoredType stored_as(DataType type) {
  if (numbers_in(type) > 1) {
    detail::fail<std::runtime_error>(
        {"quantised weights (", name_of(type), ") are not saved: keep the files that they were read from"});
  }
  constexpr std::array stored{StoredType::f32, StoredType::f64, StoredType::bf16,
                              StoredType::i32, StoredType::i64, StoredType::u8};  // as `DataType` has them
  return stored[static_cast<std::size_t>(type)];
}
static_assert(stored_as(DataType::bf16) == StoredType::bf16 && stored_as(DataType::u8) == StoredType::u8);

/// The blocks of a `block_type` in files. Those without functions are numbers in bfloat16.
struct BlockFormat {
  DataType type{};
  double largest = 0;  ///< larger numbers have no finite scale
  void (*quantise)(Index blocks, const float* numbers, void* to) = nullptr;
  void (*dequantise)(const void* block, float* numbers) = nullptr;
  float (*scale)(const void* block) = nullptr;
};

/// The format of a C++ type; specialise it for your own blocks.
template <class Block>
inline constexpr BlockFormat block_format{};

namespace detail {

/// In the order of `StoredType`; `void` is not converted.
using StoredElements = std::tuple<std::uint8_t, std::uint8_t, std::int8_t, void, void, std::int16_t,
                                  std::uint16_t, Eigen::half, Eigen::bfloat16, std::int32_t, std::uint32_t,
                                  float, double, std::int64_t, std::uint64_t, void>;

enum class NumberKind : std::uint8_t { none, integer, floating };

constexpr NumberKind kind_of(StoredType type) {
  using enum StoredType;
  if (type == f8_e5m2 || type == f8_e4m3 || type >= other) return NumberKind::none;
  return type == f16 || type == bf16 || type == f32 || type == f64 ? NumberKind::floating
                                                                   : NumberKind::integer;
}

/// Calls f(element) with an element of the C++ type in question, if it is one of that kind.
template <NumberKind Kind, class F>
void with_element_of(StoredType type, F f) {
  [&]<std::size_t... Types>(std::index_sequence<Types...>) {
    const auto try_one = [&]<std::size_t Type>() {
      if constexpr (kind_of(static_cast<StoredType>(Type)) == Kind) {
        if (Type == static_cast<std::size_t>(type)) f(std::tuple_element_t<Type, StoredElements>{});
      }
    };
    (try_one.template operator()<Types>(), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<StoredElements>>());
}

/// To the one of the two neighbouring floats whose last bit is odd: rounding that once more, to a shorter
/// type, is the same as rounding `value` itself (Boldo and Melquiond, "Emulation of FMA and correctly rounded
/// sums", 2008).
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 1U) != 0) return nearest;
  const bool too_large = std::abs(static_cast<double>(nearest)) > std::abs(value);
  return std::bit_cast<float>(too_large ? bits - 1 : bits + 1);
}

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_integral_v<To>) {
    if (!std::in_range<To>(value)) {
      fail<std::runtime_error>(
          {"the value ", value, " does not fit an integer of ", 8 * sizeof(To), " bits"});
    }
    return static_cast<To>(value);
  } else if constexpr (sizeof(From) == 2) {
    return To(static_cast<float>(value));
  } else if constexpr (sizeof(To) == 2 && sizeof(From) == 8) {
    return To(round_to_odd(value));
  } else {
    return static_cast<To>(value);
  }
}

/// Whether elements of the one may become elements of the other.
constexpr bool convertible(StoredType from, StoredType to) {
  return from == to || (kind_of(from) != NumberKind::none && kind_of(from) == kind_of(to));
}

template <NumberKind Kind>
void convert_numbers(StoredType from, const char* source, StoredType to, char* target, Index count) {
  with_element_of<Kind>(from, [&]<class From>(From element) {
    with_element_of<Kind>(to, [&]<class To>(To result) {
      for (Index i = 0; i < count; ++i) {
        std::memcpy(&element, source + i * static_cast<Index>(sizeof(From)), sizeof(From));
        result = converted<To>(element);
        std::memcpy(target + i * static_cast<Index>(sizeof(To)), &result, sizeof(To));
      }
    });
  });
}

/// Converts `count` elements at any address to any other. Throws `std::runtime_error` for an integer that does
/// not fit, `std::logic_error` for types that are not convertible.
void convert(StoredType from, const void* source, StoredType to, void* target, Index count);

/// `count` elements as another type, as `convert` does; `buffer` has them if they are not the same.
std::string_view converted_elements(StoredType from, const char* data, StoredType to, Index count,
                                    std::vector<char>& buffer);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void convert(StoredType from, const void* source, StoredType to, void* target, Index count) {
  if (count == 0) return;
  if (!convertible(from, to)) throw std::logic_error("convert: these types are not converted");
  const auto* in = static_cast<const char*>(source);
  auto* out = static_cast<char*>(target);
  if (from == to) {
    std::memcpy(out, in, static_cast<std::size_t>(count * size_of(to)));
  } else if (kind_of(from) == NumberKind::floating) {
    convert_numbers<NumberKind::floating>(from, in, to, out, count);
  } else {
    convert_numbers<NumberKind::integer>(from, in, to, out, count);
  }
}

SHARDWISE_INLINE std::string_view converted_elements(StoredType from, const char* data, StoredType to,
                                                     Index count, std::vector<char>& buffer) {
  const auto bytes = static_cast<std::size_t>(count * size_of(to));
  if (from == to) return {data, bytes};
  buffer.resize(bytes);
  convert(from, data, to, buffer.data(), count);
  return {buffer.data(), bytes};
}

#endif

}  // namespace detail

}  // namespace shardwise
