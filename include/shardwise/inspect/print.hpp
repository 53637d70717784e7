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
/// std::cout << block_table(x);            // a line for each rank: dp 1, tp 0: [2 x 3] from [2, 0]
/// ```
/// `full_tensor` gathers the whole tensor.

#include <ostream>

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

/// The tensor's layout, and a line for each place in its mesh, with the block there. The mesh may be dry.
template <TensorType X>
std::string block_table(const X& x) {
  using MeshType = typename X::MeshOf;
  std::string table = detail::tensor_text<X>(x.shape()) + "\n";
  MeshSizes at{};
  for (int rank = 0, count = x.mesh().size(); rank < count; ++rank) {
    for (int axis = MeshType::axes, rest = rank; axis-- > 0; rest /= x.mesh().sizes()[axis])
      at.values[axis] = rest % x.mesh().sizes()[axis];
    table += detail::axes_text<MeshType>(at, ", ") + ": " +
             detail::block_text(local_box(x.shape(), X::layout, x.mesh().sizes(), at)) + "\n";
  }
  return table;
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
