// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The elements and reductions of collectives, as values rather than template parameters, so that the interface to
/// MPI is compiled once. If a reduction is not a sum, maximum or minimum of numbers, define a struct with a function
/// that combines two values:
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
#include <shardwise/comm/data_type.hpp>
#include <shardwise/comm/mpi.hpp>
#include <shardwise/layout/placement.hpp>

namespace shardwise {

/// "sum", "max" or "min".
constexpr const char* name_of(ReduceOp op) {
  constexpr const char* in_their_order[] = {"sum", "max", "min"};
  return in_their_order[static_cast<int>(op)];
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
