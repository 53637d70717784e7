// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reductions that are no sum, maximum or minimum of numbers: a struct of one's own says how two of it become
/// one.
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

#include <type_traits>

#include <shardwise/layout/index.hpp>
#include <shardwise/mesh/mpi.hpp>
#include <shardwise/mesh/mpi_error.hpp>

namespace shardwise {

/// `combine` must be associative up to rounding, and commutative to the last bit: ranks combine in different
/// orders, and must come to the same result. It must not throw. The struct travels as its bytes.
template <class M>
concept Reducible = std::is_trivially_copyable_v<M> && requires(Index count, const M* terms, M* results) {
  M::combine(count, terms, results);
};

namespace detail {

/// MPI's names for an `M` and for its `combine`, made at the first use. Freed with the program's statics if MPI
/// still runs then, as communicators are.
template <Reducible M>
class MpiReduction {
 public:
  static const MpiReduction& get() {
    static const MpiReduction only;
    return only;
  }
  MPI_Datatype type() const { return type_; }
  MPI_Op op() const { return op_; }

  MpiReduction(const MpiReduction&) = delete;
  MpiReduction& operator=(const MpiReduction&) = delete;
  ~MpiReduction() { release(); }

 private:
  MpiReduction() {
    try {
      check_mpi(MPI_Type_contiguous(static_cast<int>(sizeof(M)), MPI_BYTE, &type_), "MPI_Type_contiguous");
      check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
      check_mpi(MPI_Op_create(&combine, 1, &op_), "MPI_Op_create");
    } catch (...) {
      release();
      throw;
    }
  }

  static void combine(void* in, void* inout, int* count, MPI_Datatype*) {
    M::combine(Index{*count}, static_cast<const M*>(in), static_cast<M*>(inout));
  }

  void release() {
    if (mpi_finalized()) return;
    if (op_ != MPI_OP_NULL) MPI_Op_free(&op_);
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }

  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
};

}  // namespace detail

}  // namespace shardwise
