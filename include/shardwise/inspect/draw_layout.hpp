// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pictures of layouts: which rank holds which block of a tensor.

#include <algorithm>
#include <set>

#include <shardwise/layout/block.hpp>
#include <shardwise/layout/svg.hpp>

namespace shardwise {

namespace detail {

class LayoutPicture {
 public:
  LayoutPicture(const Layout& layout, const MeshSizes& sizes, std::span<const char* const> names,
                std::span<const Index> shape)
      : layout_(layout), sizes_(sizes), names_(names), extents_(shape) {
    const int rank = static_cast<int>(shape.size());
    if (rank > max_rank || !well_formed(layout, rank) || static_cast<int>(names.size()) != layout.axes) {
      fail({"draw: no tensor ", shape, " has such a layout on ", names.size(), " axes"});
    }
    added_ = std::max(2 - rank, 0);  // a vector is drawn as a matrix of one row
    shape_.fill(1);
    for (int dim = 0; dim < rank; ++dim) {
      shape_[dim + added_] = shape[static_cast<std::size_t>(dim)];
      if (shape_[dim + added_] < 0) fail({"draw: an extent is negative in ", shape});
    }
    for (int axis = 0; axis < layout.axes; ++axis) {
      if (sizes[axis] < 1) fail({"draw: axis ", name(axis), " has ", sizes[axis], " ranks"});
      if (layout[axis].is_shard()) layout_[axis] = shard(layout[axis].dim() + added_);
      if (sizes[axis] == 1) continue;
      (layout[axis].is_shard() ? cuts_ : layout[axis].is_partial() ? terms_ : copies_) |= 1u << axis;
    }
    choose_dimensions(rank + added_);
  }

  std::string svg() {
    const int columns = group_size(sizes_, layout_.axes, terms_),
              rows = group_size(sizes_, layout_.axes, copies_);
    lengths_[0] = shape_[drawn_[0]] == 1 ? 30 : 130;
    lengths_[1] =
        std::clamp(130 * real(shape_[drawn_[1]]) / real(std::max<Index>(shape_[drawn_[0]], 1)), 78.0, 312.0);
    const double across = lengths_[1] + 46, down = top + lengths_[0] + 8;
    for (int row = 0; row < std::min(rows, most); ++row) {
      for (int column = 0; column < std::min(columns, most); ++column) {
        const double x = left + column * across, y = row * down;
        panel(x, y, row, column);
        if (column + 1 < columns)
          sign(x + lengths_[1] + 23, y + top + lengths_[0] / 2, sign_of_terms(), column);
        if (row + 1 < rows && column == 0) sign(x + lengths_[1] / 2, y + down + 8, "=", row);
      }
    }
    double y = std::min(rows, most) * down + 12;
    const std::vector<std::string> lines = words();
    for (const std::string& line : lines) svg_.words(0, y += 17, line);
    return svg_.page(std::max(left + std::min(columns, most) * across, 640.0), y + 8, lines.front(), style);
  }

 private:
  static double real(Index number) { return static_cast<double>(number); }
  const char* name(int axis) const { return names_[static_cast<std::size_t>(axis)]; }

  /// The sharded dimensions, and if they are fewer than two, the last others.
  void choose_dimensions(int rank) {
    std::vector<int> chosen;
    for (const bool cut : {true, false}) {
      for (int dim = rank - 1; dim >= 0; --dim) {
        if (((layout_.axes_sharding(dim) & cuts_) != 0) == cut && (cut || chosen.size() < 2))
          chosen.push_back(dim);
      }
    }
    if (chosen.size() > 2) fail({"draw: ", chosen.size(), " dimensions are cut, and only two can be drawn"});
    drawn_[0] = std::min(chosen[0], chosen[1]);
    drawn_[1] = std::max(chosen[0], chosen[1]);
  }

  /// The blocks of the ranks that differ only along sharded axes.
  void panel(double x, double y, int row, int column) {
    const MeshSizes place = group_member(sizes_, group_member(sizes_, {}, layout_.axes, terms_, column),
                                         layout_.axes, copies_, row);
    std::string title;
    for (int axis = 0; axis < layout_.axes; ++axis) {
      if ((terms_ | copies_) >> axis & 1u) title += text({name(axis), " ", place[axis], "  "});
    }
    svg_.words(x, y + 12, title);
    std::set<Index> begins[2];
    svg_.add({"<g>\n"});
    for (int i = 0; i < group_size(sizes_, layout_.axes, cuts_); ++i) {
      const MeshSizes member = group_member(sizes_, place, layout_.axes, cuts_, i);
      const Box<max_rank> box = local_box(shape_, layout_, sizes_, member);
      if (box.elements() == 0) continue;
      block(x, y + top, member, box);
      for (int d : {0, 1}) begins[d].insert(box.begin[drawn_[d]]);
    }
    svg_.add({"</g>\n"});
    for (int d : {0, 1}) {
      double free = 0;  // from here on there is space for a label
      for (const Index begin : begins[d]) {
        const double at = lengths_[d] * real(begin) / real(shape_[drawn_[d]]);
        if (at < free || (d == 0 && (column > 0 || shape_[drawn_[d]] == 1))) continue;
        svg_.words(d == 0 ? x - 30 : x + at, y + top + (d == 0 ? at + 10 : -3), std::to_string(begin));
        free = at + (d == 0 ? 12 : 28);
      }
    }
  }
  void block(double x, double y, const MeshSizes& member, const Box<max_rank>& box) {
    double at[2], size[2];
    for (int d : {0, 1}) {
      const double scale = lengths_[d] / real(shape_[drawn_[d]]);
      at[d] = (d == 0 ? y : x) + real(box.begin[drawn_[d]]) * scale;
      size[d] = real(box.size[drawn_[d]]) * scale;
    }
    // One colour for each position along the first sharding axis, alternately darker along the others.
    const AxisSet outer = cuts_ & (0 - cuts_);
    const char hue = "FWBI"[group_rank(sizes_, member, layout_.axes, outer) % 4];
    const bool odd = group_rank(sizes_, member, layout_.axes, cuts_ ^ outer) % 2 == 1;
    svg_.box(text({hue, odd ? " odd" : ""}), at[1], at[0], size[1], size[0]);
    if (terms_ != 0)
      svg_.box("term", at[1] + 3, at[0] + 3, std::max(size[1] - 6, 0.0), std::max(size[0] - 6, 0.0));
    const std::string rank = std::to_string(group_rank(sizes_, member, layout_.axes, ~0u));
    if (size[0] < 13 || size[1] < 8 * real(static_cast<Index>(rank.size()))) return;
    svg_.words(at[1] + size[1] / 2, at[0] + size[0] / 2 + 4, rank);
  }
  /// A sign between two panels; an ellipsis after the last one drawn if there are more.
  void sign(double x, double y, std::string_view sign, int before) {
    svg_.add({"<g class=\"sign\">"});
    svg_.words(x, y, before + 1 < most ? sign : "…");
    svg_.add({"</g>"});
  }
  const char* sign_of_terms() const {
    const auto pending = [&](Placement kind) {
      return layout_.axes_where([=](Placement p) { return p == kind; }) & terms_;
    };
    return pending(partial_sum) != 0 ? "+" : pending(partial_max) != 0 ? "max" : "min";
  }

  std::vector<std::string> words() const {
    std::string mesh;
    std::vector<std::string> lines(1);
    for (int axis = 0; axis < layout_.axes; ++axis) {
      mesh += text({axis == 0 ? "" : " x ", name(axis), " ", sizes_[axis]});
      const Placement p = layout_[axis];
      const char* op = p == partial_sum ? "Sum" : p == partial_max ? "Max" : "Min";
      lines.push_back(text({name(axis), ": "}));
      if (p.is_shard())
        lines.back() += text({"Shard<", p.dim() - added_, ">, each rank along it holds a block"});
      if (p.is_partial())
        lines.back() += text({"Partial<", op, ">, each holds a term; the value is the ", op, " of all"});
      if (p == reduced) lines.back() += "Reduced, each holds a copy, and does different work with it";
      if (p == replicate) lines.back() += "Replicate, each holds a copy, and does the same work with it";
    }
    lines[0] = text({"a tensor ", extents_, " on ", mesh, "; the numbers in it are ranks"});
    return lines;
  }

  static constexpr double left = 34, top = 30;
  static constexpr int most = 4;  ///< panels per row or column
  static constexpr const char* style =
      ".term{fill:none;stroke-dasharray:4 3;stroke:#57606a!important}.sign text{font-size:18px;fill:#24292f}"
      "@media(prefers-color-scheme:dark){.sign text{fill:#e6edf3}}";

  Layout layout_;  ///< of the tensor with added leading dimensions of one element
  int added_ = 0;
  const MeshSizes sizes_;
  const std::span<const char* const> names_;
  const std::span<const Index> extents_;
  Shape<max_rank> shape_{};
  AxisSet cuts_ = 0, terms_ = 0, copies_ = 0;  ///< axes of several ranks, by their placement
  int drawn_[2]{};                             ///< the dimensions drawn vertically and horizontally
  double lengths_[2]{};                        ///< elements per panel along these
  Svg svg_{};
};

}  // namespace detail

/// An SVG of the blocks of a tensor of extents `shape` on a mesh with these sizes and axis names: a box for each
/// rank at the position of its block, with the rank's number; the axes show where blocks begin. Copies are drawn
/// below one another, terms of pending reductions side by side, at most four of each. Suits light and dark pages.
/// Throws `std::invalid_argument` for an invalid layout, and for one that shards more than two dimensions.
inline std::string draw(const Layout& layout, const MeshSizes& sizes, std::span<const char* const> names,
                        std::span<const Index> shape) {
  return detail::LayoutPicture(layout, sizes, names, shape).svg();
}
/// The same for a tensor type: draw_layout<Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Shard<1>>>({2, 4}, {13, 8}).
template <class X>
std::string draw_layout(const typename X::MeshOf::SizesOf& sizes, const Shape<X::rank>& shape) {
  MeshSizes all;
  all.fill(1);
  std::copy(sizes.begin(), sizes.end(), all.begin());
  const auto& names = X::MeshOf::AxesOf::names;
  return draw(X::layout, all, {names.begin(), names.end()},
              {shape.begin(), static_cast<std::size_t>(X::rank)});
}

}  // namespace shardwise
