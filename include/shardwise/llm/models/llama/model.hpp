// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Llama`: the decoder of Touvron et al. ("LLaMA", 2023; "Llama 2", 2023; "The Llama 3 herd of models", 2024):
/// RMSNorm before attention and MLP, rotary embeddings, grouped-query attention, SwiGLU. By options of its
/// configuration it is one of other families, such as Qwen and Gemma (config.hpp). A plan defines its parallelism
/// (plan.hpp).
///
/// ```
/// Llama<Mesh<dp, tp>> model(mesh, config);                              // tensor parallel over tp
/// Llama<Mesh<dp, tp>, LlamaSequenceParallel<>> model(mesh, config);     // and sequence parallel
/// auto loss = CrossEntropyLoss()(model(tape.constant(ids)), targets);
/// auto logits = model(ids, documents);                                  // several texts in each row
/// ```

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/llm/models/llama/layer.hpp>
#include <shardwise/llm/models/llama/part.hpp>
#include <shardwise/llm/models/llama/plan.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/parallel/plan_problem.hpp>
#include <shardwise/parallel/sliced_list.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/unit.hpp>

namespace shardwise::llm {

/// The keys and values of the tokens so far, for each layer, sharded like the heads. Each row has a length of its own.
template <TensorType Keys>
class LlamaCache {
 public:
  /// Empty, for `batch` sequences of up to `capacity` tokens; the first layer may lack its attention.
  constexpr LlamaCache(const typename Keys::MeshOf& mesh, const LlamaConfig& config, Index batch,
                       Index capacity, bool first_has_attention = true)
      : rows_(batch, capacity, KeyValueCache<Keys>::shards_batch(mesh)), first_(first_has_attention ? 0 : 1) {
    layers_.reserve(static_cast<std::size_t>(config.layers));
    for (std::size_t i = 0; i < static_cast<std::size_t>(config.layers); ++i) {
      layers_.emplace_back(mesh, batch, i < first_ ? 0 : capacity, config.kv_heads, config.head_size(),
                           config.value_size());
    }
  }

  /// The number of tokens in a row, and the most that it can hold; 0 in a part of a model without attention.
  constexpr Index length(Index row = 0) const {
    return first_ < layers_.size() ? layers_[first_].length(row) : 0;
  }
  constexpr Index capacity() const { return first_ < layers_.size() ? layers_[first_].capacity() : 0; }
  /// Selects the rows that the model's calls continue, in the order of their ids, the same on every rank; by default
  /// all (see `CacheRows`).
  constexpr void select(std::span<const Index> rows) {
    rows_.select(rows);
    for (auto& layer : layers_) layer.select(rows);
  }
  /// Forgets all tokens, or those of a row except the first `kept`, of which it must have so many.
  constexpr void clear() {
    for (auto& layer : layers_) layer.clear();
  }
  constexpr void clear(Index row, Index kept = 0) {
    rows_.clear(row);
    for (std::size_t i = first_; i < layers_.size(); ++i) layers_[i].clear(row, kept);
  }

  /// For the model: the caches of its layers. Throws `std::invalid_argument` unless all of `layers` have the same
  /// tokens; they do not if a call of the model failed midway.
  constexpr std::vector<KeyValueCache<Keys>>& of(std::size_t layers) {
    bool even = layers == layers_.size();
    for (std::size_t i = first_; i < layers_.size(); ++i) {
      even = even && static_cast<const CacheRows&>(layers_[i]) == layers_[first_];
    }
    if (!even) {
      detail::fail({"LlamaCache: it is of a model with ", layers_.size(),
                    " layers, or a call failed half-way; clear it, or make another"});
    }
    return layers_;
  }

 private:
  CacheRows rows_;  ///< checks selections on every rank, also in a part without layers
  std::vector<KeyValueCache<Keys>> layers_;
  std::size_t first_;  ///< the first layer with an attention
};

namespace detail {

/// The type of the keys that layers with the input `X` give.
template <class X, class Layers>
struct KeysOf;
template <class X, class Layer>
struct KeysOf<X, ModulesOf<Layer>>
    : TypeIs<tensor_of<decltype(not_evaluated<const Layer>().keys(not_evaluated<const X>()))>> {};
template <class X, class First, class... Rest>
struct KeysOf<X, SlicedList<First, Rest...>> : KeysOf<X, ModulesOf<First>> {
  static_assert((std::is_same_v<typename KeysOf<X, ModulesOf<Rest>>::type,
                                typename KeysOf<X, ModulesOf<First>>::type> &&
                 ...),
                "Llama: for a cache, the plan must give the keys of all layers one layout");
};

}  // namespace detail

template <class MeshType, class PlanType = LlamaTensorParallel<>, class T = float>
class Llama : public Module<Llama<MeshType, PlanType, T>> {
  using Named = PlanFor<PlanType, llama_modules>;

 public:
  using Tokens = Embedding<MeshType, style_of<Named, "tokens">, T>;
  /// The type of the layers from a bound of the plan's slices on, or of those that no slice names.
  template <int At>
  using LayerAt =
      styled<LlamaLayer<MeshType, PlanBelow<Named, "layers.*", At>, T>, style_of<Named, "layers.*", At>>;
  using Layer = LayerAt<-1>;
  using Norm = RMSNorm<MeshType, style_of<Named, "norm">, T>;
  using Head = Linear<MeshType, style_of<Named, "head">, T, 1, 1, false>;
  static_assert(!Head::is_adapted, "Llama: the head has no adapter, as the loss takes its weight alone");

  using Problem = plan_problem<MeshType, PlanType, llama_modules>;
  /// Throws `std::invalid_argument`, on every rank, for an invalid configuration, or one whose heads do not fit the
  /// mesh.
  constexpr Llama(const MeshType& mesh, const LlamaConfig& config) requires WellFormed<Problem>
      : Llama(mesh, config, {.layers = config.layers}) {}
  template <IllFormed Why = Problem>
  Llama(const MeshType&, const LlamaConfig&) = delete;  // see Why
  /// A part of the model, for the `begin`, `middle` and `end` of a pipeline; its parameters have the names and
  /// initial values that they have in the whole. If the head is tied to the tokens, both the first and the last
  /// part have the table.
  constexpr Llama(const MeshType& mesh, const LlamaConfig& config,
                  const LlamaPart& part) requires WellFormed<Problem>
      : config_(config.checked()), begins_(part.begins), first_has_attention_(!part.begins_with_mlp) {
    if (part.first_layer < 0 || part.layers < 0 || part.first_layer + part.layers > config.layers) {
      detail::fail({"Llama: ", part.layers, " layers from ", part.first_layer,
                    " on are asked of a model with ", config.layers});
    }
    if (part.layers < int{part.begins_with_mlp} + int{part.ends_with_attention}) {
      detail::fail(
          {"Llama: ", part.layers, " layers cannot begin with an MLP or end with an attention as asked"});
    }
    if (part.begins || (part.ends && config.tied)) {
      tokens.emplace(mesh, config.vocabulary, config.features, Init::normal(config.deviation));
    }
    const Index end = part.first_layer + part.layers;
    fill_list<Named, "layers.*">(layers, {config.layers, config.n, "config.n", part.first_layer, end},
                                 [&](auto& group, Index i) {
                                   group.emplace_back(mesh, config.for_layer(i));
                                   if (part.begins_with_mlp && i == part.first_layer)
                                     group.back().drop_attention();
                                   if (part.ends_with_attention && i + 1 == end) group.back().drop_mlp();
                                 });
    if (part.ends) norm.emplace(mesh, config.features, config.epsilon, config.norm_offset);
    if (config.tied) {
      if constexpr (!tieable) {
        throw std::invalid_argument(
            "Llama: the plan gives \"tokens\" and \"head\" different layouts, so they cannot be tied");
      }
    } else if (part.ends) {
      head.emplace(mesh, Shape<1>{config.features}, Shape<1>{config.vocabulary},
                   Init::normal(config.deviation));
    }
    check_adapters(part);
    make_units(part.first_layer);
  }

  /// ids: integers [batch, sequence]; the result is [batch, sequence, vocabulary]. With documents, of which a row may
  /// have several, these do not see each other, and their positions restart: integers [batch, sequence], with the
  /// layout of the ids, but whole where positions are sharded; see the function `attention`.
  constexpr auto forward(const Operand auto& ids, const Operand auto&... documents) const {
    check_whole();
    return end(middle(begin(ids), documents...));
  }
  /// The loss, without storing the logits: `criterion` is a `LinearCrossEntropyLoss`; targets: integers [batch,
  /// sequence], the token that follows each token; they are not shifted here.
  constexpr auto forward(const Operand auto& ids, const Operand auto& targets, const auto& criterion) const {
    check_whole();
    return end(middle(begin(ids)), targets, criterion);
  }
  constexpr auto forward(const Operand auto& ids, const Operand auto& documents, const Operand auto& targets,
                         const auto& criterion) const {
    check_whole();
    return end(middle(begin(ids), documents), targets, criterion);
  }

  /// The same in three steps, for parts of a model. `begin`: from ids to the input of the first layer.
  constexpr auto begin(const auto& ids) const {
    check_has(begins_, "begin", "table of tokens");
    return units_.front()(ids, [&](const auto& in) {
      auto x = reduced_on_data_axes((*tokens)(in));
      if (config_.scaled_tokens) return scale(x, config_.token_scale());
      return x;
    });
  }
  /// `middle`: from there to the output of the last layer of this part, in the same layout, optionally with documents;
  constexpr auto middle(const auto& x, const Operand auto&... documents) const {
    return through_layers(x, [&](const auto& in, const auto& layer, std::size_t i) {
      if (recompute_layers && static_cast<Index>(i) < recompute_first)
        return recompute(layer, in, documents...);
      return layer(in, documents...);
    });
  }
  /// or for tokens that follow those in the cache, to which they are appended.
  template <class CacheType>
    requires(!Operand<CacheType>)
  constexpr auto middle(const auto& x, CacheType& cache) const {
    auto& caches = cache.of(layers.size());
    return through_layers(
        x, [&](const auto& in, const auto& layer, std::size_t i) { return layer(in, caches[i]); });
  }
  /// `end`: from there to the logits,
  constexpr auto end(const auto& x) const {
    check_has(norm.has_value(), "end", "head");
    return units_.back()(x, [&](const auto& in) { return logits((*norm)(in)); });
  }
  /// to those of the last token alone, [batch, 1, vocabulary],
  constexpr auto end_of_last(const auto& x) const {
    check_has(norm.has_value(), "end_of_last", "head");
    return units_.back()(
        x, [&](const auto& in) { return logits(narrow<1>(Head::take((*norm)(in)), x.shape()[1] - 1, 1)); });
  }
  /// or to the loss.
  constexpr auto end(const auto& x, const auto& targets, const auto& criterion) const {
    check_has(norm.has_value(), "end", "head");
    return units_.back()(x, [&](const auto& in) {
      return criterion(Head::take((*norm)(in)), head_weight(), targets, config_.logit_softcap);
    });
  }

  template <class Ids>  // without a tape
  using IdsProblem = std::conditional_t<
      TensorType<Ids>, detail::call_problem<Llama, Ids>,
      LayoutError<Reason::argument_is_not_a_tensor, Got<Ids>,
                  Cure<Operand<Ids> ? Hint::use_its_value : hint_for(Reason::argument_is_not_a_tensor)>>>;
  /// An empty cache for the layers of this part, for sequences like `ids`, of up to `capacity` tokens.
  template <TensorType Ids, class Problem = detail::call_problem<Llama, Ids>>
  constexpr auto make_cache(const Ids& ids, Index capacity) const {
    using Keys =
        typename detail::KeysOf<decltype(begin(Abstract<Ids, false, false>())), decltype(layers)>::type;
    LlamaConfig own = config_;
    own.layers = static_cast<Index>(layers.size());
    return LlamaCache<Keys>(ids.mesh(), own, ids.shape()[0], capacity, first_has_attention_);
  }
  template <class Ids, IllFormed Why = IdsProblem<Ids>>
  Why make_cache(const Ids&, Index) const;  // see Why

  /// The logits of the token after `ids`, [batch, 1, vocabulary]. The ids, [batch, sequence], follow those in the
  /// cache and are appended to it. Throws `std::invalid_argument` if there are no ids, `std::length_error` if they
  /// do not fit into the cache.
  template <TensorType Ids, class CacheType, class Problem = detail::call_problem<Llama, Ids>>
  constexpr auto next(const Ids& ids, CacheType& cache) const {
    check_whole();
    if (ids.shape()[1] == 0) throw std::invalid_argument("Llama: there are no tokens to continue from");
    cache.of(layers.size());  // throws before anything is computed
    return end_of_last(middle(begin(ids), cache));
  }
  template <class Ids, class CacheType, IllFormed Why = IdsProblem<Ids>>
  Why next(const Ids&, CacheType&) const;  // see Why

  /// The configuration of the whole model.
  constexpr const LlamaConfig& config() const { return config_; }
  /// The parameter that another part has a copy of: the table that is also the head; else null.
  constexpr auto* copied() { return config_.tied && begins_ != norm.has_value() ? &tokens->table : nullptr; }

  constexpr void visit(auto&& f) {
    if (tokens) f("tokens", *tokens);
    f("layers", layers);
    if (norm) f("norm", *norm);
    if (head) f("head", *head);
  }

  std::optional<Tokens> tokens;
  ListOf<Named, "layers.*", LayerAt> layers;
  std::optional<Norm> norm;
  std::optional<Head> head;  ///< empty if tied to `tokens`

  /// Calls on a tape keep only the input of each layer, and recompute the layer in the backward pass.
  bool recompute_layers = false;
  /// Then recomputes only the first n layers of this part: the backward pass reaches them when the activations of the
  /// others have been freed.
  Index recompute_first = std::numeric_limits<Index>::max();

 private:
  static constexpr bool tieable =
      std::is_same_v<typename Tokens::TableParameter, typename Head::WeightParameter>;

  /// One unit for the tokens, one for each layer, one for norm and head; linked in the order of their calls.
  constexpr void make_units(Index first_layer) {
    units_.reserve(layers.size() + 2);
    if (begins_) units_.emplace_back(*tokens);
    detail::for_each_group(layers, [&](auto& group) {
      for (auto& layer : group) units_.emplace_back(layer);
    });
    if (head) {
      units_.emplace_back(*norm, *head);
    } else if (norm && begins_) {
      units_.emplace_back(*norm);
      units_.back().borrow(*tokens);
    } else if (norm) {
      units_.emplace_back(*norm, *tokens);
    }
    if (!begins_ && !units_.empty()) units_.front().set_number(static_cast<int>(first_layer) + 1);
    for (std::size_t i = 0; i + 1 < units_.size(); ++i) units_[i].link(units_[i + 1]);
  }

  static constexpr void check_has(bool has, const char* function, const char* what) {
    if (!has) detail::fail<std::logic_error>({"Llama: ", function, " of a part that lacks the ", what});
  }
  /// Throws if the configuration has a size of adapters, but the plan none. With slices, other parts may have them.
  constexpr void check_adapters(const LlamaPart& part) {
    if ((config_.lora.rank == 0 && config_.lora.alpha == 0) || part.layers == 0) return;
    constexpr bool sliced = detail::groups_in<decltype(layers)> != 1;
    if (sliced && part.layers < config_.layers) return;
    const auto adapts = [](const auto& parameter) { return parameter.name.ends_with("lora_A.weight"); };
    if (std::ranges::any_of(detail::named_parameters_of(layers), adapts)) return;
    if (config_.n) {
      detail::fail({"LlamaConfig: lora has the rank ", config_.lora.rank, ", but where config.n is ",
                    *config_.n, ", the plan gives no layer an adapter: set another n, or leave lora out"});
    }
    detail::fail({"LlamaConfig: lora has the rank ", config_.lora.rank, " and the alpha ", config_.lora.alpha,
                  ", but the plan has no adapters: give it Lora, as LlamaAdapted does, or leave lora out"});
  }
  constexpr void check_whole() const {
    if (!begins_ || !norm)
      throw std::logic_error("Llama: this is a part of a model: call begin, middle and end");
  }
  constexpr auto through_layers(const auto& x, const auto& call) const {
    const std::size_t before = begins_ ? 1 : 0;
    return through_list(x, layers, [&](const auto& in, const auto& layer, std::size_t i) {
      return units_[i + before](in, [&](const auto& each) { return call(each, layer, i); });
    });
  }
  constexpr const auto& head_weight() const {
    if constexpr (tieable) {
      return head ? head->weight : tokens->table;
    } else {
      return head->weight;
    }
  }
  constexpr auto logits(const auto& x) const {
    auto products = Head::multiply(x, head_weight());
    const double cap = config_.logit_softcap;
    if (cap > 0) return scale(tanh(scale(products, 1 / cap)), cap);
    return products;
  }

  LlamaConfig config_;
  bool begins_, first_has_attention_;
  std::vector<Unit> units_;
};

}  // namespace shardwise::llm
