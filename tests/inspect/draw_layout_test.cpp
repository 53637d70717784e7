// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Pictures of layouts: boxes are where the blocks are.

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <regex>

#include <shardwise/inspect/draw_layout.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/tensor.hpp>

#include <support/pictures.hpp>

namespace shardwise {
namespace {

using testing::check_picture;
using testing::count;

using TwoAxes = Mesh<dp, tp>;
template <int Rank, class... Placements>
using Lying = Tensor<float, Rank, TwoAxes, Placements...>;

struct Rectangle {
  double x, y, width, height;
};
/// The boxes of blocks, each by the rank whose number it has.
std::map<int, Rectangle> boxes(const std::string& svg) {
  std::map<int, Rectangle> all;
  const std::regex box(
      R"re(<rect class="[FWBI]( odd)?" x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"/>)re"
      R"re((<rect class="term"[^>]*>)?<text [^>]*>(\d+)</text>)re");
  for (std::sregex_iterator each(svg.begin(), svg.end(), box), end; each != end; ++each) {
    auto number = [&](std::size_t group) { return std::stod((*each)[group].str()); };
    CHECK(all.emplace(std::stoi((*each)[7].str()), Rectangle{number(2), number(3), number(4), number(5)})
              .second);
  }
  return all;
}

/// Every rank that has anything has its box, to scale; `down` and `across`: the dimensions that are drawn.
template <int Rank>
void check_blocks(const Layout& layout, const MeshSizes& sizes, const Shape<Rank>& shape, int down,
                  int across) {
  CAPTURE(Rank);
  const char* const names[] = {"dp", "tp"};
  const std::string svg = draw(layout, sizes, names, {shape.begin(), shape.end()});
  CAPTURE(svg);
  const std::map<int, Rectangle> drawn = boxes(svg);
  std::map<std::pair<int, int>, Rectangle> corners;  // of each panel: where the whole tensor is
  std::size_t holders = 0;
  double scale_x = 0, scale_y = 0;
  for (int rank = 0; rank < sizes[0] * sizes[1]; ++rank) {
    const MeshSizes place = group_member(sizes, {}, 2, ~0u, rank);
    const Box<Rank> box = local_box(shape, layout, sizes, place);
    if (box.elements() == 0) {
      CHECK_FALSE(drawn.contains(rank));
      continue;
    }
    ++holders;
    REQUIRE(drawn.contains(rank));
    const Rectangle& r = drawn.at(rank);
    const double sx = r.width / static_cast<double>(box.size[across]);
    const double sy = down < 0 ? 1 : r.height / static_cast<double>(box.size[down]);
    if (scale_x == 0) scale_x = sx, scale_y = sy;
    CHECK(sx == doctest::Approx(scale_x).epsilon(0.01));
    CHECK(sy == doctest::Approx(scale_y).epsilon(0.01));
    const std::pair panel{layout[0].is_shard() ? 0 : place[0], layout[1].is_shard() ? 0 : place[1]};
    const Rectangle corner{r.x - static_cast<double>(box.begin[across]) * scale_x,
                           down < 0 ? r.y : r.y - static_cast<double>(box.begin[down]) * scale_y, 0, 0};
    const Rectangle& other = corners.emplace(panel, corner).first->second;
    CHECK(std::abs(other.x - corner.x) < 0.1);
    CHECK(std::abs(other.y - corner.y) < 0.1);
  }
  CHECK(drawn.size() == holders);
  // Terms are beside one another, copies below.
  for (const auto& [panel, corner] : corners) {
    const Rectangle& origin = corners.at({0, 0});
    bool right = false, below = false;
    for (int axis = 0; axis < 2; ++axis) {
      if ((axis == 0 ? panel.first : panel.second) == 0) continue;
      (layout[axis].is_partial() ? right : below) = true;
    }
    CHECK((corner.x > origin.x + 1) == right);
    CHECK((corner.y > origin.y + 1) == below);
  }
}

TEST_CASE("every layout of a matrix: boxes are the blocks") {
  for (const MeshSizes sizes : {MeshSizes{2, 3, 1, 1}, MeshSizes{3, 2, 1, 1}, MeshSizes{1, 4, 1, 1}}) {
    for (const Placement a : {shard(0), shard(1), replicate, reduced, partial_sum}) {
      for (const Placement b : {shard(0), shard(1), replicate, reduced, partial_sum}) {
        CAPTURE(a.code);
        CAPTURE(b.code);
        if (a.is_full() && b.is_full() && sizes[0] * sizes[1] > 4) continue;  // not all of these are drawn
        if (a.is_partial() && b.is_partial() && sizes[0] * sizes[1] > 4) continue;
        check_blocks<2>({a, b}, sizes, {7, 5}, 0, 1);
      }
    }
  }
  check_blocks<1>({shard(0), shard(0)}, {2, 2, 1, 1}, {3}, -1, 0);  // one rank has nothing
  check_blocks<3>({shard(0), shard(2)}, {2, 2, 1, 1}, {4, 9, 6}, 0, 2);
  check_blocks<3>({shard(1), replicate}, {3, 2, 1, 1}, {4, 9, 6}, 1, 2);
}

TEST_CASE("a picture says in words what it is of") {
  const std::string svg = draw_layout<Lying<2, Partial<Max>, Shard<1>>>({2, 4}, {13, 6});
  CHECK(svg.find("a tensor [13 x 6] on dp 2 x tp 4; the numbers in it are ranks") != std::string::npos);
  CHECK(svg.find("dp: Partial&lt;Max>, each holds a term; the value is the Max of all") != std::string::npos);
  CHECK(svg.find("tp: Shard&lt;1>, each rank along it holds a block") != std::string::npos);
  CHECK(count(svg, "class=\"term\"") == 8);
  CHECK(count(svg, ">max</text>") == 1);
  const std::string copies = draw_layout<Lying<1, Reduced, Replicate>>({2, 3}, {4});
  CHECK(count(copies, ">=</text>") == 3);  // of 6 copies 4 are drawn
  CHECK(count(copies, ">…</text>") == 1);
}

TEST_CASE("what cannot be drawn") {
  CHECK_THROWS_WITH_AS((draw_layout<Lying<2, Shard<0>, Replicate>>({0, 4}, {13, 6})),
                       "draw: axis dp has 0 ranks", std::invalid_argument);
  CHECK_THROWS_WITH_AS((draw_layout<Lying<2, Shard<0>, Replicate>>({2, 4}, {13, -6})),
                       "draw: an extent is negative in [13 x -6]", std::invalid_argument);
  const char* const names[] = {"a", "b", "c"};
  const Index shape[] = {4, 4, 4};
  CHECK_THROWS_WITH_AS(draw({shard(0), shard(1), shard(2)}, {2, 2, 2, 1}, names, shape),
                       "draw: 3 dimensions are cut, and only two can be drawn", std::invalid_argument);
  CHECK_THROWS_AS(draw({shard(0), shard(3), replicate}, {2, 2, 2, 1}, names, shape), std::invalid_argument);
}

TEST_CASE("pictures of the documentation: layouts") {
  check_picture("layout-uneven", draw_layout<Lying<2, Shard<0>, Shard<1>>>({3, 2}, {13, 20}));
  check_picture("layout-nested", draw_layout<Lying<2, Shard<0>, Shard<0>>>({3, 2}, {13, 20}));
  check_picture("layout-pending", draw_layout<Lying<2, Shard<0>, Partial<>>>({3, 2}, {13, 20}));
  check_picture("layout-copies", draw_layout<Lying<2, Reduced, Shard<1>>>({2, 3}, {13, 20}));
}

}  // namespace
}  // namespace shardwise
