// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ranks of a job that form a mesh, as a value that every rank of the job can hold, in that mesh or not.
/// Transfers name their destination this way.
///
/// ```
/// Mesh<pp, dp, tp> job(world(), {2, 2, any});
/// Mesh<dp, tp> stage = job.submesh<dp, tp>();                          // this rank's
/// MeshRanks<dp, tp> last = job.submesh_ranks<dp, tp>(job.at<pp>(1));   // that of any
/// ```

#include <shardwise/base/text.hpp>
#include <shardwise/layout/axis.hpp>
#include <shardwise/layout/rank_grid.hpp>

namespace shardwise {

template <MeshAxis... Axes>
class MeshRanks {
 public:
  using SizesOf = std::array<int, sizeof...(Axes)>;
  static constexpr int axes = AxisList<Axes...>::count;

  constexpr explicit MeshRanks(const RankGrid& grid) : grid_(grid) {}
  /// The rank at coordinates c is `first` + Σ strides[axis] · c[axis].
  constexpr MeshRanks(int first, const SizesOf& sizes, const SizesOf& strides) {
    grid_.axes = axes;
    grid_.first = first;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      grid_.sizes[axis] = sizes[axis];
      grid_.strides[axis] = strides[axis];
    }
  }
  /// `first` and the ranks that follow it, the last axis varying fastest.
  constexpr MeshRanks(int first, const SizesOf& sizes) : MeshRanks(first, sizes, {}) {
    grid_ = RankGrid::whole(axes, grid_.sizes);
    grid_.first = first;
  }

  /// The ranks as numbers of the job, and how many they are.
  constexpr const RankGrid& grid() const { return grid_; }
  constexpr int size() const { return grid_.size(); }

  friend constexpr bool operator==(const MeshRanks&, const MeshRanks&) = default;

 private:
  RankGrid grid_;
};

namespace detail {

/// Throws `std::invalid_argument` unless these are distinct ranks of the job.
constexpr void check_ranks(const RankGrid& ranks, const MeshPlace& in_job, const char* who) {
  const int job = in_job.job_size();
  Index size = 1;
  for (int axis = 0; axis < ranks.axes; ++axis) {
    if (ranks.sizes[axis] < 1) fail({who, ": axis ", axis, " of the mesh has ", ranks.sizes[axis], " ranks"});
    size *= ranks.sizes[axis];
    if (size > job) fail({who, ": the mesh has ", size, " ranks or more, the job ", job});
  }
  std::vector<char> seen(static_cast<std::size_t>(job), 0);
  for (const int rank : ranks.all()) {
    if (rank < 0 || rank >= job || seen[static_cast<std::size_t>(rank)] != 0)
      fail({who, ": rank ", rank, " of the mesh appears twice, or is not a rank of the job of ", job});
    seen[static_cast<std::size_t>(rank)] = 1;
  }
}

/// The number of a rank of the job within a part. Throws `std::invalid_argument` if the part is invalid or does not
/// contain the rank.
constexpr int number_on_part(const RankGrid& part, const MeshPlace& in_job, int rank) {
  check_ranks(part, in_job, "part");
  const int number = part.find(rank);
  if (number < 0)
    fail({"part: rank ", rank, " of the job is not on the mesh; only its ranks may ask for it"});
  return number;
}

}  // namespace detail
}  // namespace shardwise
