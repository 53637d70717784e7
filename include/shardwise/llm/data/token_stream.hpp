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
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include <shardwise/comm/thread.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/data/batch_sampler.hpp>
#include <shardwise/llm/data/text_pieces.hpp>
#include <shardwise/mesh/mesh.hpp>

namespace shardwise::llm {

struct StreamOptions {
  Index piece = 1 << 16;   ///< bytes of text that stay together
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
  /// Collective. Throws `std::runtime_error`, the same on all ranks, if one rank cannot list them, or sees other files
  /// than the first.
  template <TextEncoder Encoder>
  TokenStream(const Communicator& ranks, const std::vector<std::filesystem::path>& paths,
              const Encoder& tokenizer, const StreamOptions& options = {})
      : ranks_(ranks), options_(options) {
    throw_on_all_ranks(ranks_, task, [&] {
      const auto pieces = std::make_shared<const detail::TextPieces>(paths, options.piece);
      count_ = pieces->count();
      fingerprint_ = Fingerprint().add(pieces->fingerprint()).add(tokenizer.fingerprint()).value();
      make_ = [pieces, tokenizer](Index number) {
        return detail::tokens_of(pieces->read(number), tokenizer);
      };
    });
    const Index mine[]{std::bit_cast<Index>(fingerprint_)};
    const Index first = ranks_.all_gather(mine).front();
    throw_on_all_ranks(ranks_, task, [&] {
      if (mine[0] != first) throw std::runtime_error("other files or another tokenizer than on rank 0");
    });
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
  Index pieces() const { return count_; }
  /// A hash of names and sizes of the files, the size of pieces, and the tokenizer.
  std::uint64_t fingerprint() const { return fingerprint_; }

  /// Makes the tokens of `steps` steps available, and drops those before; tokens between are skipped. `sampler` has
  /// `size()` tokens and does not shuffle. Collective. Throws `std::invalid_argument` for tokens that were dropped; and
  /// `std::runtime_error`, the same on all ranks, with the file's name, if a file of these tokens cannot be read, is
  /// not UTF-8 text, or has changed since the stream was opened.
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

  /// Where the step after the last `fetch` begins: save it, and `seek` it in a run that resumes. Both may have
  /// different numbers of ranks.
  StreamPosition position() const;
  /// All ranks give the same position, before the next `fetch`. Throws `std::invalid_argument` for negative numbers.
  void seek(const StreamPosition& position);

  /// Seconds for which `fetch` has waited for tokens, on the rank that waited longest; the same on all ranks.
  double waited() const { return waited_; }

 private:
  static constexpr const char* task = "TokenStream";
  /// The tokens of a piece, or why there are none.
  struct Made {
    std::vector<std::int32_t> tokens = {};
    std::exception_ptr error = {};
    Index waited = 0;  // nanoseconds, until they were there
  };

  void stop();
  /// Makes the tokens of this rank's pieces, in the thread.
  void work();
  /// Waits for the next of them.
  Made take();
  /// Appends the tokens of a piece of each rank.
  void exchange();
  /// Drops tokens before this one, as far as there are any.
  void drop(Index token);

  Communicator ranks_;
  StreamOptions options_;
  Index count_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::function<std::vector<std::int32_t>(Index)> make_;

  Index first_ = 0;  // of tokens_
  std::vector<std::int32_t> tokens_;
  std::deque<StreamPosition> begins_{1};  // of the pieces in tokens_, and at last of the next one
  Index next_ = 0;                        // the first token of the next step
  Index idle_ = 0;                        // pieces since the last one that had tokens
  bool failed_ = false;                   // a rank could not make the next piece
  std::exception_ptr error_;              // this one could not
  double waited_ = 0;

  Index first_piece_ = 0;  // of the thread
  bool running_ = false;
  pthread_t thread_{};
  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  std::deque<Made> made_;
  Index made_tokens_ = 0, wanted_ = 0;  // in made_; and how many there should be
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
    first_piece_ = begins_.back().piece + ranks_.rank();
    throw_on_all_ranks(ranks_, task, [&] {
      thread_ = detail::start_thread<&TokenStream::work>(*this, "a thread that tokenizes");
    });
    running_ = true;
  }
  for (drop(begin); first_ + std::ssize(tokens_) < end; drop(begin)) {
    if (failed_) {
      throw_on_all_ranks(ranks_, task, [&] {
        if (error_) std::rethrow_exception(error_);
      });
    }
    if (idle_ >= count_) detail::fail<std::runtime_error>({task, ": there are no tokens in the text"});
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
  failed_ = false;
  error_ = nullptr;
}

SHARDWISE_INLINE void TokenStream::exchange() {
  const Made mine = take();
  const Index own[]{mine.error ? -1 : std::ssize(mine.tokens), mine.waited};
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

SHARDWISE_INLINE TokenStream::Made TokenStream::take() {
  std::unique_lock lock(mutex_);
  const auto begin = std::chrono::steady_clock::now();
  changed_.wait(lock, [&] { return !made_.empty(); });
  Made first = std::move(made_.front());
  first.waited = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  made_.pop_front();
  made_tokens_ -= std::ssize(first.tokens);
  changed_.notify_all();
  return first;
}

SHARDWISE_INLINE void TokenStream::work() {
  for (Index number = first_piece_;; number += ranks_.size()) {
    Made piece;
    try {
      const Index place = number % count_, epoch = number / count_;
      piece.tokens = make_(options_.shuffle
                               ? Permutation(count_, options_.seed, static_cast<std::uint64_t>(epoch))(place)
                               : place);
    } catch (...) {
      piece.error = std::current_exception();
    }
    const bool last = piece.error != nullptr;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stops_ || made_tokens_ < wanted_; });
    if (stops_) return;
    made_tokens_ += std::ssize(piece.tokens);
    made_.push_back(std::move(piece));
    changed_.notify_all();
    if (last) return;
  }
}

}  // namespace shardwise::llm
#endif
