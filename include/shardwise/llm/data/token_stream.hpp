// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tokens that are made while a model trains on those before, from files of any size.
///
/// ```
/// TokenStream stream(mesh, {"books/"}, tokenizer, {.piece = 16384, .seed = 1});
/// BatchSampler sampler(stream.size(), {.length = 1024, .batch = 64, .shuffle = false});
/// for (Index step = 0; step < 1000; ++step) {
///   stream.fetch(sampler, step);
///   auto batch = load_batch(mesh, stream, sampler, step);
/// }
/// ```
/// The text is cut into pieces, and the order of pieces is random. The stream consists of their tokens, and a step of
/// the next tokens of the stream. So the order depends only on the files, the tokenizer and the options. Each of n
/// ranks makes the tokens of every n-th piece, in a thread, a little ahead of the steps. `fetch` gathers them.

#include <condition_variable>
#include <deque>
#include <mutex>

#include <shardwise/comm/thread.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/data/batch_sampler.hpp>
#include <shardwise/llm/data/text_pieces.hpp>
#include <shardwise/mesh/mesh.hpp>

namespace shardwise::llm {

struct StreamOptions {
  Index piece = 1 << 16;   ///< bytes of text that stay together: 16 to 2^40
  std::uint64_t seed = 0;  ///< of the order of pieces, which differs from epoch to epoch
  bool shuffle = true;     ///< otherwise they are in the order of the files
};

/// A place in a stream: `token` is number `offset` of a piece, which is number `piece` of the run. It is valid on any
/// number of ranks.
struct StreamPosition {
  Index token = 0, piece = 0, offset = 0;
};

/// The tokens of files, without end. It is a `TokenSource` that has only the tokens of the last `fetch`.
class TokenStream {
 public:
  /// Opens no file yet, but lists them with their sizes and times. Each file is a document, as in `open_token_corpus`.
  /// Collective. Throws on all ranks: `std::runtime_error` if one cannot list them, if all are empty, or for
  /// `.piece` out of range; `std::invalid_argument` if one sees other files than the first, or has another tokenizer or
  /// other options.
  template <TextEncoder Encoder>
  TokenStream(const Communicator& ranks, const std::vector<std::filesystem::path>& paths,
              const Encoder& tokenizer, const StreamOptions& options = {})
      : ranks_(ranks), options_(options) {
    std::uint64_t of_tokenizer = 0;
    throw_on_all_ranks(ranks_, task, [&] {
      pieces_.emplace(paths, options.piece);
      of_tokenizer = tokenizer.fingerprint();
      make_ = [this, tokenizer](Index number) { return detail::tokens_of(pieces_->read(number), tokenizer); };
    });
    fingerprint_ = Fingerprint().add(pieces_->fingerprint()).add(of_tokenizer).value();
    detail::require_same_named(
        ranks_, task,
        {"piece", options.piece, "seed", options.seed, "shuffle", options.shuffle ? "true" : "false",
         "number of files", pieces_->files(), "bytes of text", pieces_->bytes(), "hash of names and sizes",
         pieces_->fingerprint(), "hash of the tokenizer", of_tokenizer});
  }
  template <MeshAxis... Axes, TextEncoder Encoder>
  TokenStream(const Mesh<Axes...>& mesh, const std::vector<std::filesystem::path>& paths,
              const Encoder& tokenizer, const StreamOptions& options = {})
      : TokenStream(mesh.communicator(), paths, tokenizer, options) {}
  TokenStream& operator=(TokenStream&&) = delete;
  ~TokenStream() { stop(); }

  /// For a `BatchSampler`: more than any run takes.
  static constexpr Index size() { return Index{1} << 62; }
  /// The number of pieces, each of which is once in an epoch.
  Index pieces() const { return pieces_->count(); }
  /// A hash of names and sizes of the files, the size of pieces, and the tokenizer.
  std::uint64_t fingerprint() const { return fingerprint_; }

  /// Makes the tokens of `steps` steps available, and drops those before; tokens between are skipped. `sampler` has
  /// `size()` tokens and does not shuffle. Collective. Throws `std::invalid_argument` for tokens that were dropped,
  /// less than one step, and ranks at different positions; and `std::runtime_error`, the same on all ranks, with the
  /// file's name, if a file of these tokens cannot be read, is not UTF-8 text, or has changed since the stream was
  /// opened.
  void fetch(const BatchSampler& sampler, Index step, Index steps = 1);

  /// Copies tokens of the last `fetch`. Throws `std::out_of_range` for others.
  void copy(Index begin, std::span<std::int32_t> to) const {
    const Index at = begin - first_;
    if (at < 0 || at + std::ssize(to) > std::ssize(tokens_)) {
      detail::fail<std::out_of_range>({"TokenStream: tokens ", begin, " to ", begin + std::ssize(to),
                                       ", but ", first_, " to ", first_ + std::ssize(tokens_),
                                       " were fetched"});
    }
    std::copy_n(tokens_.begin() + at, to.size(), to.begin());
  }

  /// Where the step after the last `fetch` begins, or its own step if it failed: save it, and `seek` it in a run that
  /// resumes. Both may have different numbers of ranks.
  StreamPosition position() const;
  /// All ranks give the same position, before the next `fetch`. Throws `std::invalid_argument` for negative numbers.
  void seek(const StreamPosition& position);

  /// Seconds for which `fetch` has waited for tokens: the sum of the longest wait of a rank in each exchange. The same
  /// on all ranks.
  double waited() const { return waited_; }

 private:
  static constexpr const char* task = "TokenStream";
  /// The tokens of a piece, or why there are none.
  struct Made {
    std::vector<std::int32_t> tokens = {};
    std::optional<std::string> error = {};
  };

  void stop();
  /// Makes the tokens of this rank's pieces, in the thread.
  void work();
  /// Appends the tokens of a piece of each rank, when they are there.
  void exchange();
  /// Drops tokens before this one, as far as there are any.
  void drop(Index token);

  Communicator ranks_;
  StreamOptions options_;
  std::optional<const detail::TextPieces> pieces_;
  std::uint64_t fingerprint_ = 0;
  std::function<std::vector<std::int32_t>(Index)> make_;

  Index first_ = 0;  // of tokens_
  std::vector<std::int32_t> tokens_;
  std::deque<StreamPosition> begins_{1};  // of the pieces in tokens_, and at last of the next one
  Index next_ = 0;                        // the first token of the next step
  Index idle_ = 0;                        // pieces since the last one that had tokens
  bool failed_ = false;                   // a rank could not make the next piece
  std::optional<std::string> error_;      // this one could not
  double waited_ = 0;

  Index first_piece_ = 0;  // of the thread
  bool running_ = false;
  pthread_t thread_{};
  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  std::deque<Made> made_;
  Index made_tokens_ = 0, wanted_ = 0;  // in made_, and one for each piece; and how many there should be
  bool stops_ = false;
};

}  // namespace shardwise::llm

#ifdef SHARDWISE_LLM_BODIES
#include <chrono>

namespace shardwise::llm {

SHARDWISE_INLINE void TokenStream::fetch(const BatchSampler& sampler, Index step, Index steps) {
  sampler.check(step);
  if (sampler.tokens() != size() || sampler.options().shuffle) {
    detail::fail({"TokenStream: the sampler has ", sampler.tokens(), " tokens",
                  sampler.options().shuffle ? " and shuffles" : "", ", expected ", size(),
                  " and no shuffling"});
  }
  if (steps < 1) detail::fail({"TokenStream: ", steps, " steps, expected at least 1"});
  const Index of_step = sampler.options().batch * sampler.options().length, begin = step * of_step,
              end = begin + steps * of_step + 1;
  if (begin < first_) {
    detail::fail({"TokenStream: step ", step, " begins with token ", begin, ", but those before ", first_,
                  " were dropped: seek a position"});
  }
  {
    const std::lock_guard lock(mutex_);
    wanted_ = 2 * (end - begin) / ranks_.size() + 1;  // of this step and the next
    changed_.notify_all();
  }
  if (!running_) {
    const StreamPosition& next = begins_.back();
    detail::require_same_named(ranks_, task,
                               {"begins with token", next.token, "begins with piece", next.piece});
    first_piece_ = next.piece + ranks_.rank();
    try {
      throw_on_all_ranks(ranks_, task, [&] {
        thread_ = detail::start_thread<&TokenStream::work>(*this, "a thread that tokenizes");
        running_ = true;
      });
    } catch (...) {
      stop();
      throw;
    }
  }
  next_ = begin;
  for (drop(begin); first_ + std::ssize(tokens_) < end; drop(begin)) {
    if (failed_) {
      throw_on_all_ranks(ranks_, task, [&] {
        if (error_) throw std::runtime_error(*error_);
      });
    }
    if (idle_ >= pieces()) {
      detail::fail<std::runtime_error>({task, ": the tokenizer makes no tokens of the text that begins with ",
                                        pieces_->first_file().string(), " (pieces: ", pieces(), ")"});
    }
    exchange();
  }
  next_ = end - 1;
}

SHARDWISE_INLINE StreamPosition TokenStream::position() const {
  const StreamPosition& piece =
      *std::prev(std::ranges::upper_bound(begins_, next_, {}, &StreamPosition::token));
  return {next_, piece.piece, next_ - piece.token};
}

SHARDWISE_INLINE void TokenStream::seek(const StreamPosition& position) {
  if (position.offset < 0 || position.token < position.offset || position.piece < 0) {
    detail::fail({"TokenStream: token ", position.token, " as number ", position.offset, " of piece ",
                  position.piece, " is not a position"});
  }
  stop();
  tokens_.clear();
  first_ = position.token - position.offset;
  begins_.assign(1, {first_, position.piece});
  next_ = position.token;
  idle_ = 0;
  failed_ = false;
  error_.reset();
}

SHARDWISE_INLINE void TokenStream::exchange() {
  std::unique_lock lock(mutex_);
  const auto begin = std::chrono::steady_clock::now();
  changed_.wait(lock, [&] { return !made_.empty(); });
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begin;
  const Made mine = std::move(made_.front());
  made_.pop_front();
  made_tokens_ -= std::ssize(mine.tokens) + 1;
  changed_.notify_all();
  lock.unlock();
  const Index own[]{mine.error ? -1 : std::ssize(mine.tokens), waited.count()};
  const std::vector<Index> all = ranks_.all_gather(own);
  std::vector<Index> counts, offsets;
  Index end = std::ssize(tokens_), longest = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const Index* of_rank = &all[2 * static_cast<std::size_t>(rank)];
    longest = std::max(longest, of_rank[1]);
    if (!failed_ && of_rank[0] < 0) {  // pieces before this one are used
      failed_ = true;
      if (rank == ranks_.rank()) error_ = mine.error;
    }
    counts.push_back(failed_ ? 0 : of_rank[0]);
    offsets.push_back(end);
    if (failed_) continue;
    end += of_rank[0];
    idle_ = of_rank[0] > 0 ? 0 : idle_ + 1;
    begins_.push_back({first_ + end, begins_.back().piece + 1});
  }
  waited_ += 1e-9 * static_cast<double>(longest);
  tokens_.resize(static_cast<std::size_t>(end));
  ranks_.all_gather(mine.tokens.data(), tokens_.data(), counts, offsets, DataType::i32);
}

SHARDWISE_INLINE void TokenStream::drop(Index token) {
  const Index count = std::min(token - first_, std::ssize(tokens_));
  tokens_.erase(tokens_.begin(), tokens_.begin() + count);
  first_ += count;
  while (begins_.size() > 1 && begins_[1].token <= first_) begins_.pop_front();
}

SHARDWISE_INLINE void TokenStream::stop() {
  if (!std::exchange(running_, false)) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  pthread_join(thread_, nullptr);
  made_.clear();
  made_tokens_ = 0;
  stops_ = false;
}

SHARDWISE_INLINE void TokenStream::work() {
  for (Index number = first_piece_;; number += ranks_.size()) {
    Made piece;
    try {
      const Index count = pieces(), place = number % count, epoch = number / count;
      piece.tokens =
          make_(options_.shuffle ? Permutation(count, options_.seed, static_cast<std::uint64_t>(epoch))(place)
                                 : place);
    } catch (const std::exception& error) {
      piece.error = error.what();
    } catch (...) {
      piece.error = "the tokenizer threw another type than std::exception";
    }
    const bool last = piece.error.has_value();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stops_ || made_tokens_ < wanted_; });
    if (stops_) return;
    made_tokens_ += std::ssize(piece.tokens) + 1;
    made_.push_back(std::move(piece));
    changed_.notify_all();
    if (last) return;
  }
}

}  // namespace shardwise::llm
#endif
