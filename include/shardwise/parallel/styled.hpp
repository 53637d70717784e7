// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From a style to layouts: those of the parameters of a styled module, of its input and of its result.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/parallel/style.hpp>

namespace shardwise {

namespace detail {

/// Calls `f` with the part of the style that names axis `axis` of a mesh, if there is one.
template <class Style>
struct StylePart {
  template <class Axes, class F>
  static constexpr void naming(int axis, F f) {
    if constexpr (LayerStyle<Style>) {
      if (names_axis<Axes>(typename Style::NamedAxes{}, axis)) f(Style{});
    }
  }
};
template <class... Parts>
struct StylePart<Styles<Parts...>> {
  template <class Axes, class F>
  static constexpr void naming(int axis, F f) {
    (StylePart<Parts>::template naming<Axes>(axis, f), ...);
  }
};

/// The layout that a style defines: `answer(part, axis)` for each axis that it names, `otherwise(axis)` for the others.
template <class Style, class MeshType, class Otherwise, class Answer>
constexpr Layout style_layout(Otherwise otherwise, Answer answer) {
  return Layout::by_axis(MeshType::axes, [&](int axis) {
    Placement result = otherwise(axis);
    StylePart<Style>::template naming<typename MeshType::AxesOf>(
        axis, [&](auto part) { result = answer(part, axis); });
    return result;
  });
}

/// The placement of a parameter on an axis that its style does not name.
template <class MeshType>
constexpr Placement unnamed(int axis) {
  return MeshType::AxesOf::data[axis] ? reduced : replicate;
}

/// The sharding levels of parameters along each axis (see `Zero`), without the dimension.
template <class Style, class MeshType>
constexpr Sharding style_levels() {
  Sharding how;
  for (int axis = 0; axis < MeshType::axes; ++axis) {
    StylePart<Style>::template naming<typename MeshType::AxesOf>(axis, [&](auto part) {
      if constexpr (requires { decltype(part)::level; }) {
        how.levels[axis] = decltype(part)::level;
      }
    });
  }
  return how;
}

/// The layout of the weight of a module of this style, if its output features begin at dimension `out` and its
/// input features at `in`.
template <class Style, class MeshType>
constexpr Layout weight_layout(int out, int in) {
  return style_layout<Style, MeshType>(unnamed<MeshType>,
                                       [=](auto part, int) { return part.weight(out, in); });
}
template <class Style, class MeshType>
constexpr Layout bias_layout() {
  return style_layout<Style, MeshType>(unnamed<MeshType>, [](auto part, int) { return part.bias(); });
}
/// The layout that a module of this style needs for its input, whose features begin at dimension `feature`. On data
/// axes parameters are `Reduced`, so the input becomes `Reduced` too, by a free cast.
template <class Style, class MeshType>
constexpr Layout input_layout(const Layout& found, int feature) {
  const auto entering = [&](int axis) {
    return MeshType::AxesOf::data[axis] && found[axis] == replicate ? reduced : found[axis];
  };
  return style_layout<Style, MeshType>(entering,
                                       [&](auto part, int axis) { return part.input(found[axis], feature); });
}
template <class Style, class MeshType>
constexpr Layout output_layout(const Layout& natural) {
  return style_layout<Style, MeshType>([&](int axis) { return natural[axis]; },
                                       [&](auto part, int axis) { return part.output_of(natural[axis]); });
}

/// The element types of messages of a module of this style: a `communicate_as`, or `CommunicateAsStored`.
template <class Style>
struct CommunicationOf : TypeIs<CommunicateAsStored> {
  static constexpr bool says = false;
};
template <class Style>
  requires requires { typename Style::MessagesOf; }
struct CommunicationOf<Style> : TypeIs<typename Style::MessagesOf> {
  static constexpr bool says = true;
};
/// From the first part that sets it; the other parts agree.
template <class First, class... Rest>
struct CommunicationOf<Styles<First, Rest...>> {
  static constexpr bool says = CommunicationOf<First>::says || CommunicationOf<Styles<Rest...>>::says;
  using type = typename std::conditional_t<CommunicationOf<First>::says, CommunicationOf<First>,
                                           CommunicationOf<Styles<Rest...>>>::type;
};

/// The type of an operand `X` in the layout `L`, with the style's element types of messages.
template <class Style, PackedLayout L, class X>
using redistributed_by = typename Communicated<typename RedistributedTo<tensor_of<X>, L>::type,
                                               typename CommunicationOf<Style>::type>::type;

/// The element type of the weight of a module of this style: `T`, unless a part names another (see `Quantized`).
template <class Style, class T>
struct WeightElement : TypeIs<T> {};
template <class Style>
concept stores_weight = requires {
  typename Style::StoresWeightAs;
};
template <class Style, class T>
  requires stores_weight<Style>
struct WeightElement<Style, T> : TypeIs<typename Style::StoresWeightAs> {
};
template <class First, class... Rest, class T>
struct WeightElement<Styles<First, Rest...>, T>
    : WeightElement<First, typename WeightElement<Styles<Rest...>, T>::type> {
  static_assert((... && !(stores_weight<First> && stores_weight<Rest>)), "a style quantises a layer twice");
};
/// The extents of such a weight, from those of its numbers.
template <class Element, int Rank>
constexpr Shape<Rank> weight_extents(const char* module, Shape<Rank> numbers) {
  constexpr Index each = numbers_in(data_type_of<Element>());
  Index& last = numbers[Rank - 1];
  if (last % each != 0)
    fail({module, ": the last of the extents ", numbers, " is not a multiple of the ", each,
          " numbers of a block"});
  last /= each;
  return numbers;
}

/// A group of dimensions of a parameter: input or output features.
struct Features {
  int first = 0, count = 1;
};

/// The dimension to shard on data axes: the first of a group that no axis of `layout` shards, preferably of a
/// single dimension, because that is longer; or -1.
constexpr int dimension_to_cut(const Layout& layout, Features a, Features b) {
  auto cut = [&](Features group) {
    return layout.axes_where([&](Placement p) {
      return p.is_shard() && p.dim() >= group.first && p.dim() < group.first + group.count;
    }) != 0;
  };
  if (cut(a)) return cut(b) ? -1 : b.first;
  if (cut(b)) return a.first;
  if (a.count != b.count) return a.count < b.count ? a.first : b.first;
  return a.first < b.first ? a.first : b.first;
}

/// How a module of this style shards a parameter with the layout `used`, whose dimensions form two groups.
template <class Style, class MeshType>
constexpr Sharding sharding_of(const Layout& used, Features a, Features b, bool frozen = freezes<Style>) {
  const Sharding levels = style_levels<Style, MeshType>();
  const int dim = dimension_to_cut(used, a, b);
  if (dim < 0 || levels.levels == Sharding{}.levels || !levels.nests())
    return {.frozen = frozen};  // invalid nesting; constructors reject it
  return {dim, levels.levels, frozen};
}

/// The parameters of a module with this style: a weight of type `Weight` whose first `Out` dimensions are output
/// features, the others input features; and one with output features alone, such as a bias.
template <class Style, class Weight, int Out>
using StyledWeight = Parameter<Weight, packed(sharding_of<Style, typename Weight::MeshOf>(
                                           Weight::layout, {0, Out}, {Out, Weight::rank - Out}))>;
template <class Style, class Bias>
using StyledBias =
    Parameter<Bias, packed(sharding_of<Style, typename Bias::MeshOf>(Bias::layout, {0, 1}, {0, 1}))>;

/// `x`, whose last `FeatureDims` dimensions are features, in the layout that a module of this style needs.
template <class Style, int FeatureDims, Operand X>
constexpr auto redistribute_input(X&& x) {
  using T = tensor_of<X>;
  if constexpr (IllFormed<T>) {
    return redistribute_to<T>(x);  // an error is passed on
  } else {
    constexpr Layout wanted = input_layout<Style, typename T::MeshOf>(T::layout, T::rank - FeatureDims);
    return redistribute_to<redistributed_by<Style, packed(wanted), X>>(std::forward<X>(x),
                                                                       CommunicationOf<Style>::type::types());
  }
}
/// `y`, the result of a module of this style, in its output layout.
template <class Style, Operand Y>
constexpr auto redistribute_output(Y&& y) {
  using T = tensor_of<Y>;
  if constexpr (IllFormed<T>) {
    return redistribute_to<T>(y);
  } else {
    constexpr Layout wanted = output_layout<Style, typename T::MeshOf>(T::layout);
    return redistribute_to<redistributed_by<Style, packed(wanted), Y>>(std::forward<Y>(y),
                                                                       CommunicationOf<Style>::type::types());
  }
}

}  // namespace detail

/// `x` for modules without a style: `Reduced` instead of `Replicate` on data axes, which is free.
template <Operand X>
constexpr auto reduced_on_data_axes(X&& x) {
  return detail::redistribute_input<NoParallel, 0>(std::forward<X>(x));
}

}  // namespace shardwise
