// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Parallel styles: the layouts of a module's input, parameters and output along the axes that the style names. The
/// layout of the actual input is known from its type, so the module inserts the `redistribute` that is needed, if any.
///
/// ```
/// Linear<Mesh, ColwiseParallel<tp>> up(mesh, 1024, 4096);
/// Linear<Mesh, RowwiseParallel<tp, output<Shard<1>>>> down(mesh, 4096, 1024);   // reduce-scatter, not all-reduce
/// ```
/// | style                   | for               | input                | weight       | output                   |
/// |-------------------------|-------------------|----------------------|--------------|--------------------------|
/// | `ColwiseParallel<Axes>` | Linear, Embedding | `Reduced`            | `Shard<out>` | `Shard` (features)       |
/// | `RowwiseParallel<Axes>` | Linear, Embedding | `Shard` (features)   | `Shard<in>`  | `Replicate` (all-reduce) |
/// | `SequenceParallel<Axes>`| norms, Dropout,   | `Shard<1>`           | `Reduced`    | `Shard<1>`               |
/// |                         | Embedding         |                      |              |                          |
/// | `CopyParallel<Axes>`    | all               | `Reduced`            | `Reduced`    | `Reduced`                |
/// | `NoParallel`            | all               | unchanged            | all the same | unchanged                |
///
/// `ExpertParallel<Axes>` and `ExpertTensorParallel<Axes>` are for experts: see nn/mixture_of_experts.hpp. An embedding
/// takes tokens in any layout; its `Shard<out>` are columns of the table, its `Shard<in>` rows. Only `SequenceParallel`
/// also shards the tokens. `output<…>` chooses another output: `ColwiseParallel<tp, output<Replicate>>` gathers it.
/// `communicate_as<…>`, as an additional or the only option, sets the element types of messages for input and output.
/// `ColwiseParallel<AxisList<tp, kvr>>` splits over both axes; `Styles<ColwiseParallel<tp>, CopyParallel<kvr>>` has a
/// style for each. On axes that a style does not name, parameters are `Replicate`; on data axes, where ranks work on
/// different samples, `Reduced`.

#include <shardwise/parallel/style_options.hpp>
#include <shardwise/tensor/exchange.hpp>

namespace shardwise {

/// Splits the output features (Megatron-LM's column-parallel layer): each rank computes some of them.
template <StyleAxes Axes = detail::no_axis_in_angle_brackets, StyleOption... Options>
struct ColwiseParallel : detail::StyleFor<Axes, detail::NaturalOutput, Options...> {
  static constexpr bool suits(ModuleKind kind) { return detail::multiplies(kind); }
  static constexpr Placement input(Placement, int) { return reduced; }
  static constexpr Placement weight(int out, int) { return shard(out); }
  static constexpr Placement bias() { return shard(0); }
};

/// Splits the input features (Megatron-LM's row-parallel layer): each rank computes a term of every output.
template <StyleAxes Axes = detail::no_axis_in_angle_brackets, StyleOption... Options>
struct RowwiseParallel : detail::StyleFor<Axes, output<Replicate>, Options...> {
  static constexpr bool suits(ModuleKind kind) { return detail::multiplies(kind); }
  static constexpr Placement input(Placement, int feature) { return shard(feature); }
  static constexpr Placement weight(int, int in) { return shard(in); }
  static constexpr Placement bias() { return replicate; }
};

/// Splits the sequence, dimension `Dim` of the input: each rank works on its own tokens (Korthikanti et al.,
/// "Reducing activation recomputation in large transformer models", 2022).
template <StyleAxes Axes = detail::no_axis_in_angle_brackets, int Dim = 1, CommunicationOption... Option>
struct SequenceParallel : detail::StyleFor<Axes, detail::NaturalOutput, Option...> {
  static constexpr bool suits(ModuleKind kind) {
    return kind == ModuleKind::norm || kind == ModuleKind::dropout || kind == ModuleKind::embedding;
  }
  static constexpr Placement input(Placement, int) { return shard(Dim); }
  static constexpr Placement weight(int, int) { return reduced; }
  static constexpr Placement bias() { return reduced; }
};

/// Every rank computes everything and uses the result differently: for key and value heads that several ranks share.
template <StyleAxes Axes = detail::no_axis_in_angle_brackets, CommunicationOption... Option>
struct CopyParallel : detail::StyleFor<Axes, detail::NaturalOutput, Option...> {
  static constexpr bool suits(ModuleKind kind) { return detail::is_layer(kind); }
  static constexpr Placement input(Placement, int) { return reduced; }
  static constexpr Placement weight(int, int) { return reduced; }
  static constexpr Placement bias() { return reduced; }
};

/// Every rank computes everything.
struct NoParallel {
  static constexpr bool suits(ModuleKind kind) { return detail::is_layer(kind); }
};

/// An additional style: parameters are not trained. No gradients are computed or reduced, and no state is kept.
/// ```
/// Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, Frozen>> up(mesh, 1024, 4096);
/// using Given = PlanWith<LlamaTensorParallel<>, Frozen>;   // all of a model
/// ```
struct Frozen {
  static constexpr bool suits(ModuleKind kind) { return detail::is_layer(kind); }
};

/// An additional style: each number of the module's result has the same bits whatever else is in the batch, and on any
/// mesh, because products add up numbers in one order (kernel/row_product.hpp). So training, scoring, prompts and
/// decoding agree. A layer whose product is a sum over ranks, or whose messages are rounded, is refused.
/// ```
/// using Same = PlanWith<LlamaColwiseParallel<>, SameBits>;
/// static_assert(llm::same_bits<Same>);
/// ```
struct SameBits {
  static constexpr bool suits(ModuleKind kind) {
    return detail::is_layer(kind) && kind != ModuleKind::experts;
  }
};

/// An additional style: between hosts, the input of a linear layer, or else its result, travels in up to `Pieces`
/// pieces of at least 256 KiB, while the product of others is computed (ops/rows_in_pieces.hpp). Results are the same,
/// except that an all-reduce adds three or more terms in another order. Within a host, for layers with an adapter, and
/// for modules other than `Linear`, nothing changes.
/// ```
/// using Overlapping = PlanWith<LlamaSequenceParallel<>, InPieces<4>>;
/// ```
template <int Pieces>
struct InPieces {
  static constexpr bool suits(ModuleKind kind) { return detail::is_layer(kind); }
  static constexpr int pieces = Pieces;
  static constexpr Hint misused =
      Pieces >= 2 && Pieces <= detail::most_pieces ? Hint::none : Hint::name_two_to_eight_pieces;
};

/// `S` states which modules it suits.
template <class S>
concept ParallelStyle = requires {
  { S::suits(ModuleKind::linear) } -> std::convertible_to<bool>;
};

namespace detail {
/// Whether `Part` suits modules of this kind; so does a type that is not a style, which `style_problem` refuses.
template <class Part>
constexpr bool suits(ModuleKind kind) {
  if constexpr (ParallelStyle<Part>) return Part::suits(kind);
  return true;
}
}  // namespace detail

/// Several styles for different axes. Around a composite module they apply from the inside out. For a layer, the
/// styles that communicate must use the same element types, because one collective may span several of their axes.
template <class... Parts>
struct Styles {
  static constexpr bool suits(ModuleKind kind) { return (detail::suits<Parts>(kind) && ...); }
};

/// `S` defines the layouts of a layer's parameters and results along the axes that it names.
template <class S>
concept LayerStyle = ParallelStyle<S> && requires(S style, Placement found) {
  typename S::NamedAxes;
  { style.input(found, 0) } -> std::convertible_to<Placement>;
  { style.weight(0, 1) } -> std::convertible_to<Placement>;
  { style.bias() } -> std::convertible_to<Placement>;
  { style.output_of(found) } -> std::convertible_to<Placement>;
};

namespace detail {
template <class Style>
inline constexpr bool freezes = false;
template <>
inline constexpr bool freezes<Frozen> = true;
template <class... Parts>
inline constexpr bool freezes<Styles<Parts...>> = (freezes<Parts> || ...);

/// Whether a style has `SameBits`.
template <class Style>
inline constexpr bool gives_same_bits = std::is_same_v<Style, SameBits>;
template <class... Parts>
inline constexpr bool gives_same_bits<Styles<Parts...>> = (gives_same_bits<Parts> || ...);

/// The number of pieces of `InPieces`, or 0.
template <class Style>
inline constexpr int pieces_in = 0;
template <int Pieces>
inline constexpr int pieces_in<InPieces<Pieces>> = Pieces;
template <class... Parts>
inline constexpr int pieces_in<Styles<Parts...>> = (0 + ... + pieces_in<Parts>);

/// A style with some but not all members of a `LayerStyle`, which would be ignored.
template <class S>
inline constexpr bool is_incomplete =
    !LayerStyle<S> &&
    (
        requires { typename S::NamedAxes; } || requires { &S::weight; } || requires { &S::bias; });
}  // namespace detail

}  // namespace shardwise
