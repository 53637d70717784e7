// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Plans: which entry names which module, what is at fault with a plan, and what training a Llama communicates,
/// counted by the compiler.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>

namespace shardwise {
namespace {

// ---- Names -------------------------------------------------------------------------------------------------------
using detail::edit_distance, detail::names_module;

static_assert(names_module("head", "head"));
static_assert(!names_module("head", "heads"));
static_assert(!names_module("head", "layers.*.head"));
static_assert(names_module("layers.*.attention.wq", "layers.*.attention.wq"));
static_assert(names_module("*.*.attention.*", "layers.*.attention.wq"));
static_assert(!names_module("layers.*", "layers.*.attention"));  // one part, not several
static_assert(!names_module("layers.*.attention", "layers.*"));
static_assert(names_module("*", "norm") && names_module("n*", "norm") && names_module("*o*m", "norm"));
static_assert(!names_module("*o", "norm") && !names_module("n*r", "norm") && !names_module("norm*s", "norm"));
static_assert(names_module("layers.*.attention.w*", "layers.*.attention.wq"));
static_assert(!names_module("l*q", "layers.*.attention.wq"));                    // letters of one part
static_assert(!names_module("layers.3.attention.wq", "layers.*.attention.wq"));  // not all layers
static_assert(names_module("layers.*.attention.wq", "layers.3.attention.wq"));
static_assert(!names_module("", "norm") && !names_module("norm.", "norm"));
static_assert(names_module("layers.[:4].attention.w*", "layers.*.attention.wq"));
static_assert(names_module("*.[2:-1]", "layers.*") && !names_module("[:4]", "norm"));
static_assert(!names_module("layers.[:4]", "layers.*.norm"));

// ---- Slices ------------------------------------------------------------------------------------------------------
using detail::Slice, detail::slice_in;
constexpr bool is_slice(std::string_view name, int first, int last) {
  const Slice slice = slice_in(name);
  return slice.first == first && slice.last == last;
}
static_assert(is_slice("layers.[:4].mlp.up", 0, 4) && is_slice("layers.[2:9]", 2, 9));
static_assert(is_slice("layers.[-4:]", Slice::end - 4, Slice::end) && is_slice("[:]", 0, Slice::end));
static_assert(is_slice("layers.[:n]", 0, Slice::n) &&
              is_slice("[-n:-1]", Slice::end - Slice::n, Slice::end - 1));
static_assert(slice_in("layers.[:65535]").given() && slice_in("layers.[n:-n]").given());
constexpr bool is_none(auto... names) { return (!slice_in(names).given() && ...); }
static_assert(is_none("layers.*", "layers.[4]", "layers.[4:4]", "layers.[4:2]", "layers.[-1:-2]",
                      "layers.[:0]"));
static_assert(is_none("layers.[:a]", "layers.[: 4]", "layers.[--1:]", "layers.[-:]", "layers.[:4",
                      "layers.]:4["));
static_assert(is_none("layers.[:9999999999]", "layers.[-0:]", "layers.[1:2:3]"));

static_assert(edit_distance("wq", "wq") == 0);
static_assert(edit_distance("wq", "wk") == 1);
static_assert(edit_distance("kitten", "sitting") == 3);
static_assert(edit_distance("", "norm") == 4 && edit_distance("norm", "") == 4);

// ---- Styles by name ----------------------------------------------------------------------------------------------
using Some = Plan<Use<"encoder.*.mlp.up", ColwiseParallel<tp>>,
                  Use<"encoder.*.mlp.down", RowwiseParallel<tp>>, Use<"*.norm", SequenceParallel<tp>>>;
template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;

static_assert(same<style_of<Some, "encoder.*.mlp.up">, ColwiseParallel<tp>>);
static_assert(same<style_of<Some, "decoder.norm">, SequenceParallel<tp>>);
static_assert(same<style_of<Some, "head">, NoStyle<Some, "head">>);
using Layer = PlanBelow<Some, "encoder.*">;
using Mlp = PlanBelow<Layer, "mlp">;
static_assert(same<style_of<Mlp, "up">, ColwiseParallel<tp>>);
static_assert(same<style_of<Mlp, "down">, RowwiseParallel<tp>>);
static_assert(same<style_of<Mlp, "norm">, NoStyle<Some, "encoder.*.mlp.norm">>);  // which is not "*.norm"
static_assert(same<style_of<PlanBelow<Some, "encoder">, "norm">, SequenceParallel<tp>>);

// Entries may be added before and after what stands beside all of them.
using Sharded = PlanWith<Some, FullyShard<dp>>;
using Ringed =
    PlanAnd<Sharded, Use<"attention", PrepareModuleInput<tp, Reduced>>, Use<"out", RowwiseParallel<tp>>>;
static_assert(same<style_of<Ringed, "out">, Styles<RowwiseParallel<tp>, FullyShard<dp>>>);
static_assert(same<style_of<Ringed, "attention">, PrepareModuleInput<tp, Reduced>>);
static_assert(same<style_of<Ringed, "encoder.*.mlp.up">, style_of<Sharded, "encoder.*.mlp.up">>);

// A slice counts before a `*`, in its elements: from bounds 0, 2, 4 and -1 on.
using Sliced =
    PlanAnd<Sharded, Use<"encoder.[:4].mlp.up", NoParallel>, Use<"encoder.[-1:].*.up", CopyParallel<tp>>>;
template <int At>
using UpFrom = style_of<PlanBelow<PlanWith<Sliced, Frozen, "encoder.[2:4]">, "encoder.*", At>, "mlp.up">;
static_assert(same<UpFrom<0>, FullyShard<dp>>);
static_assert(same<UpFrom<2>, Styles<FullyShard<dp>, Frozen>>);
static_assert(same<UpFrom<4>, style_of<Sharded, "encoder.*.mlp.up">> && same<UpFrom<-1>, UpFrom<4>>);
static_assert(same<UpFrom<Slice::end - 1>, Styles<CopyParallel<tp>, FullyShard<dp>>>);
static_assert(detail::bounds_of(detail::slices_of<Sliced>("encoder.*")).size() == 4 &&
              detail::bounds_of(detail::slices_of<Some>()).size() == 2);
static_assert(same<llm::LlamaAdapted<PlanWith<llm::LlamaTensorParallel<>, FullyShard<dp>>, 8>,
                   PlanWith<llm::LlamaAdapted<llm::LlamaTensorParallel<>, 8>, FullyShard<dp>>>);
static_assert(Ringed::size == Some::size + 2);

// ---- Faults ------------------------------------------------------------------------------------------------------
// A part that names no axis adds nothing.
template <class Style>
using Up = Linear<Mesh<dp, tp>, Style>;
static_assert(
    WellFormed<Up<Styles<ColwiseParallel<tp>, NoParallel>>::Problem> &&
    std::is_same_v<Up<Styles<ColwiseParallel<tp>, NoParallel>>::Weight, Up<ColwiseParallel<tp>>::Weight>);

using detail::plan_fault, detail::PlanFault;

constexpr std::array modules{
    ModuleName{"tokens", ModuleKind::embedding}, ModuleName{"layers.*", ModuleKind::composite},
    ModuleName{"layers.*.mlp", ModuleKind::linear}, ModuleName{"layers.*.dropout", ModuleKind::dropout},
    ModuleName{"head", ModuleKind::linear}};
using Layers = Use<"layers.*.mlp", ColwiseParallel<tp>>;
using Head = Use<"head", ColwiseParallel<tp>>;
using Table = Use<"tokens", RowwiseParallel<tp>>;

constexpr bool operator==(const PlanFault& a, const PlanFault& b) {
  return a.reason == b.reason && a.entry == b.entry && a.other == b.other && a.module == b.module;
}
// Composite modules and dropout, which have no parameters of their own, need no entry.
static_assert(plan_fault(Plan<Table, Layers, Head>{}, modules) == PlanFault{});
static_assert(plan_fault(Plan<Head, Use<"layers.*.*", NoParallel>, Table>{}, modules) == PlanFault{});
static_assert(plan_fault(Plan<Table, Layers>{}, modules) ==
              PlanFault{Reason::plan_leaves_a_module_without_a_style, 0, 0, 4});
static_assert(plan_fault(Plan<Table, Layers, Use<"hat", NoParallel>, Head>{}, modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 2, 0, 4});
static_assert(plan_fault(Plan<Table, Use<"layers.*.dropuot", NoParallel>, Layers, Head>{}, modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 1, 0, 3});
static_assert(plan_fault(Plan<Use<"*", ColwiseParallel<tp>>, Layers, Head>{}, modules) ==
              PlanFault{Reason::plan_names_a_module_twice, 0, 2, 4});
static_assert(plan_fault(Plan<Table, Layers, Use<"head", SequenceParallel<tp>>>{}, modules) ==
              PlanFault{Reason::style_does_not_suit_the_module, 2, 0, 4});
static_assert(plan_fault(Plan<Table, Layers, Head, Use<"layers.*", ColwiseParallel<tp>>>{}, modules) ==
              PlanFault{Reason::style_does_not_suit_the_module, 3, 0, 1});
// The name that is proposed is not one that the plan has, unless all have a style.
static_assert(plan_fault(Plan<Table, Layers, Use<"tokns", NoParallel>>{}, modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 2, 0, 4});
static_assert(plan_fault(Plan<Table, Layers, Head, Use<"tokns", NoParallel>>{}, modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 3, 0, 0});

// Elements of a list are named by slices, not by a number; and only if the model's table says so.
static_assert(plan_fault(Plan<Table, Layers, Head, Use<"layers.3.mlp", NoParallel>>{}, modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 3, 0, 2});
static_assert(plan_fault(Plan<Table, Layers, Head, Use<"layers.[:3].mlp", NoParallel>>{}, modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 3, 0, 2});
constexpr std::array sliced_modules{modules[0], ModuleName{"layers.*", ModuleKind::composite, true},
                                    modules[2], modules[3], modules[4]};
template <FixedString Name, class Style = NoParallel>
using AndSlice = Plan<Table, Layers, Head, Use<Name, Style>>;
static_assert(plan_fault(AndSlice<"layers.[:3].mlp">{}, sliced_modules) == PlanFault{});
static_assert(plan_fault(AndSlice<"layers.[3:2].mlp">{}, sliced_modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 3, 0, 2});
static_assert(plan_fault(AndSlice<"layers.[:3].mpl">{}, sliced_modules) ==
              PlanFault{Reason::plan_names_an_unknown_module, 3, 0, 2});
static_assert(plan_fault(AndSlice<"layers.[:3]", ColwiseParallel<tp>>{}, sliced_modules) ==
              PlanFault{Reason::style_does_not_suit_the_module, 3, 0, 1});
using Twice = PlanAnd<AndSlice<"layers.[2:-1].mlp">, Use<"layers.[-2:].mlp", NoParallel>>;
static_assert(plan_fault(Twice{}, sliced_modules) == PlanFault{Reason::plan_names_a_module_twice, 3, 4, 2});
static_assert(plan_fault(PlanAnd<AndSlice<"layers.[2:-1].mlp">, Use<"layers.[-1:].mlp", NoParallel>>{},
                         sliced_modules) == PlanFault{});
static_assert(plan_fault(Plan<Table, Head, Use<"layers.[:3].mlp", NoParallel>>{}, sliced_modules) ==
              PlanFault{Reason::plan_leaves_a_module_without_a_style, 0, 0, 2});

// ---- A Llama of two layers ---------------------------------------------------------------------------------------
using Grid = Mesh<dp, tp, kvr>;
using Split = AxisList<tp, kvr>;
using Tensors = llm::LlamaTensorParallel<Split>;
using Sequences = llm::LlamaSequenceParallel<Split>;

static_assert(std::is_void_v<plan_problem<Mesh<dp, tp>, llm::LlamaTensorParallel<>, llm::llama_modules>>);
static_assert(std::is_void_v<plan_problem<Mesh<dp, tp>, llm::LlamaSequenceParallel<>, llm::llama_modules>>);
static_assert(std::is_void_v<plan_problem<Grid, Tensors, llm::llama_modules>>);
static_assert(std::is_void_v<plan_problem<Grid, Sequences, llm::llama_modules>>);
static_assert(IllFormed<plan_problem<Mesh<dp>, llm::LlamaTensorParallel<>, llm::llama_modules>>);
static_assert(IllFormed<plan_problem<Mesh<dp, tp>, Tensors, llm::llama_modules>>);  // no kvr
static_assert(IllFormed<plan_problem<Grid, Plan<>, llm::llama_modules>>);

// A style is checked for the modules and layers that get it.
using TwoGathered =
    PlanAnd<llm::LlamaTensorParallel<>, Use<"layers.[:2].mlp.down", ColwiseParallel<tp, output<Replicate>>>>;
template <class PlanType>
inline constexpr bool fits = !IllFormed<plan_problem<Mesh<dp, tp>, PlanType, llm::llama_modules>>;
static_assert(fits<PlanWith<TwoGathered, SameBits, "layers.[:2].mlp.down">>);
static_assert(
    !fits<PlanWith<TwoGathered, SameBits, "layers.[:3].mlp.down">>);  // the third is a sum over ranks
template <FixedString Where>
using AndAdapted =
    PlanWith<llm::LlamaAdapted<llm::LlamaTensorParallel<>, 4, 4, "layers.[:2]">, LowRank<8, 8>, Where>;
static_assert(fits<AndAdapted<"layers.[2:].mlp.up">> && !fits<AndAdapted<"layers.[1:].mlp.up">>);
template <FixedString Where>
using AndSharded =
    PlanWith<PlanWith<llm::LlamaTensorParallel<>, Zero<3, dp>, "layers.[:2]">, Zero<1, dp>, Where>;
static_assert(fits<AndSharded<"layers.[2:]">> && !fits<AndSharded<"layers.[1:]">>);
static_assert(!fits<PlanAnd<llm::LlamaTensorParallel<>, Use<"layers.[1:2].attention", int>>>);

static_assert(llm::key_value_ranks(4, 8) == 4 && llm::key_value_ranks(4, 2) == 2 &&
              llm::key_value_ranks(3, 2) == 1);
static_assert(llm::key_value_ranks(6, 4) == 2 && llm::key_value_ranks(8, 1) == 1 &&
              llm::key_value_ranks(1, 8) == 1);

constexpr Index batch = 4, length = 8, features = 24;
constexpr llm::LlamaConfig config{
    .vocabulary = 40, .features = features, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 36};

template <class PlanType>
constexpr auto training_step(const Grid::SizesOf& sizes, const llm::LlamaConfig& shape, bool clips) {
  return trace<Grid>(sizes, [&](const Grid& mesh) {
    llm::Llama<Grid, PlanType> model(mesh, shape);
    const Tensor<std::int32_t, 2, Grid, Shard<0>, Replicate, Replicate> ids(mesh, {batch, length});
    Tape tape;
    tape.backward(CrossEntropyLoss()(model(tape.constant(ids)), ids));
    if (clips) clip_gradients(model, 1);
    AdamW().step(model);
  });
}

/// Calls of one kind in one phase on just these axes: 1 dp, 2 tp, 4 kvr.
template <class PlanType>
constexpr std::int64_t on(const PlanType& plan, AxisSet axes, Phase phase, Collective kind) {
  return plan.record().traffic[static_cast<std::size_t>(phase)][static_cast<std::size_t>(kind)][axes].calls;
}
constexpr auto all_reduce = Collective::all_reduce, all_gather = Collective::all_gather,
               reduce_scatter = Collective::reduce_scatter;
constexpr auto forward = Phase::forward, backward = Phase::backward, optimizer = Phase::optimizer;
constexpr Index activation = batch * length * features * 4;  ///< in bytes

// Tensor parallel over four ranks: two all-reduces a layer and the embedding's, and the loss's; backward two a
// layer and the head's. Nothing is left for the optimizer, but the norm if gradients are clipped.
constexpr auto tensors = training_step<Tensors>({1, 4, 1}, config, false);
static_assert(on(tensors, 2, forward, all_reduce) == 5 + 1);
static_assert(on(tensors, 2, backward, all_reduce) == 5);
static_assert(tensors.collectives() == 11);
static_assert(tensors.bytes(backward) == 5 * activation);
constexpr auto clipped = training_step<Tensors>({1, 4, 1}, config, true);
static_assert(on(clipped, 2, optimizer, all_reduce) == 1);
static_assert(clipped.collectives() == 12);

// Sequence parallel: the same bytes, half of them reduced and half of them gathered; and the gradients of the
// five norms, in one bucket.
constexpr auto sequences = training_step<Sequences>({1, 4, 1}, config, false);
static_assert(on(sequences, 2, forward, reduce_scatter) == 5 && on(sequences, 2, forward, all_gather) == 5);
static_assert(on(sequences, 2, backward, reduce_scatter) == 5 && on(sequences, 2, backward, all_gather) == 5);
static_assert(on(sequences, 2, forward, all_reduce) == 1);
static_assert(on(sequences, 2, optimizer, all_reduce) == 1);
static_assert(sequences.bytes(optimizer) == 5 * features * 4);
static_assert(sequences.collectives() == 22);
static_assert(sequences.bytes(backward) == 10 * activation);
static_assert(sequences.parameter_bytes() == tensors.parameter_bytes());

// Two key/value heads on four ranks: the gradients of both layers' key and value projections are summed along
// kvr alone, all four in one all-reduce.
constexpr llm::LlamaConfig grouped = [] {
  llm::LlamaConfig shape = config;
  shape.kv_heads = 2;
  return shape;
}();
constexpr auto replicas = training_step<Tensors>({1, 2, 2}, grouped, false);
static_assert(on(replicas, 6, forward, all_reduce) == 5 + 1 && on(replicas, 6, backward, all_reduce) == 5);
static_assert(on(replicas, 4, optimizer, all_reduce) == 1);
static_assert(replicas.bytes(optimizer) == 2 * 2 * 6 * features * 4);  // a head of 6, of k and v, in 2 layers
static_assert(replicas.collectives() == 12);
constexpr auto both = training_step<Sequences>({1, 2, 2}, grouped, false);
static_assert(on(both, 4, optimizer, all_reduce) == 1 && on(both, 6, optimizer, all_reduce) == 1);
static_assert(both.collectives() == 23);

// Data parallel beside it: another all-reduce for what lies on dp as well, and the loss's sum.
constexpr auto with_data = training_step<Sequences>({2, 2, 2}, grouped, false);
static_assert(on(with_data, 1, forward, all_reduce) == 1);
static_assert(on(with_data, 1, optimizer, all_reduce) == 1);  // matrices
static_assert(on(with_data, 5, optimizer, all_reduce) == 1);  // key and value projections
static_assert(on(with_data, 7, optimizer, all_reduce) == 1);  // norms
static_assert(with_data.collectives(optimizer) == 3);

// A head that is the table: the same calls.
constexpr llm::LlamaConfig tied = [] {
  llm::LlamaConfig shape = config;
  shape.tied = true;
  return shape;
}();
constexpr auto shared = training_step<Tensors>({1, 4, 1}, tied, false);
static_assert(same_communication(shared, tensors));
static_assert(shared.parameter_bytes() < tensors.parameter_bytes());

// Two hosts of two ranks: half of what goes across is sent by each rank of a host. And of three and one: the three give
// the one their blocks, and their sum of its block.
template <class To>
constexpr std::int64_t to_other_hosts(int ranks_per_host) {
  const auto plan = trace<Mesh<dp, tp>>(
      {2, 2},
      [](const auto& mesh) {
        redistribute<To, To>(
            redistribute<Partial<>, Partial<>>(empty<float, Replicate, Replicate>(mesh, {8, 4})));
      },
      {}, ranks_per_host);
  return plan.bytes_to_other_hosts();
}
static_assert(to_other_hosts<Replicate>(2) == 2 * (8 * 4 * 4) / 2 / 2 &&
              to_other_hosts<Shard<0>>(2) == 8 * 4 * 4 / 2 / 2);
static_assert(to_other_hosts<Replicate>(3) == 2 * (8 * 4 * 4) / 4 &&
              to_other_hosts<Shard<0>>(3) == 8 * 4 * 4 / 4);
static_assert(to_other_hosts<Replicate>(1) == 2 * (8 * 4 * 4) * 3 / 4 && to_other_hosts<Replicate>(0) == 0);

}  // namespace
}  // namespace shardwise
