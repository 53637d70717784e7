// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The elements of a collective, as values rather than template parameters, so that the interface to MPI is compiled
/// once. To use your own type of numbers, map it: `template <> inline constexpr DataType data_type<Eigen::bfloat16> =
/// DataType::bf16;`. If a reduction is not a sum, maximum or minimum of numbers, define a struct with a function that
/// combines two values:
///
/// @code
/// struct Range {
///   float least, most;
///   static void combine(sw::Index count, const Range* terms, Range* results) {
///     for (sw::Index i = 0; i < count; ++i)
///       results[i] = {std::min(terms[i].least, results[i].least), std::max(terms[i].most, results[i].most)};
///   }
/// };
/// communicator.all_reduce(&mine, &of_all, 1);   // one call of MPI, however many members Range has
/// @endcode

#include <map>
#include <type_traits>

#include <shardwise/base/hash.hpp>
#include <shardwise/base/mutex.hpp>
#include <shardwise/comm/mpi.hpp>
#include <shardwise/layout/placement.hpp>

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

/// "sum", "max" or "min".
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

/// A type of elements that collectives can move.
template <class T>
concept Communicable = std::same_as<std::remove_cv_t<decltype(data_type<std::remove_cv_t<T>>)>, DataType>;

/// The `DataType` of a type.
template <Communicable T>
constexpr DataType data_type_of() {
  static_assert(sizeof(T) == static_cast<std::size_t>(size_of(data_type<std::remove_cv_t<T>>)));
  return data_type<std::remove_cv_t<T>>;
}

/// `combine` must be associative up to rounding, and commutative to the last bit, because ranks combine in
/// different orders and must get the same result. It must not throw. The struct is sent as bytes.
template <class M>
concept Reducible = std::is_trivially_copyable_v<M> && requires(Index count, const M* terms, M* results) {
  M::combine(count, terms, results);
};

namespace detail {

/// MPI's handles for an element type and its reduction.
struct MpiWords {
  MPI_Datatype type;
  MPI_Op op;
};

/// How a user's struct is reduced. The first call of `in_mpi` creates MPI's handles.
struct OwnReduction {
  void (*combine)(Index count, const void* terms, void* results);
  MpiWords (*in_mpi)();
  Index id;  ///< identifies the struct, the same on all ranks
};

/// The elements of a collective and, for reductions, the operation.
struct Elements {
  Index width = 1;  ///< bytes of an element
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  const OwnReduction* own = nullptr;  ///< if set, type and operation are unused
};

inline std::string text_of(const Elements& elements) {
  return elements.own ? text({"structs of ", elements.width, " bytes"}) : name_of(elements.type);
}

/// MPI's handle for elements of a number of bytes, created on first use. Never freed: it is small, and MPI may be
/// finalised before static objects are destroyed.
inline MPI_Datatype mpi_bytes(Index bytes) {
  static Mutex alone;
  static std::map<Index, MPI_Datatype> all;
  const Locked here(alone);
  const auto [made, fresh] = all.try_emplace(bytes, MPI_DATATYPE_NULL);
  if (fresh) {
    check_mpi(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &made->second), "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&made->second), "MPI_Type_commit");
  }
  return made->second;
}

/// `M::combine` for MPI and for a simulation: one function, as other code may round otherwise.
template <Reducible M>
[[gnu::noinline]] void combine_terms(Index count, const void* terms, void* results) {
  M::combine(count, static_cast<const M*>(terms), static_cast<M*>(results));
}

/// MPI's handles for an `M` and for its `combine`. Never freed either.
template <Reducible M>
MpiWords words_of() {
  static const MpiWords words = [] {
    MpiWords made{mpi_bytes(sizeof(M)), MPI_OP_NULL};
    const auto combine = [](void* values, void* combined, int* count, MPI_Datatype*) {
      combine_terms<M>(*count, values, combined);
    };
    check_mpi(MPI_Op_create(combine, 1, &made.op), "MPI_Op_create");
    return made;
  }();
  return words;
}

template <Reducible M>
inline constexpr OwnReduction own_reduction{&combine_terms<M>, &words_of<M>, [] {
                                              Fnv1a hash;
                                              hash.add(__PRETTY_FUNCTION__);  // contains the type's name
                                              return static_cast<Index>(hash.value);
                                            }()};

}  // namespace detail
}  // namespace shardwise
