// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Prints meshes, layouts, tensors and models to a stream. Nothing is communicated: each rank prints its own part,
/// so print on one rank or on all.
///
/// ```
/// std::cout << mesh;                      // Mesh dp 2 x tp 4, rank 5 (dp 1, tp 1)
/// std::cout << decltype(x)::layout;       // Shard<0>, Replicate
/// std::cout << x;                         // f32 [4 x 3] as dp Shard<0>, tp Replicate; rank 5 has [2 x 3] from [2, 0]:
///                                         // and the elements, if there are few
/// std::cout << model;                     // a line for each parameter: its name, type, shape and layout
/// std::cout << block_table(x);            // which ranks have which block, in rows and columns of indices
/// ```
/// `full_tensor` gathers the whole tensor.

#include <ostream>

#include <shardwise/inspect/names.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/module/parameters.hpp>

namespace shardwise {

namespace detail {

/// "dp 2 x tp 4": names with their numbers.
template <class MeshType>
std::string axes_text(const MeshSizes& numbers, const char* between) {
  std::string text;
  for (int axis = 0; axis < MeshType::axes; ++axis) {
    text += std::string(axis > 0 ? between : "") + MeshType::AxesOf::names[static_cast<std::size_t>(axis)];
    text += " " + std::to_string(numbers[axis]);
  }
  return text;
}

/// "f32 [4 x 3] as dp Shard<0>, tp Replicate"
template <TensorType X>
std::string tensor_text(const Shape<X::rank>& shape) {
  std::string all = text({name_of(data_type_of<typename X::Element>()), " ", shape, " as "});
  for (int axis = 0; axis < X::MeshOf::axes; ++axis) {
    all += std::string(axis > 0 ? ", " : "") + X::MeshOf::AxesOf::names[static_cast<std::size_t>(axis)] +
           " " + text_of(X::layout[axis]);
  }
  return all;
}

/// "[2 x 3] from [2, 0]"
template <int Rank>
std::string block_text(const Box<Rank>& box) {
  return box.elements() == 0 ? "nothing" : text({box.size, " from ", position(box.size, 0, box.begin)});
}

template <TensorType X>
std::ostream& print(std::ostream& out, const X& x, bool has_value) {
  constexpr Index few = 1000;
  if (!x) return out << "an empty tensor";
  out << tensor_text<X>(x.shape()) << "; rank " << MeshView(x.mesh()).rank_in_job() << " has "
      << block_text(x.box());
  const Index count = x.box().elements();
  if (!has_value || x.mesh().dry() || count == 0 || count > few) return out;
  if constexpr (numbers_in(data_type_of<typename X::Element>()) > 1) {
    return out;
  } else if constexpr (has_partial(X::layout)) {
    return out << ", a term of each:\n" << x.local_term();
  } else {
    return out << ":\n" << x.local();
  }
}

/// A row for each range of the first dimensions, a column for each range of the last one; the cells are ranks of the
/// tensor's mesh.
std::string block_grid(const AnyTensor& x);

/// The stored tensor of a parameter, even if it has no value yet.
template <class P>
typename P::Stored stored_in(const P& parameter) {
  return parameter.cell()->stored.template as<typename P::Stored>(parameter.mesh());
}

}  // namespace detail

inline std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << detail::text_of(layout);
}

template <MeshAxis... Axes>
std::ostream& operator<<(std::ostream& out, const Mesh<Axes...>& mesh) {
  return out << (mesh.dry() ? "dry Mesh " : "Mesh ") << detail::axes_text<Mesh<Axes...>>(mesh.sizes(), " x ")
             << ", rank " << MeshView(mesh).rank_in_job() << " ("
             << detail::axes_text<Mesh<Axes...>>(mesh.coordinates(), ", ") << ")";
}

/// A tensor; the value of a `Var`; a parameter's stored tensor.
template <TensorOperand X>
std::ostream& operator<<(std::ostream& out, const X& x) {
  if constexpr (is_parameter<X>) {
    return detail::print(out, detail::stored_in(x), x.cell()->set);
  } else {
    return detail::print(out, value_of(x), true);
  }
}

/// The tensor's layout, and which ranks have which block: a row for each range of the first dimensions, a column for
/// each range of the last one. "0, 2": each of these ranks has the block; "0 + 2": each has a term of it ("0 max 2": of
/// a maximum). The mesh may be dry.
/// ```
/// f32 [13 x 20] as dp Shard<0>, tp Partial<Sum>
///       0-19
/// 0-6   0 + 1
/// 7-12  2 + 3
/// ```
template <TensorType X>
std::string block_table(const X& x) {
  return detail::tensor_text<X>(x.shape()) + "\n" + detail::block_grid(detail::AnyTensor(x));
}
/// The same of a type of tensors, on a mesh of these sizes: `block_table<X>({2, 4}, {13, 20})`.
template <TensorType X>
std::string block_table(const typename X::MeshOf::SizesOf& sizes, const Shape<X::rank>& shape) {
  Recorder counts;
  return block_table(X(typename X::MeshOf(counts, sizes), shape));
}

/// The same of a model's parameters as they are stored, each after its name, with empty lines between them. Parameters
/// of different layers that have one layout are one.
template <class M>
std::string block_tables(M& model) {
  std::string all;
  for_each_named_parameter(model, [&](std::string_view name, auto& parameter) {
    const std::string table =
        detail::without_numbers(name) + ": " + block_table(detail::stored_in(parameter)) + "\n";
    if (all.find("\n" + table) == std::string::npos && !all.starts_with(table)) all += table;
  });
  return all;
}

/// The parameters, and their total number of elements.
template <class M>
requires std::derived_from<M, Module<M>> std::ostream& operator<<(std::ostream& out, const M& model) {
  auto& parameters = const_cast<M&>(model);  // `visit` may also change parameters
  for_each_named_parameter(parameters, [&](std::string_view name, auto& parameter) {
    const auto stored = detail::stored_in(parameter);
    out << name << ": " << detail::tensor_text<std::remove_cvref_t<decltype(stored)>>(stored.shape()) << "\n";
  });
  return out << parameter_count(parameters) << " numbers in all";
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE std::string block_grid(const AnyTensor& x) {
  const auto ranges = [](const AnyBox& box, int from, int to) {
    std::string all;
    for (int dim = from; dim < to; ++dim) {
      const auto [begin, size] = box.range(dim);
      all += (dim > from ? " x " : "") + (size == 0 ? "nothing" : std::to_string(begin));
      if (size > 1) all += "-" + std::to_string(begin + size - 1);
    }
    return all;
  };
  std::string between;  // ranks whose blocks are terms
  const AxisSet terms = x.layout.axes_where([&](Placement p) {
    if (p.is_partial())
      between = p.op() == ReduceOp::sum ? " + " : p.op() == ReduceOp::max ? " max " : " min ";
    return p.is_partial();
  });
  const RankGrid& ranks = x.mesh.place().ranks;
  const int last = std::max(x.rank - 1, 0);
  std::vector<std::vector<std::string>> grid{{""}};
  for (int number = 0; number < ranks.size(); ++number) {
    const MeshSizes at = ranks.member(number);
    const std::vector<int> group = ranks.group(terms, at);
    if (ranks.rank(at) != group.front()) continue;
    std::string own;
    for (const int rank : group) own += (own.empty() ? "" : between) + std::to_string(rank);
    const AnyBox box = x.box_at(at);
    const std::string above = ranges(box, last, x.rank), beside = ranges(box, 0, last);
    const auto column = std::find(grid[0].begin() + 1, grid[0].end(), above) - grid[0].begin();
    if (column == std::ssize(grid[0])) grid[0].push_back(above);
    const auto is_beside = [&](const auto& row) { return row[0] == beside; };
    const auto row = std::find_if(grid.begin() + 1, grid.end(), is_beside) - grid.begin();
    if (row == std::ssize(grid)) grid.push_back({beside});
    auto& cells = grid[static_cast<std::size_t>(row)];
    cells.resize(std::max(cells.size(), grid[0].size()));
    std::string& cell = cells[static_cast<std::size_t>(column)];
    cell += (cell.empty() ? "" : ", ") + own;
  }
  std::vector<std::size_t> widths(grid[0].size());
  for (const auto& row : grid) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string all;
  for (const auto& row : grid) {
    for (std::size_t i = 0; i < row.size(); ++i)
      all += i + 1 < row.size() ? row[i] + std::string(widths[i] + 3 - row[i].size(), ' ') : row[i] + "\n";
  }
  return all;
}

}  // namespace shardwise::detail
#endif
