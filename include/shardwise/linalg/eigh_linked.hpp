// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `eigh` of a matrix that is cut over ranks, by ELPA or by ScaLAPACK: all eigenvalues and eigenvectors. Link the
/// library that you name: `-lelpa` (Debian: libelpa-dev; version 2022.05 or newer), or `-lscalapack-openmpi`
/// (libscalapack-openmpi-dev; elsewhere `-lscalapack`). Their headers are not needed.
///
/// ```
/// auto [values, vectors] = eigh<Shard<0>>(a, Elpa{});   // a: [n, n] in any layout; the vectors' rows are cut
/// auto [values, vectors] = eigh<Shard<0>, Shard<1>>(a, Scalapack{.block = 32});
/// ```

#include <memory>

#include <shardwise/linalg/functions.hpp>
#include <shardwise/linalg/interchange.hpp>
#include <shardwise/linalg/spectral.hpp>
#include <shardwise/linalg/symmetry.hpp>

/// As in elpa/elpa.h and ScaLAPACK, with 32-bit integers. Programs may declare the same functions otherwise.
namespace shardwise::detail::linked {

struct Elpa;
int elpa_init(int version) __asm__("elpa_init");
Elpa* elpa_allocate(int*) __asm__("elpa_allocate");
void elpa_deallocate(Elpa*, int*) __asm__("elpa_deallocate");
void elpa_set_integer(Elpa*, const char*, int, int*) __asm__("elpa_set_integer");
int elpa_setup(Elpa*) __asm__("elpa_setup");
void elpa_eigenvectors(Elpa*, double*, double*, double*, int*) __asm__("elpa_eigenvectors_a_h_a_d");
int blacs_handle(MPI_Comm) __asm__("Csys2blacs_handle");
void free_blacs_handle(int) __asm__("Cfree_blacs_system_handle");
void gridinit(int*, const char*, int, int) __asm__("Cblacs_gridinit");
void gridexit(int) __asm__("Cblacs_gridexit");
void pdsyevd(const char*, const char*, const int*, double*, const int*, const int*, const int*, double*,
             double*, const int*, const int*, const int*, double*, const int*, int*, const int*,
             int*) __asm__("pdsyevd_");
void pssyevd(const char*, const char*, const int*, float*, const int*, const int*, const int*, float*, float*,
             const int*, const int*, const int*, float*, const int*, int*, const int*,
             int*) __asm__("pssyevd_");

}  // namespace shardwise::detail::linked

namespace shardwise {

/// ELPA's solver, for `eigh`. It computes in double, also for a matrix in float.
struct Elpa {
  int stages = 1;     ///< or 2: to a band, and from that to three diagonals
  int block = 64;     ///< rows and columns that are dealt to ranks together; fewer, if a rank would have none
  Index whole = 320;  ///< up to this extent every rank gathers the matrix, and calls `eigh` of whole ones
  bool check_symmetry = true;  ///< above `whole`; else the lower triangle counts there
};
/// ScaLAPACK's `pdsyevd` or `pssyevd`, which divides and conquers, for `eigh`.
struct Scalapack {
  int block = 32;     ///< rows and columns that are dealt to ranks together; fewer, if a rank would have none
  Index whole = 320;  ///< up to this extent every rank gathers the matrix, and calls `eigh` of whole ones
  bool check_symmetry = true;  ///< above `whole`; else the lower triangle counts there
};

namespace detail {

/// An n x n matrix in blocks on a grid of ranks, p x q, that is as square as their number permits.
struct SquareBlocks {
  int n, block, p = 1, q = 1, row = 0, column = 0, descriptor[9]{};

  SquareBlocks(Index extent, int most, const Communicator& ranks) : n(static_cast<int>(extent)), block(most) {
    for (int i = 1; i * i <= ranks.size(); ++i)
      if (ranks.size() % i == 0) p = i;
    q = ranks.size() / p;
    row = ranks.rank() / q, column = ranks.rank() % q;
    block = std::min(block, std::max(1, q > 1 ? (n - 1) / (q - 1) : n));
    const int numbers[]{1, 0, n, n, block, block, 0, 0, static_cast<int>(rows(row))};
    std::copy_n(numbers, 9, descriptor);
  }
  Index rows(int of) const { return total(dealt(n, block, p, 0, of)); }
  Index columns(int of) const { return total(dealt(n, block, q, 0, of)); }
  Index elements() const { return rows(row) * columns(column); }  ///< of this rank
  BlockCyclic blocks() const { return {descriptor, p, q, row, column}; }
};

/// Throws on all ranks if `routine` returned an error on one. Collective.
inline void throw_if_failed(const Communicator& ranks, const char* routine, int code) {
  const std::vector<Index> codes = ranks.all_gather(std::array{Index{code}});
  for (std::size_t rank = 0; rank < codes.size(); ++rank)
    if (codes[rank] != 0)
      fail<std::runtime_error>({"eigh: ", routine, " returned ", codes[rank], " on rank ", rank});
}

inline void eigh_of_blocks(const Elpa& with, const MeshView& mesh, const SquareBlocks& on, double* a,
                           double* values, double* vectors) {
  const Communicator &ranks = mesh.communicator(),
                     own = Communicator::duplicate(ranks.native());  // for ELPA's messages
  int error = linked::elpa_init(20211125);
  linked::Elpa* const handle = error == 0 ? linked::elpa_allocate(&error) : nullptr;
  throw_if_failed(ranks, "elpa_allocate", error);
  const auto set = [&](const char* name, Index value) {
    if (error == 0) linked::elpa_set_integer(handle, name, static_cast<int>(value), &error);
  };
  set("na", on.n), set("nev", on.n), set("nblk", on.block);
  set("local_nrows", on.rows(on.row)), set("local_ncols", on.columns(on.column));
  set("mpi_comm_parent", MPI_Comm_c2f(own.native())), set("process_row", on.row),
      set("process_col", on.column);
  throw_if_failed(ranks, "elpa_set_integer", error);
  throw_if_failed(ranks, "elpa_setup", linked::elpa_setup(handle));
  const auto release = [](linked::Elpa* of) {
    int ignored = 0;
    linked::elpa_deallocate(of, &ignored);
  };
  // Not earlier: ELPA would free communicators that a handle does not have before.
  const std::unique_ptr<linked::Elpa, decltype(release)> owned(handle, release);
  set("solver", with.stages);
  throw_if_failed(ranks, "elpa_set_integer", error);
  linked::elpa_eigenvectors(handle, a, values, vectors, &error);
  throw_if_failed(ranks, "elpa_eigenvectors", error);
}
/// In double, too: ELPA has single precision only if it was built so, and Debian's was not.
inline void eigh_of_blocks(const Elpa& with, const MeshView& mesh, const SquareBlocks& on, float* a,
                           float* values, float* vectors) {
  std::vector<double> x(a, a + on.elements()), v(x.size()), w(static_cast<std::size_t>(on.n));
  eigh_of_blocks(with, mesh, on, x.data(), w.data(), v.data());
  std::copy(v.begin(), v.end(), vectors);
  std::copy(w.begin(), w.end(), values);
}

template <class T>
void eigh_of_blocks(const Scalapack&, const MeshView& mesh, SquareBlocks& on, T* a, T* values, T* vectors) {
  struct Grid {
    int handle, context;
    Grid(MPI_Comm ranks, int p, int q) : handle(linked::blacs_handle(ranks)), context(handle) {
      linked::gridinit(&context, "Row", p, q);
    }
    Grid(const Grid&) = delete;
    ~Grid() {
      linked::gridexit(context);
      linked::free_blacs_handle(handle);
    }
  };
  const Communicator& ranks = mesh.communicator();
  const Grid grid(ranks.native(), on.p, on.q);
  on.descriptor[1] = grid.context;
  // Of the first rank, which has most. The last term is for pdormtr and pdlasrt, which pdsyevd forgets.
  const Index n = on.n, block = on.block, rows = on.rows(0), columns = on.columns(0),
              needed = 8 * n + 2 * rows * columns + 3 * block + 1 + (rows + columns + block) * block;
  const int one = 1, length = static_cast<int>(needed), integers = 7 * on.n + 8 * on.q + 2;
  if (length != needed)
    fail({"eigh: pdsyevd cannot count the ", needed, " numbers of its memory: use more ranks"});
  const Buffer work = allocate_buffer(mesh, needed * Index{sizeof(T)});
  std::vector<int> places(static_cast<std::size_t>(integers));
  int info = 0;
  const auto solve = [&](auto routine) {
    routine("V", "L", &on.n, a, &one, &one, on.descriptor, values, vectors, &one, &one, on.descriptor,
            static_cast<T*>(work->data), &length, places.data(), &integers, &info);
  };
  if constexpr (std::is_same_v<T, double>)
    solve(&linked::pdsyevd);
  else
    solve(&linked::pssyevd);
  throw_if_failed(ranks, std::is_same_v<T, double> ? "pdsyevd" : "pssyevd", info);
}

}  // namespace detail

/// a: [n, n], float or double, symmetric, in any layout; `with`: `Elpa` or `Scalapack`. `values` is [n], on every rank,
/// in increasing order; `vectors` is [n, n] in the layout that the caller names, and its columns are orthonormal. The
/// ranks of the mesh form a grid as square as their number permits, also a mesh of some ranks of the job. If that has
/// more columns than a, every rank gathers a, as it does for small n. Beside a, and what the library allocates, a rank
/// needs memory for six blocks of n² / ranks elements; for `Elpa` and float seven.
///
/// Throws `std::invalid_argument` if the block is below 1, if a is not square, or on all ranks if it is not symmetric
/// (as `eigsh`). All ranks throw the same `std::runtime_error` if a, or the sum of magnitudes in a row, is not finite,
/// or if the library returns an error. Plans do not count the library's messages, and dry meshes and simulations cannot
/// call it. Collective.
template <class... Placements, TensorType A, class Library,
          WellFormed Fine =
              detail::distributed_problem<typename A::Element, 2, typename A::MeshOf, Placements...>>
  requires(A::rank == 2 && std::is_floating_point_v<typename A::Element>)
auto eigh(const A& a, const Library& with) {
  using T = typename A::Element;
  using Values = result_of<detail::VectorOfMatrix, whole_of<A>>;
  using Vectors = Tensor<T, 2, typename A::MeshOf, Placements...>;
  using Result = Eigh<Values, Vectors>;
  const auto& mesh = a.mesh();
  detail::check_square("eigh", a.shape());
  if (with.block < 1) detail::fail({"eigh: the block is ", with.block, ", expected 1 or more"});
  if (mesh.communicator().native() == MPI_COMM_NULL)
    detail::fail({"eigh: ELPA and ScaLAPACK need MPI; this is a simulation"});
  const Index n = a.shape()[0];
  detail::SquareBlocks on(n, with.block, mesh.communicator());
  if (n <= with.whole || n < on.q) {
    auto all = eigh(redistribute_to<whole_of<A>>(a));
    return Result{all.values, redistribute_to<Vectors>(std::move(all.vectors))};
  }
  const auto rows = redistribute_to<with_layout<A, packed(everywhere(A::MeshOf::axes, shard(0)))>>(a);
  // ELPA takes values far below 1 for equal ones.
  const T unit = static_cast<T>(detail::unit_of("eigh", rows, std::numeric_limits<T>::max_exponent / 2 - 1));
  if (with.check_symmetry) detail::check_symmetric("eigh", rows);
  const Index own = on.elements();
  const Buffer room = allocate_buffer(mesh, 2 * own * Index{sizeof(T)});
  T *const x = static_cast<T*>(room->data), *const v = x + own;
  Values values(mesh, {n});
  T* const w = values.writable().data;
  to_block_cyclic(rows, on.blocks(), x);
  for (Index i = 0; i < own; ++i) x[i] /= unit;
  detail::eigh_of_blocks(with, MeshView(mesh), on, x, w, v);
  for (Index i = 0; i < n; ++i) w[i] *= unit;
  return Result{values, from_block_cyclic<Placements...>(mesh, on.blocks(), v)};
}

}  // namespace shardwise
