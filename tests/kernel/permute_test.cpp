// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/permute.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// Copies or adds element by element.
template <class T, class F>
void visit_box(std::size_t dim, const std::vector<Index>& extents, const std::vector<Index>& src,
               const std::vector<Index>& dst, Index from, Index to, F f) {
  if (dim == extents.size()) return f(from, to);
  for (Index i = 0; i < extents[dim]; ++i)
    visit_box<T>(dim + 1, extents, src, dst, from + i * src[dim], to + i * dst[dim], f);
}

template <class T>
void check_box(const std::vector<Index>& extents, const std::vector<Index>& src_strides,
               const std::vector<Index>& dst_strides) {
  Index src_size = 1, dst_size = 1;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    src_size += std::max<Index>(0, extents[d] - 1) * src_strides[d];
    dst_size += std::max<Index>(0, extents[d] - 1) * dst_strides[d];
  }
  const auto src = numbers<T>(src_size, 40, 100);
  auto copied = numbers<T>(dst_size, 41, 100), added = copied, expected_copy = copied, expected_sum = copied;
  visit_box<T>(0, extents, src_strides, dst_strides, 0, 0, [&](Index from, Index to) {
    expected_copy[at(to)] = src[at(from)];
    expected_sum[at(to)] = static_cast<T>(expected_sum[at(to)] + src[at(from)]);
  });
  const int rank = static_cast<int>(extents.size());
  kernel::copy_box(rank, extents.data(), src.data(), src_strides.data(), copied.data(), dst_strides.data());
  kernel::add_box(rank, extents.data(), src.data(), src_strides.data(), added.data(), dst_strides.data());
  CHECK(copied == expected_copy);
  CHECK(added == expected_sum);
}

template <class T>
void check_boxes() {
  check_box<T>({}, {}, {});
  check_box<T>({5}, {1}, {1});
  check_box<T>({5}, {3}, {2});
  check_box<T>({4, 6}, {6, 1}, {6, 1});      // contiguous
  check_box<T>({4, 6}, {10, 1}, {6, 1});     // packing a column block
  check_box<T>({4, 6}, {6, 1}, {10, 1});     // unpacking
  check_box<T>({70, 45}, {45, 1}, {1, 70});  // transposing
  check_box<T>({70, 45}, {1, 71}, {50, 1});
  check_box<T>({3, 4, 5}, {20, 5, 1}, {5, 15, 1});  // exchanging the first two
  check_box<T>({3, 4, 5}, {20, 5, 1}, {1, 3, 12});  // reversing
  check_box<T>({3, 4, 5}, {20, 5, 1}, {20, 1, 4});
  check_box<T>({2, 3, 1, 5, 2}, {60, 20, 9, 4, 2}, {30, 10, 77, 2, 1});
  check_box<T>({4, 6}, {0, 1}, {6, 1});  // broadcasting
  check_box<T>({4, 0, 6}, {6, 6, 1}, {6, 6, 1});
  check_box<T>({0}, {1}, {1});
}

TEST_CASE("boxes are copied and added as element by element") {
  check_boxes<double>();
  check_boxes<float>();
  check_boxes<Eigen::bfloat16>();
  check_boxes<std::int32_t>();
}

TEST_CASE("nothing is read or written of an empty box") {
  const Index extents[] = {3, 0}, strides[] = {7, 1};
  kernel::copy_box<float>(2, extents, nullptr, strides, nullptr, strides);  // for the sanitizers
  kernel::add_box<float>(2, extents, nullptr, strides, nullptr, strides);
}

TEST_CASE("transposition is a copy") {
  const std::vector<float> x = numbers<float>(67 * 35, 42, 100);
  std::vector<float> y(x.size());
  const Index extents[] = {67, 35}, from[] = {35, 1}, to[] = {1, 67};
  kernel::copy_box(2, extents, x.data(), from, y.data(), to);
  bool all = true;
  for (Index r = 0; r < 67; ++r) {
    for (Index c = 0; c < 35; ++c) all = all && y[at(c * 67 + r)] == x[at(r * 35 + c)];
  }
  CHECK(all);
}

}  // namespace
