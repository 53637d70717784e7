// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The modules of a Llama that a plan can name, and the usual plans. Collectives per training step, on the axes that
/// are split:
///   - `LlamaTensorParallel`: 2 all-reduces per layer in each pass; 1 all-reduce forward for the embedding, 1 backward
///     for the head.
///   - `LlamaSequenceParallel`: 2 all-gathers and 2 reduce-scatters per layer in each pass; for the embedding 1
///     reduce-scatter forward and 1 all-gather backward; for the head the reverse.
///   - `LlamaColwiseParallel`: per layer 4 all-gathers forward, 2 reduce-scatters and 2 all-reduces backward; the rest
///     as for `LlamaTensorParallel`.
///
/// A plan need not name "layers.*.experts"; a model with experts, whose plan does not, throws when it is constructed.
///
/// Logits have a sharded vocabulary, as `CrossEntropyLoss` takes them. A rank has whole heads; if they do not divide
/// evenly, the first ranks have one more. With more ranks than divide the key/value heads, use a second axis,
/// `Mesh<tp, kvr>`, along which key and value heads are the same on all ranks and their weights' gradients are reduced:
/// `LlamaTensorParallel<AxisList<tp, kvr>>`.

#include <shardwise/llm/decoding/quantized_style.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/parallel/context_parallel.hpp>
#include <shardwise/parallel/lora.hpp>
#include <shardwise/parallel/same_bits.hpp>

namespace shardwise::llm {

/// The modules of a `Llama`, as plans name them.
inline constexpr std::array llama_modules{
    ModuleName{"tokens", ModuleKind::embedding},
    ModuleName{"layers.*", ModuleKind::composite, true},
    ModuleName{"layers.*.attention_norm", ModuleKind::norm},
    ModuleName{"layers.*.attention", ModuleKind::composite},
    ModuleName{"layers.*.attention.wq", ModuleKind::linear},
    ModuleName{"layers.*.attention.wk", ModuleKind::linear},
    ModuleName{"layers.*.attention.wv", ModuleKind::linear},
    ModuleName{"layers.*.attention.inner_attention", ModuleKind::inner_attention},
    ModuleName{"layers.*.attention.wo", ModuleKind::linear},
    ModuleName{"layers.*.mlp_norm", ModuleKind::norm},
    ModuleName{"layers.*.mlp", ModuleKind::composite},
    ModuleName{"layers.*.mlp.gate", ModuleKind::linear},
    ModuleName{"layers.*.mlp.up", ModuleKind::linear},
    ModuleName{"layers.*.mlp.down", ModuleKind::linear},
    ModuleName{"layers.*.experts", ModuleKind::experts},
    ModuleName{"norm", ModuleKind::norm},
    ModuleName{"head", ModuleKind::linear},
};

namespace detail {

template <class Axes, class... As>
struct KeyValueStyle : TypeIs<ColwiseParallel<Axes, As...>> {};
template <MeshAxis First, MeshAxis... Rest, class... As>
  requires(sizeof...(Rest) > 0)
struct KeyValueStyle<AxisList<First, Rest...>, As...>
    : TypeIs<Styles<ColwiseParallel<First, As...>, CopyParallel<AxisList<Rest...>, As...>>> {};

/// A plan with adapters in the layers that `Where` names; all else is frozen.
template <class PlanType, int Rank, int Alpha, FixedString Where>
struct AdaptedPlan
    : TypeIs<PlanWith<PlanWith<PlanType, LowRank<Rank, Alpha>, dotted(Where, FixedString("attention.w*")),
                               dotted(Where, FixedString("mlp.*"))>,
                      Frozen>> {};
template <class PlanType, class Other, FixedString... Within, int Rank, int Alpha, FixedString Where>
struct AdaptedPlan<PlanWith<PlanType, Other, Within...>, Rank, Alpha, Where>
    : TypeIs<PlanWith<typename AdaptedPlan<PlanType, Rank, Alpha, Where>::type, Other, Within...>> {};

}  // namespace detail

/// The style of the projections to keys and values if the rest is split over `Axes`: key and value heads are split
/// over the first axis, and the same on all ranks of the others. `As`: nothing, or a `communicate_as`.
template <StyleAxes Axes, CommunicationOption... As>
using KeyValueParallel = typename detail::KeyValueStyle<Axes, As...>::type;

/// A plan with these styles for norms, for layers whose result is split (`Colwise`), for the table of tokens, whose
/// result is summed over ranks (`Rowwise`), and for the layers before a residual connection.
template <class KeyValue, class Norm, class Colwise, class Rowwise, class BeforeResidual = Rowwise>
using LlamaPlan = Plan<Use<"tokens", Rowwise>,                        //
                       Use<"layers.*.attention_norm", Norm>,          //
                       Use<"layers.*.attention.wq", Colwise>,         //
                       Use<"layers.*.attention.wk", KeyValue>,        //
                       Use<"layers.*.attention.wv", KeyValue>,        //
                       Use<"layers.*.attention.wo", BeforeResidual>,  //
                       Use<"layers.*.mlp_norm", Norm>,                //
                       Use<"layers.*.mlp.gate", Colwise>,             //
                       Use<"layers.*.mlp.up", Colwise>,               //
                       Use<"layers.*.mlp.down", BeforeResidual>,      //
                       Use<"norm", Norm>,                             //
                       Use<"head", Colwise>>;

/// Tensor parallelism over `Axes`; a `communicate_as` must be the same in `KeyValue`.
template <StyleAxes Axes = tp, class KeyValue = KeyValueParallel<Axes>, CommunicationOption... As>
using LlamaTensorParallel =
    LlamaPlan<KeyValue, NoParallel, ColwiseParallel<Axes, As...>, RowwiseParallel<Axes, As...>>;

/// The same, with the sequence sharded between the parallel layers.
template <StyleAxes Axes = tp, class KeyValue = KeyValueParallel<Axes>, CommunicationOption... As>
using LlamaSequenceParallel =
    LlamaPlan<KeyValue, SequenceParallel<Axes, 1, As...>, ColwiseParallel<Axes, As...>,
              RowwiseParallel<Axes, output<Shard<1>>, As...>>;

/// The same as `LlamaTensorParallel`, but each rank computes some features of every layer's result from all of its
/// input. No product is a sum over ranks. So with `LlamaQuantized`, or with the style `SameBits`, the logits' bits do
/// not depend on the number of ranks, except for experts. Else they do, because a product's order of sums depends on
/// its size.
template <StyleAxes Axes = tp, class KeyValue = KeyValueParallel<Axes>, CommunicationOption... As>
using LlamaColwiseParallel =
    LlamaPlan<KeyValue, NoParallel, ColwiseParallel<Axes, As...>, RowwiseParallel<Axes, As...>,
              ColwiseParallel<Axes, output<Replicate>, As...>>;

/// A plan such as those above, with an adapter for each of the seven linear layers of a layer; everything else is
/// frozen. `Where`: the layers with adapters, such as "layers.[-4:]".
template <class PlanType, int Rank, int Alpha = Rank, FixedString Where = "layers.*">
using LlamaAdapted = typename detail::AdaptedPlan<PlanType, Rank, Alpha, Where>::type;

/// A plan such as those above, in which the table of tokens, the linear layers and the head are stored in blocks
/// whose numbers have 16, 8 or 4 bits, `Block16`, `Block8` or `Block4`, and frozen: for generating text (see
/// llm/decoding/quantized.hpp).
template <class PlanType, class Block>
using LlamaQuantized =
    PlanWith<PlanType, Quantized<Block>, "tokens", "layers.*.attention.w*", "layers.*.mlp.*", "head">;

/// A plan such as those above, for a model whose layers have experts (see nn/mixture_of_experts.hpp). They are
/// split over `Axes`, which may include data axes: a rank there has other samples, and other experts. Per
/// layer and pass, an all-gather and a reduce-scatter along data axes; or all-to-alls, with the option `by_counts`.
template <class PlanType, StyleAxes Axes = ep, ExpertOption... As>
using LlamaExpertParallel = PlanAnd<PlanType, Use<"layers.*.experts", ExpertParallel<Axes, As...>>>;

/// Whether the logits of a Llama with this plan have the same bits in training, scoring, prompts and decoding, in any
/// batch and on any mesh: `PlanWith<LlamaColwiseParallel<>, SameBits>`.
template <class PlanType>
inline constexpr bool same_bits = same_bits_of<PlanType, llama_modules>;

/// The number of `ranks` tensor-parallel ranks that can split the key/value heads: the size of `tp`. The size of
/// `kvr` is `ranks` divided by it.
constexpr int key_value_ranks(int ranks, Index kv_heads) {
  return static_cast<int>(std::gcd(static_cast<Index>(ranks), kv_heads));
}

}  // namespace shardwise::llm
