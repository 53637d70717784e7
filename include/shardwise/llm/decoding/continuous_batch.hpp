// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `ContinuousBatch`: generates many sequences at once. Each has a row of the model's key/value cache, and the rows of
/// sequences that have ended go to those that wait.
///
/// ```
/// ContinuousBatch batch(mesh, model, 8, 64);                     // 8 rows of up to 64 tokens
/// batch.add({.prompt = {3, 14}, .seed = 7, .new_tokens = 20});   // at any time
/// while (batch.busy()) {
///   for (const GeneratedToken& token : batch.step()) …           // its request, id and log-probability
/// }
/// ```

#include <deque>
#include <functional>
#include <memory>

#include <shardwise/kernel/gemm.hpp>
#include <shardwise/llm/decoding/generation_request.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise::llm {

/// A model and a cache of its keys and values, without their types. `ContinuousBatch` makes one of a model on one mesh;
/// derive from it for others, such as a model in stages. All ranks make the same calls.
class DecodingModel {
 public:
  /// Of a cache with `cached` rows, each with room for `tokens`.
  DecodingModel(Index cached, Index tokens, Index logits)
      : rows(cached), capacity(tokens), vocabulary(logits) {}
  virtual ~DecodingModel() = default;
  /// Forgets the tokens of a row, except the first `kept`.
  virtual void clear(Index row, Index kept) = 0;
  /// Appends `ids`, [rows, tokens], to these rows, and calls f(logits), [rows, vocabulary], for the tokens after them.
  /// f writes `numbers`, which are zeros. It may run on some ranks only, if all ranks get the numbers.
  virtual void next(std::span<const Index> some, std::span<const std::int32_t> ids, std::span<double> numbers,
                    const std::function<void(const float* logits)>& f) = 0;

  const Index rows, capacity;  ///< of the cache, and the tokens for which each row has room
  const Index vocabulary;      ///< the number of logits
};

namespace detail {

template <class Model, class MeshType>
class DecodingModelOf;
template <class Model, MeshAxis... Axes>
class DecodingModelOf<Model, Mesh<Axes...>> final : public DecodingModel {
 public:
  DecodingModelOf(const Mesh<Axes...>& mesh, const Model& model, Index cached, Index tokens)
      : DecodingModel(cached, tokens, model.config().vocabulary),
        mesh_(mesh),
        model_(model),
        cache_(model.make_cache(Ids(mesh, {cached, 1}), tokens)) {}

  void clear(Index row, Index kept) override { cache_.clear(row, kept); }
  void next(std::span<const Index> some, std::span<const std::int32_t> ids, std::span<double>,
            const std::function<void(const float*)>& f) override {
    cache_.select(some);
    // The logits of one token are small, so they are gathered on every rank.
    const Shape<2> shape{std::ssize(some), std::ssize(ids) / std::ssize(some)};
    const auto logits =
        redistribute<On<Axes>...>(model_.next(distribute<On<Axes>...>(mesh_, shape, ids), cache_));
    std::vector<float> numbers(static_cast<std::size_t>(elements(logits.shape())));
    kernel::convert(std::ssize(numbers), logits.data(), numbers.data());
    f(numbers.data());
  }

 private:
  template <class>
  using On = Replicate;
  using Ids = Tensor<std::int32_t, 2, Mesh<Axes...>, On<Axes>...>;

  Mesh<Axes...> mesh_;
  const Model& model_;
  decltype(std::declval<const Model&>().make_cache(std::declval<const Ids&>(), Index{})) cache_;
};

}  // namespace detail

/// Generates sequences with a model, which must outlive it. All ranks of the model make the same calls with the same
/// requests, and get the same tokens. A sequence does not depend on the others, to the bit, in float and double. One
/// whose logits are not finite ends alone. The model's weights may change between steps: a sequence that has begun
/// keeps the keys and values of its earlier tokens.
class ContinuousBatch {
 public:
  /// Of a `Llama`, or of a model with its `make_cache`, `next` and `config().vocabulary`, on `mesh`: `rows` sequences
  /// at once, each of up to `capacity` tokens with its prompt. Ranks along an axis that does not split the model
  /// compute the same. Logits are rounded to float.
  template <class MeshType, class Model>
  ContinuousBatch(const MeshType& mesh, const Model& model, Index rows, Index capacity)
      : ContinuousBatch(
            std::make_unique<detail::DecodingModelOf<Model, MeshType>>(mesh, model, rows, capacity),
            {model.config().vocabulary}) {}
  /// Tokens that are not `known` are never drawn. `reuses_rows`: a prompt that begins as a row that is free is computed
  /// from there on, as in a dialogue; then rounding may differ, and the weights must not change. Throws
  /// `std::invalid_argument` unless there is a row, and the model has all known ids.
  ContinuousBatch(std::unique_ptr<DecodingModel> model, KnownIds known, bool reuses_rows = false);

  /// Returns the request's number: requests are numbered from 0 on. Throws `std::invalid_argument`, on every rank, for
  /// a request that cannot be computed.
  std::size_t add(GenerationRequest request);
  /// Forgets a request, if it has not ended.
  void cancel(std::size_t number);
  /// Whether there are requests that have not ended.
  bool busy() const {
    return !waiting_.empty() ||
           std::ranges::any_of(rows_, [](const Row& row) { return row.active.has_value(); });
  }
  /// The number of tokens that the model has computed.
  Index computed() const { return computed_; }

  /// One new token of each sequence that has a row; and of the one that waits longest, if a row is free. A prompt a
  /// step does not keep the other sequences waiting for all prompts. Collective.
  std::vector<GeneratedToken> step();

 private:
  struct Active {
    std::size_t number;
    GenerationRequest request;
    Index written = 0;
  };
  struct Row {
    std::optional<Active> active;
    std::vector<std::int32_t> tokens;  ///< all but the last new one are in the cache
  };

  Row& at(Index row) { return rows_[static_cast<std::size_t>(row)]; }
  /// The free row for a prompt, or -1; and how many of the prompt's tokens it has already.
  std::pair<Index, Index> best_row(std::span<const std::int32_t> prompt) const;
  /// Draws a token of a row, and writes it, its log-probability and the most probable ones. Throws
  /// `std::invalid_argument` if the logits are not finite.
  void draw(const Row& row, const float* logits, double* to) const;
  /// Computes ids, [rows, tokens], and draws a token for each row.
  void advance(std::span<const Index> rows, std::span<const std::int32_t> ids,
               std::vector<GeneratedToken>& result);

  std::unique_ptr<DecodingModel> model_;
  std::vector<Row> rows_;
  KnownIds known_;
  bool reuses_rows_;
  std::deque<std::pair<std::size_t, GenerationRequest>> waiting_;
  std::size_t next_ = 0;
  Index computed_ = 0;
};

#ifdef SHARDWISE_LLM_BODIES

SHARDWISE_INLINE ContinuousBatch::ContinuousBatch(std::unique_ptr<DecodingModel> model, KnownIds known,
                                                  bool reuses_rows)
    : model_(std::move(model)), known_(std::move(known)), reuses_rows_(reuses_rows) {
  if (model_->rows < 1) detail::fail({"ContinuousBatch: ", model_->rows, " rows, expected 1 or more"});
  const auto& holes = known_.holes;
  const bool valid = std::ranges::adjacent_find(holes, std::greater_equal<>()) == holes.end() &&
                     (holes.empty() || (holes.front() >= 0 && holes.back() < known_.end));
  if (known_.end < 1 || known_.end > model_->vocabulary || !valid)
    detail::fail({"ContinuousBatch: the known ids end with ", known_.end, ", expected 1 to ",
                  model_->vocabulary, ", and ascending holes below that"});
  rows_.resize(static_cast<std::size_t>(model_->rows));
}

SHARDWISE_INLINE std::size_t ContinuousBatch::add(GenerationRequest request) {
  request.check(model_->vocabulary, known_);
  const Index tokens = std::ssize(request.prompt);
  if (request.new_tokens > model_->capacity - tokens) {
    detail::fail({tokens, " tokens of the prompt and ", request.new_tokens, " new ones are more than the ",
                  model_->capacity, " for which a row has room"});
  }
  waiting_.emplace_back(next_, std::move(request));
  return next_++;
}

SHARDWISE_INLINE void ContinuousBatch::cancel(std::size_t number) {
  std::erase_if(waiting_, [&](const auto& each) { return each.first == number; });
  for (Row& row : rows_) {
    if (row.active && row.active->number == number) row.active.reset();
  }
}

SHARDWISE_INLINE std::vector<GeneratedToken> ContinuousBatch::step() {
  std::vector<GeneratedToken> result;
  std::vector<Index> active;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].active) active.push_back(static_cast<Index>(row));
  }
  // Products of more rows would give other bits.
  for (std::size_t i = 0; i < active.size(); i += kernel::few_rows) {
    const auto some =
        std::span(active).subspan(i, std::min<std::size_t>(kernel::few_rows, active.size() - i));
    std::vector<std::int32_t> ids;
    for (const Index row : some) ids.push_back(at(row).tokens.back());
    advance(some, ids, result);
  }
  if (waiting_.empty()) return result;
  auto& [number, request] = waiting_.front();
  const auto [row, kept] = best_row(request.prompt);
  if (row < 0) return result;
  model_->clear(row, kept);
  at(row).tokens = request.prompt;
  at(row).active.emplace(Active{number, std::move(request)});
  waiting_.pop_front();
  const std::vector<std::int32_t> ids(at(row).tokens.begin() + kept, at(row).tokens.end());
  advance(std::array{row}, ids, result);
  return result;
}

SHARDWISE_INLINE std::pair<Index, Index> ContinuousBatch::best_row(
    std::span<const std::int32_t> prompt) const {
  std::pair<Index, Index> best{-1, -1};
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].active) continue;
    const auto& held = rows_[row].tokens;
    const auto same = std::ranges::mismatch(prompt, held).in1 - prompt.begin();
    // The last token of a row is not in the cache; that of the prompt must be computed for its logits.
    const Index most = std::min(std::ssize(prompt), std::ssize(held)) - 1;
    const Index kept = reuses_rows_ ? std::clamp<Index>(same, 0, std::max<Index>(most, 0)) : 0;
    if (kept > best.second) best = {static_cast<Index>(row), kept};
  }
  return best;
}

SHARDWISE_INLINE void ContinuousBatch::draw(const Row& row, const float* logits, double* to) const {
  const GenerationRequest& request = row.active->request;
  std::span<const float> own(logits, static_cast<std::size_t>(known_.end));
  std::vector<float> without_holes, penalized;
  if (!known_.holes.empty()) {
    without_holes.assign(own.begin(), own.end());
    for (const std::int32_t id : known_.holes)
      without_holes[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
    own = without_holes;
  }
  if (request.repetition_penalty != 1)
    penalized = penalize_repetition(own, row.tokens, request.repetition_penalty);
  const std::int32_t id = sample(penalized.empty() ? own : penalized, request.sampling, request.seed,
                                 static_cast<std::uint64_t>(row.active->written));
  *to++ = id;
  if (request.most_probable < 0) return;
  *to++ = log_probability(own, id);
  for (const auto& [other, logarithm] : most_probable(own, std::min(request.most_probable, known_.count()))) {
    *to++ = other;
    *to++ = logarithm;
  }
}

SHARDWISE_INLINE void ContinuousBatch::advance(std::span<const Index> rows, std::span<const std::int32_t> ids,
                                               std::vector<GeneratedToken>& result) {
  computed_ += std::ssize(ids);
  Index most = -1;
  for (const Index row : rows) most = std::max(most, at(row).active->request.most_probable);
  const auto each = static_cast<std::size_t>(2 + 2 * std::clamp<Index>(most, 0, known_.count()));
  // Of each row: the token, its log-probability, the most probable ones.
  std::vector<double> numbers(rows.size() * each);
  model_->next(rows, ids, numbers, [&](const float* logits) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double* const to = &numbers[i * each];
      try {
        draw(at(rows[i]), logits + static_cast<Index>(i) * model_->vocabulary, to);
      } catch (const std::invalid_argument&) {
        *to = -1;  // ranks of other stages must learn it, too
      }
    }
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double* from = &numbers[i * each];
    Row& row = at(rows[i]);
    Active& active = *row.active;
    const GenerationRequest& request = active.request;
    GeneratedToken token{active.number, static_cast<std::size_t>(active.written++),
                         static_cast<std::int32_t>(*from++)};
    if (token.id < 0) {
      token.end = GenerationEnd::failed;
      token.problem =
          detail::text({"the model's logits after ", std::ssize(row.tokens), " tokens are not finite"});
      row = {};  // no other sequence continues it
      result.push_back(std::move(token));
      continue;
    }
    if (request.most_probable >= 0) token.log_probability = *from++;
    for (Index j = 0; j < std::min(request.most_probable, known_.count()); ++j, from += 2)
      token.most_probable.push_back({static_cast<std::int32_t>(from[0]), from[1]});
    row.tokens.push_back(token.id);
    if (std::ranges::count(request.ends, token.id) > 0) {
      token.end = GenerationEnd::token;
    } else if (active.written == request.new_tokens) {
      token.end = GenerationEnd::length;
    }
    if (token.end != GenerationEnd::none) row.active.reset();
    result.push_back(std::move(token));
  }
}

#endif

}  // namespace shardwise::llm
