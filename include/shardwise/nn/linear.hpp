// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Linear`: y = x wᵀ + b, parallel as its style says.
///
/// ```
/// Linear<Mesh, ColwiseParallel<tp>> up(mesh, 1024, 4096);
/// Linear<Mesh, RowwiseParallel<tp>> down(mesh, 4096, 1024);
/// auto y = down(gelu(up(x)));               // one all-reduce forward, one backward
/// ```

#include <shardwise/module/module.hpp>
#include <shardwise/nn/adapter.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/rows_in_pieces.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

/// The weight is [out…, in…], with `OutDims` and `InDims` dimensions. A style shards the first of either: the heads, if
/// features are [heads, head_dim]. If `HasBias` is false, the layer has no b.
template <class MeshType, ParallelStyle Style = NoParallel, class T = float, int OutDims = 1, int InDims = 1,
          bool HasBias = true>
class Linear : public Module<Linear<MeshType, Style, T, OutDims, InDims, HasBias>> {
  struct NoBias {
    constexpr NoBias(const MeshType&, const Shape<OutDims>&, Init) {}
  };
  struct NoAdapter {
    constexpr NoAdapter(const MeshType&, const Shape<InDims>&, const Shape<OutDims>&, const LoraSize&) {}
  };

 public:
  using Element = typename detail::WeightElement<Style, T>::type;
  template <class E>
  using WeightOf =
      tensor_with<E, OutDims + InDims, MeshType, packed(detail::weight_layout<Style, MeshType>(0, OutDims))>;
  using Weight = WeightOf<Element>;
  using Bias = tensor_with<T, OutDims, MeshType, packed(detail::bias_layout<Style, MeshType>())>;
  static_assert(std::is_same_v<Element, T> || std::is_same_v<T, float>, "quantised layers compute in float");
  using WeightParameter = detail::StyledWeight<Style, Weight, OutDims>;
  using BiasParameter = detail::StyledBias<Style, Bias>;
  using Problem = detail::style_problem<MeshType, ModuleKind::linear, Style>;
  static constexpr SumOrder order = detail::sum_order<Style>;
  static constexpr bool is_adapted = !std::is_void_v<typename detail::LowRankIn<Style>::type>;
  static constexpr int pieces = detail::pieces_in<Style>;
  static constexpr bool in_pieces = pieces > 0 && !is_adapted;
  using AdapterOf = std::conditional_t<is_adapted, Adapter<Style, WeightOf<T>, OutDims>, NoAdapter>;

  /// `in` and `out` are the extents of the features: numbers, or {heads, head_dim}. Parameters begin as
  /// PyTorch's do, or as `init` says.
  constexpr Linear(const MeshType& mesh, const Shape<InDims>& in, const Shape<OutDims>& out,
                   Init init) requires WellFormed<Problem> : Linear(mesh, in, out, init, init) {}
  /// The bias begins as `bias_init` says; without one, the layer has no b. `lora` is for a style with an adapter.
  constexpr Linear(const MeshType& mesh, const Shape<InDims>& in, const Shape<OutDims>& out, Init init,
                   std::optional<Init> bias_init, const LoraSize& lora = {}) requires WellFormed<Problem>
      : weight(mesh, detail::weight_extents<Element>("Linear", joined(out, in)), init),
        bias(mesh, bias_init ? out : Shape<OutDims>{}, bias_init.value_or(init)),
        adapter(mesh, in, out, lora),
        has_bias_(HasBias&& bias_init) {}
  /// Weight and bias begin as in PyTorch: uniform, with the bound 1/√(input features).
  constexpr Linear(const MeshType& mesh, const Shape<InDims>& in,
                   const Shape<OutDims>& out) requires WellFormed<Problem>
      : Linear(mesh, in, out, Init::fan_in(elements(in))) {}
  constexpr Linear(const MeshType& mesh, Index in,
                   Index out) requires(InDims == 1 && OutDims == 1 && WellFormed<Problem>)
      : Linear(mesh, Shape<1>{in}, Shape<1>{out}) {}

  /// x: [r…, in…]; the result is [r…, out…].
  template <Operand X>
  constexpr auto forward(const X& x) const {
    if constexpr (in_pieces && !is_abstract<X>) {
      return take_and_forward(x).second;
    } else {
      const auto in = take(x);
      if constexpr (is_adapted) {
        return detail::redistribute_output<Style>(add(product(in), adapter(in)));
      } else {
        return detail::redistribute_output<Style>(product(in));
      }
    }
  }
  /// With `InPieces`: `take(x)` and `forward(x)`; between hosts, one of their messages travels in pieces.
  template <Operand X>
    requires(in_pieces && !is_abstract<X>)
  constexpr auto take_and_forward(const X& x) const {
    constexpr detail::Communication as = Communication::types();
    using In = tensor_of<decltype(take(x))>;
    const detail::AnyTensor found(value_of(x));
    if (const auto step = detail::step_between_hosts(found, In::layout)) {
      detail::TransferInPieces arriving(found, *step, as.forward_of(found.type), false, InDims, pieces);
      const auto in =
          detail::redistributed_on_tape(arriving.result().template as<In>(value_of(x).mesh()), x, as);
      return std::pair(in, detail::redistribute_output<Style>(product(in, [&](const auto&... of) {
                         return detail::apply_to_arriving<InDims, OutDims>(arriving, product_of(of...),
                                                                           of...);
                       })));
    }
    const auto in = take(x);
    using Product = tensor_of<decltype(product(in))>;
    using Result = tensor_of<decltype(detail::redistribute_output<Style>(product(in)))>;
    // The bias of a quantised layer is added to the whole product.
    if constexpr (!std::is_same_v<Product, Result> && (std::is_same_v<Element, T> || !HasBias)) {
      const detail::AnyTensor like(MeshView(value_of(in).mesh()), found.type, Product::layout,
                                   Shape<Product::rank>{}, Buffer());
      if (const auto step = detail::step_between_hosts(like, Result::layout)) {
        return std::pair(in, product(in, [&](const auto&... of) {
                           return detail::apply_and_send<Result, InDims, OutDims>(*step, as, pieces,
                                                                                  product_of(of...), of...);
                         }));
      }
    }
    return std::pair(in, detail::redistribute_output<Style>(product(in)));
  }
  /// The element types of messages for the input and the result, from the style.
  using Communication = typename detail::CommunicationOf<Style>::type;

  /// `x` in the layout that this layer expects. Layers of one style can share it, so their gradients are added before
  /// they are communicated.
  static constexpr auto take(const Operand auto& x) { return detail::redistribute_input<Style, InDims>(x); }
  /// The result of a layer of this type without bias whose weight is `other`: a table that is also a head.
  static constexpr auto multiply(const Operand auto& x, const WeightParameter& other) {
    static_assert(!is_adapted, "a layer whose weight is another module's has no adapter");
    return detail::redistribute_output<Style>(linear<InDims, order>(take(x), other));
  }

  constexpr void visit(auto&& f) {
    f("weight", weight);
    if constexpr (HasBias) {
      if (has_bias_) f("bias", bias);
    }
    if constexpr (is_adapted) adapter.visit(f);
  }

  WeightParameter weight;
  [[no_unique_address]] std::conditional_t<HasBias, BiasParameter, NoBias> bias;
  [[no_unique_address]] AdapterOf adapter;

  // Refused: a style that does not suit, a missing mesh or extent, another mesh, and a weight in another layout.
  template <IllFormed Why = Problem>
  Linear(const MeshType&, const auto&, const auto&, Init = {}) = delete;  // see Why
  template <std::same_as<bool> HasNoBias,
            IllFormed Why = WrittenOtherwise<Hint::write_false_as_the_template_argument_HasBias>>
  Linear(const MeshType&, Index, Index, HasNoBias) = delete;  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::pass_the_mesh_first>>
  Linear(Index, Index) = delete;                  // see Why
  explicit Linear(const MeshType&) = delete;      // pass two extents: input features and output features
  Linear(const MeshType&, const auto&) = delete;  // pass two extents: input features and output features
  template <class Other, IllFormed Why = layout_error<Reason::operands_are_on_different_meshes,
                                                      Expected<MeshType>, Got<Other>>>
    requires(!std::is_same_v<Other, MeshType> && requires { typename Other::AxesOf; })
  Linear(const Other&, const auto&, const auto&, Init = {})
  = delete;  // see Why
  template <
      Operand X, class Other,
      IllFormed Why = std::conditional_t<
          TensorType<Other>, WrittenOtherwise<Hint::pass_the_parameter_itself>,
          layout_error<Reason::tied_weights_have_different_layouts, Expected<WeightParameter>, Got<Other>>>,
      class Result = std::conditional_t<AbstractOperand<X>, detail::abstract_result<Why, X>, Why>>
  static Result multiply(const X&, const Other&);  // see Why

 private:
  /// The operation of `linear` on such operands.
  template <class X, class W, class... B>
  static constexpr auto product_of(const X&, const W&, const B&...) {
    if constexpr (sizeof...(B) == 0) {
      return detail::op_for<detail::linear_op<InDims, order>, W>{};
    } else {
      return detail::linear_bias_op<InDims, order>{};
    }
  }
  struct Whole {
    constexpr auto operator()(const auto&... of) const { return linear<InDims, order>(of...); }
  };
  /// `multiply`: as `linear`.
  template <Operand X, class Multiply = Whole>
  constexpr auto product(const X& in, const Multiply& multiply = {}) const {
    using Product = tensor_of<
        result_of<detail::op_for<detail::linear_op<InDims, order>, WeightParameter>, X, WeightParameter>>;
    if constexpr (HasBias && WellFormed<Product>) {
      // The bias gets the layout of the product, so a pending product gets it once.
      constexpr Layout layout = Layout::by_axis(MeshType::axes, [](int axis) {
        return Product::layout[axis].is_partial() ? partial_sum : Bias::layout[axis];
      });
      const auto with_bias = [&] {
        const auto b = redistribute_to<with_layout<Bias, packed(layout)>>(alongside(bias, in));
        if constexpr (std::is_same_v<Element, T>) {
          return multiply(in, weight, b);
        } else {
          return add(multiply(in, weight), b);
        }
      };
      if constexpr (std::is_same_v<decltype(with_bias()), decltype(multiply(in, weight))>) {
        if (!has_bias_) return multiply(in, weight);
      }
      return with_bias();
    } else {
      return multiply(in, weight);
    }
  }

  bool has_bias_;
};

template <class MeshType, ParallelStyle First, ParallelStyle Second, int OutDims, int InDims, bool HasBias>
class Linear<MeshType, First, Second, OutDims, InDims, HasBias> {
 public:
  Linear(const auto&...) = delete;  // combine several styles: Styles<First, Second>
};

/// A style instead of the mesh, or an element type that no tensor has.
template <class MeshType, ParallelStyle Style, class T, int OutDims, int InDims, bool HasBias>
  requires(!ParallelStyle<T> && (!Communicable<T> || !requires { typename MeshType::AxesOf; }))
class Linear<MeshType, Style, T, OutDims, InDims, HasBias> {
 public:
  template <IllFormed Why = std::conditional_t<Communicable<T>, WrittenOtherwise<Hint::pass_the_mesh_first>,
                                               layout_error<Reason::unsupported_element_type, Got<T>>>>
  Linear(const auto&...) = delete;  // see Why
};
template <MeshAxis... Axes>
class Mesh;
/// Leads `Linear(4, 4)` to the error.
Linear(int, int)->Linear<Mesh<tp>>;

}  // namespace shardwise
