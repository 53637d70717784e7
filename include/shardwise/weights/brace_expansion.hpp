// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Parameters that are several tensors in files: their names together are one text with braces, as in a shell, and
/// each tensor is a block of the parameter along its first dimensions.
///
/// ```
/// "experts.{0..7}.{w1,w3}.weight"   // experts.0.w1.weight, experts.0.w3.weight, experts.1.w1.weight, …
/// ```

#include <charconv>

#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise {

/// The names that a text stands for, the last braces varying first: the text itself if it has none. Throws
/// `std::invalid_argument` if braces stand for nothing.
inline std::vector<std::string> expanded_names(std::string_view text) {
  const std::size_t open = text.find('{'), close = text.find('}', open);
  if (open == text.npos || close == text.npos) return {std::string(text)};
  const std::string_view before = text.substr(0, open);
  std::string_view inside = text.substr(open + 1, close - open - 1);
  const std::vector<std::string> rests = expanded_names(text.substr(close + 1));
  std::vector<std::string> names;
  const auto add = [&](std::string_view part) {
    for (const std::string& rest : rests) names.push_back(std::string(before) + std::string(part) + rest);
  };
  if (const std::size_t dots = inside.find(".."); dots != inside.npos) {
    const auto number = [](std::string_view digits) {
      Index value = -1;
      const char* const last = digits.data() + digits.size();
      return std::from_chars(digits.data(), last, value).ptr == last ? value : -1;
    };
    const Index last = number(inside.substr(dots + 2));
    for (Index i = number(inside.substr(0, dots)); i >= 0 && i <= last; ++i) add(std::to_string(i));
  } else {
    while (!inside.empty()) add(detail::take_part(inside, ','));
  }
  if (names.empty()) detail::fail({"the braces in the name \"", text, "\" stand for nothing"});
  return names;
}

namespace detail {

/// The shape of each of `count` equal blocks of a tensor along its first dimensions. Throws `std::invalid_argument`
/// unless the product of some first dimensions is `count`.
inline std::vector<Index> shape_of_blocks(const std::vector<Index>& shape, Index count) {
  std::size_t dim = 0;
  for (Index left = count; left > 1; left /= shape[dim++]) {
    if (dim == shape.size() || shape[dim] == 0 || left % shape[dim] != 0) {
      fail({"a tensor of the shape ", shape, " has ", count, " names in the file"});
    }
  }
  return {shape.begin() + static_cast<std::ptrdiff_t>(dim), shape.end()};
}

/// This rank's part of such a block, number `number`; it may have no elements.
inline View<char, max_rank> block_here(const AnyTensor& x, Index number, Index count) {
  View<char, max_rank> all = view_of(x);
  const int dims = x.rank - static_cast<int>(shape_of_blocks(x.extents(), count).size());
  View<char, max_rank> block{all.data, {}, {}, {}};
  for (int dim = 0; dim < max_rank; ++dim) {
    const bool there = dim + dims < max_rank;
    block.size[dim] = there ? all.size[dim + dims] : 1;
    block.begin[dim] = there ? all.begin[dim + dims] : 0;
    block.shape[dim] = there ? all.shape[dim + dims] : 1;
  }
  Index stride = block.elements() * x.element_bytes();
  for (int dim = dims; dim-- > 0; number /= all.shape[dim]) {
    const Index here = number % all.shape[dim] - all.begin[dim];
    if (here < 0 || here >= all.size[dim]) {
      block.size[0] = 0;
      break;
    }
    if (block.data != nullptr) block.data += here * stride;
    stride *= all.size[dim];
  }
  return block;
}

}  // namespace detail

}  // namespace shardwise
