// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Matrices that other libraries keep on the same ranks: rows of any number on each rank, as PETSc and Trilinos have
/// them, and ScaLAPACK's and ELPA's blocks.
///
/// ```
/// const auto x = from_rows<Shard<0>>(mesh, eigen_rows);            // each rank brings as many rows as it has
/// const auto rows = to_rows(x, 3);                                 // this rank's next 3 rows, an Eigen matrix
///
/// const BlockCyclic of_a{descriptor, p, q, my_row, my_column};     // as Cblacs_gridinfo returns them
/// const auto a = from_block_cyclic<Shard<0>>(mesh, of_a, values);  // values: this rank's, by columns
/// to_block_cyclic(a, of_a, values);
/// ```
/// All are one all-to-all, in which each pair of ranks exchanges the elements that one has and the other wants. No
/// library is needed for it. Rows are in the order of the mesh's ranks; a place in a grid may be on any rank.

#include <shardwise/kernel/permute.hpp>
#include <shardwise/tensor/distribute.hpp>

namespace shardwise {

/// The blocks of a matrix on a grid of processes, as an array descriptor of ScaLAPACK has them.
struct BlockCyclic {
  /// Nine numbers, as `descinit` makes them: 1, the context, m, n, mb, nb, the first process row and column, and the
  /// leading dimension of this process.
  const int* descriptor;
  int rows, columns;  ///< of the grid
  int row, column;    ///< of this process; -1 outside of the grid
};

namespace detail {

/// Successive rows or columns of a matrix that a rank has, and the place of the first one among all that it has.
struct Strip {
  Index begin, size, local;
};
using Strips = std::vector<Strip>;

/// The strips of process `at` of `parts`, which deal `extent` in blocks, from process `first` on.
inline Strips dealt(Index extent, Index block, int parts, int first, int at) {
  Strips strips;
  Index local = 0;
  for (Index begin = (at + parts - first) % parts * block; begin < extent; begin += parts * block) {
    strips.push_back({begin, std::min(block, extent - begin), local});
    local += strips.back().size;
  }
  return strips;
}
inline Index total(const Strips& strips) {
  return strips.empty() ? 0 : strips.back().local + strips.back().size;
}
/// The parts of strips that lie in a range.
inline Strips within(const Strips& strips, Range range) {
  Strips parts;
  for (const Strip& strip : strips) {
    const Index begin = std::max(strip.begin, range.begin);
    const Index end = std::min(strip.begin + strip.size, range.begin + range.size);
    if (begin < end) parts.push_back({begin, end - begin, strip.local + begin - strip.begin});
  }
  return parts;
}

/// The elements that a rank has of a matrix elsewhere: those in some rows and some columns.
struct Holding {
  Strips rows, columns;
};

/// Exchanges the elements of a matrix between this rank's block, row-major, and the memory that `holdings` describe.
/// Element (i, j) of what this rank has elsewhere is at values[i * row_step + j * column_step].
template <class T>
class Interchange {
 public:
  Interchange(const MeshView& mesh, const Layout& layout, const Shape<2>& shape,
              std::vector<Holding> holdings, Index row_step, Index column_step)
      : mesh_(mesh),
        communicator_(mesh.communicator()),
        holdings_(std::move(holdings)),
        row_step_(row_step),
        column_step_(column_step) {
    const AxisSet whole = layout.axes_where([](Placement p) { return !p.is_shard(); });
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const MeshSizes at = group_member(mesh.sizes(), {}, mesh.axes(), ~0u, rank);
      boxes_.push_back(local_box(shape, layout, mesh.sizes(), at));
      bool first = true;  // of the ranks that have this block
      for (int axis = 0; axis < mesh.axes(); ++axis)
        first = first && ((whole >> axis & 1u) == 0 || at[axis] == 0);
      sends_.push_back(first);
      if (rank == self()) adds_zeros_ = adds_zeros(layout, at);
    }
  }

  void send(const T* block, T* values) const {
    exchange(
        block_strides(), block, value_strides(), values,
        [&](int rank) { return sends(self()) ? common(self(), rank) : Holding(); },
        [&](int rank) { return sends(rank) ? common(rank, self()) : Holding(); });
  }
  void receive(const T* values, T* block) const {
    exchange(
        value_strides(), values, block_strides(), block, [&](int rank) { return common(rank, self()); },
        [&](int rank) { return common(self(), rank); });
    if (adds_zeros_) std::fill_n(block, box(self()).elements(), T{0});
  }

 private:
  int self() const { return communicator_.rank(); }
  bool sends(int rank) const { return sends_[static_cast<std::size_t>(rank)]; }
  const Box<2>& box(int rank) const { return boxes_[static_cast<std::size_t>(rank)]; }
  /// Where a tile begins in memory, and the steps between its rows and columns.
  struct Place {
    Index offset, steps[2];
  };
  auto block_strides() const {
    return [own = box(self())](const Strip& rows, const Strip& columns, const Place&) {
      const Index step = own.size[1];
      return Place{(rows.begin - own.begin[0]) * step + columns.begin - own.begin[1], {step, 1}};
    };
  }
  auto value_strides() const {
    return [i = row_step_, j = column_step_](const Strip& rows, const Strip& columns, const Place&) {
      return Place{rows.local * i + columns.local * j, {i, j}};
    };
  }
  /// The elements that are in the block of rank `here`, and that rank `there` has elsewhere.
  Holding common(int here, int there) const {
    const Holding& of = holdings_[static_cast<std::size_t>(there)];
    return {within(of.rows, box(here).range(0)), within(of.columns, box(here).range(1))};
  }
  static Index elements(const Holding& of) {
    Index rows = 0, columns = 0;
    for (const Strip& strip : of.rows) rows += strip.size;
    for (const Strip& strip : of.columns) columns += strip.size;
    return rows * columns;
  }
  /// Copies each tile of a part; a message has one after another.
  template <class From, class To>
  static void copy(const Holding& part, const From& from, const T* source, const To& to, T* target) {
    Index done = 0;
    for (const Strip& rows : part.rows) {
      for (const Strip& columns : part.columns) {
        const Index extents[]{rows.size, columns.size};
        const Place in_message{done, {columns.size, 1}}, out = from(rows, columns, in_message),
                                                         in = to(rows, columns, in_message);
        kernel::copy_box(2, extents, source + out.offset, out.steps, target + in.offset, in.steps);
        done += rows.size * columns.size;
      }
    }
  }
  template <class From, class To, class Leaving, class Arriving>
  void exchange(const From& from, const T* source, const To& to, T* target, const Leaving& leaving,
                const Arriving& arriving) const {
    const auto in_message = [](const Strip&, const Strip&, const Place& place) { return place; };
    std::vector<Index> out, in;
    for (int rank = 0; rank < communicator_.size(); ++rank) {  // this rank's own elements take no message
      out.push_back(rank == self() ? 0 : elements(leaving(rank)));
      in.push_back(rank == self() ? 0 : elements(arriving(rank)));
    }
    const std::vector<Index> out_begin = offsets_of(out), in_begin = offsets_of(in);
    const Buffer sent = allocate_buffer(mesh_, (out_begin.back() + out.back()) * Index{sizeof(T)}),
                 received = allocate_buffer(mesh_, (in_begin.back() + in.back()) * Index{sizeof(T)});
    T *const leave = static_cast<T*>(sent->data), *const arrive = static_cast<T*>(received->data);
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      if (rank == self())
        copy(leaving(rank), from, source, to, target);
      else
        copy(leaving(rank), from, source, in_message, leave + out_begin[index]);
    }
    communicator_.all_to_all(leave, out, out_begin, arrive, in, in_begin, data_type_of<T>());
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      if (rank != self())
        copy(arriving(rank), in_message, arrive + in_begin[static_cast<std::size_t>(rank)], to, target);
    }
  }

  MeshView mesh_;
  Communicator communicator_;
  std::vector<Holding> holdings_;  ///< of each rank
  Index row_step_, column_step_;
  std::vector<Box<2>> boxes_;
  std::vector<bool> sends_;  ///< whether a rank is the first of those with its block
  bool adds_zeros_ = false;  ///< of a pending sum, the first rank has the elements
};

/// The elements of a matrix in blocks that each rank has. Throws `std::invalid_argument` on all ranks where a
/// descriptor contradicts itself, that of another rank, or `shape`, if given.
inline std::vector<Holding> holdings_of(const char* name, const Communicator& communicator,
                                        const BlockCyclic& blocks, const Shape<2>* shape) {
  enum { kind, context, m, n, mb, nb, first_row, first_column, leading, rows, columns, row, column, all };
  static constexpr const char* names[all]{"its first number",
                                          "context",
                                          "m",
                                          "n",
                                          "mb",
                                          "nb",
                                          "the first row of the grid",
                                          "the first column of the grid",
                                          "the leading dimension",
                                          "the rows of the grid",
                                          "the columns of the grid",
                                          "row",
                                          "column"};
  std::vector<Index> mine(blocks.descriptor, blocks.descriptor + 9);
  mine.insert(mine.end(), {blocks.rows, blocks.columns, blocks.row, blocks.column});
  const std::vector<Index> numbers = communicator.all_gather(mine);
  const auto of = [&](int rank, int what) { return numbers[static_cast<std::size_t>(rank * all + what)]; };
  const auto expect = [&](int rank, int what, bool fine, const std::string& expected) {
    if (!fine)
      fail({name, ": rank ", rank, ": ", names[what], " is ", of(rank, what), ", expected ", expected});
  };
  const int p = blocks.rows, q = blocks.columns;
  std::vector<Holding> holdings;
  std::vector<int> used;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    expect(rank, kind, of(rank, kind) == 1, "1, of a dense matrix");
    for (const int what : {m, n}) expect(rank, what, of(rank, what) >= 0, "0 or more");
    for (const int what : {mb, nb, rows, columns}) expect(rank, what, of(rank, what) >= 1, "1 or more");
    for (const int what : {m, n, mb, nb, first_row, first_column, rows, columns})
      expect(rank, what, of(rank, what) == of(0, what), std::to_string(of(0, what)) + " as on rank 0");
    if (shape) {
      const std::string of_tensor = text({"that of the tensor, ", *shape});
      expect(rank, m, of(rank, m) == (*shape)[0], of_tensor);
      expect(rank, n, of(rank, n) == (*shape)[1], of_tensor);
    }
    expect(rank, first_row, of(rank, first_row) >= 0 && of(rank, first_row) < of(rank, rows),
           "a row of the grid");
    expect(rank, first_column, of(rank, first_column) >= 0 && of(rank, first_column) < of(rank, columns),
           "a column of the grid");
    Holding& held = holdings.emplace_back();
    if (of(rank, row) < 0 || of(rank, column) < 0) continue;  // outside of the grid
    expect(rank, row, of(rank, row) < of(rank, rows), "a row of the grid");
    expect(rank, column, of(rank, column) < of(rank, columns), "a column of the grid");
    held.rows = dealt(of(rank, m), of(rank, mb), p, static_cast<int>(of(rank, first_row)),
                      static_cast<int>(of(rank, row)));
    held.columns = dealt(of(rank, n), of(rank, nb), q, static_cast<int>(of(rank, first_column)),
                         static_cast<int>(of(rank, column)));
    const Index least = std::max<Index>(1, total(held.rows));
    expect(rank, leading, of(rank, leading) >= least, std::to_string(least) + " or more");
    used.push_back(static_cast<int>(of(rank, row) * q + of(rank, column)));
  }
  std::sort(used.begin(), used.end());
  for (int place = 0; place < p * q; ++place) {
    if (std::size(used) == static_cast<std::size_t>(p * q) && used[static_cast<std::size_t>(place)] == place)
      continue;
    fail({name, ": the ", communicator.size(), " ranks do not have each place of a grid of ", p, " x ", q,
          " once"});
  }
  return holdings;
}

}  // namespace detail

/// The matrix of which each rank has the next rows, in the order of the ranks of the mesh, as many as it likes. `rows`:
/// any dense Eigen expression, in either order. Collective: throws `std::invalid_argument` on all ranks if their
/// numbers of columns differ.
template <class... Placements, class MeshType, class Derived,
          WellFormed Fine = detail::distributed_problem<typename Derived::Scalar, 2, MeshType, Placements...>>
auto from_rows(const MeshType& mesh, const Eigen::MatrixBase<Derived>& rows) {
  using T = typename Derived::Scalar;
  const RowMajorMatrix<T> own = rows;
  const std::vector<Index> extents = mesh.communicator().all_gather(std::array{own.rows(), own.cols()});
  std::vector<detail::Holding> holdings;
  Index before = 0;
  for (std::size_t rank = 0; rank < extents.size() / 2; ++rank) {
    const Index count = extents[2 * rank], width = extents[2 * rank + 1];
    if (width != extents[1]) {
      detail::fail({"from_rows: rank ", rank, " brings rows of ", width, " columns, rank 0 of ", extents[1]});
    }
    holdings.push_back({{{before, count, 0}}, {{0, width, 0}}});
    before += count;
  }
  auto x = empty<T, Placements...>(mesh, {before, extents[1]});
  detail::Interchange<T>(MeshView(mesh), x.layout, x.shape(), std::move(holdings), own.cols(), 1)
      .receive(own.data(), x.writable().data);
  return x;
}

/// `count` rows of a matrix for each rank, in the order of the ranks, as `from_rows` takes them. Finishes pending sums.
/// Collective: throws `std::invalid_argument` on all ranks unless the numbers add up to the rows of x.
template <TensorType X>
  requires(X::rank == 2)
auto to_rows(const X& x, Index count) {
  using T = typename X::Element;
  const auto finished = redistribute_to<with_layout<X, packed(without_pending(X::layout, replicate))>>(x);
  const std::vector<Index> counts = x.mesh().communicator().all_gather(std::array{count});
  std::vector<detail::Holding> holdings;
  Index before = 0;
  for (const Index each : counts) {
    if (each < 0) detail::fail({"to_rows: a rank asks for ", each, " rows"});
    holdings.push_back({{{before, each, 0}}, {{0, x.shape()[1], 0}}});
    before += each;
  }
  if (before != x.shape()[0]) {
    detail::fail({"to_rows: the ranks ask for ", before, " rows of a matrix ", x.shape()});
  }
  RowMajorMatrix<T> own(count, x.shape()[1]);
  detail::Interchange<T>(MeshView(x.mesh()), finished.layout, x.shape(), std::move(holdings), own.cols(), 1)
      .send(finished.data(), own.data());
  return own;
}

/// The matrix whose elements `values` are in ScaLAPACK's blocks. Collective: throws `std::invalid_argument` on all
/// ranks, which names the number that does not fit.
template <class... Placements, class MeshType, class T,
          WellFormed Fine = detail::distributed_problem<T, 2, MeshType, Placements...>>
auto from_block_cyclic(const MeshType& mesh, const BlockCyclic& blocks, const T* values) {
  auto holdings = detail::holdings_of("from_block_cyclic", mesh.communicator(), blocks, nullptr);
  auto x = empty<T, Placements...>(mesh, {blocks.descriptor[2], blocks.descriptor[3]});
  detail::Interchange<T>(MeshView(mesh), x.layout, x.shape(), std::move(holdings), 1, blocks.descriptor[8])
      .receive(values, x.writable().data);
  return x;
}

/// Writes a matrix to ScaLAPACK's blocks. Finishes pending sums. Errors as for `from_block_cyclic`.
template <TensorType X>
  requires(X::rank == 2)
void to_block_cyclic(const X& x, const BlockCyclic& blocks, typename X::Element* values) {
  const auto finished = redistribute_to<with_layout<X, packed(without_pending(X::layout, replicate))>>(x);
  auto holdings = detail::holdings_of("to_block_cyclic", x.mesh().communicator(), blocks, &x.shape());
  detail::Interchange<typename X::Element>(MeshView(x.mesh()), finished.layout, x.shape(),
                                           std::move(holdings), 1, blocks.descriptor[8])
      .send(finished.data(), values);
}

}  // namespace shardwise
