// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tokenises text once: the tokens are kept in a cache file, which later runs map into memory.
///
/// ```
/// const ByteTokenizer tokenizer;                                                    // or a Tokenizer
/// auto corpus = open_token_corpus(mesh, {"books/"}, tokenizer, "run/tokens.bin");   // all ranks
/// auto alone = open_token_corpus({"books/"}, tokenizer, "run/tokens.bin");          // one process, without MPI
/// ```
/// A cache of other text or of another tokenizer is outdated and is rebuilt; to detect this, the text is read. A
/// cache that is damaged or of another version, or a file of another kind, is an error, and is not changed. If the
/// text no longer exists, `TokenCorpus::from_file` opens the cache alone. A cache that another user owns or may
/// change is rejected, and so is one in such a folder.

#include <shardwise/guard/agreement.hpp>
#include <shardwise/llm/data/token_cache.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/mesh/mesh.hpp>

namespace shardwise::llm {

namespace detail {

/// The tokens of a source, such as `TextSource`, in memory or in a cache.
TokenCorpus open_tokens(const auto& source, const Path& cache) {
  return cache.empty() ? tokens_in_memory(source) : open_prepared(cache, prepare_cache(source, cache));
}
/// The same for many ranks. Collective.
TokenCorpus open_tokens(const Communicator& ranks, std::string_view task, const auto& source,
                        const Path& cache) {
  std::optional<TokenFileHeader> prepared;
  throw_on_all_ranks(ranks, task, [&] {
    if (ranks.rank() == 0 && !cache.empty()) prepared = prepare_cache(source, cache);
  });
  std::optional<TokenCorpus> corpus;
  throw_on_all_ranks(ranks, task, [&] {
    if (!cache.empty()) check_trusted(cache);
    corpus = cache.empty() ? tokens_in_memory(source)
             : prepared    ? open_prepared(cache, *prepared)
                           : TokenCorpus(cache, MappedFile(cache));
  });

  // Compares the tokens and the given tokenizers: a cache only records the first rank's tokenizer.
  const std::array<Index, 2> mine{std::bit_cast<Index>(corpus->fingerprint()),
                                  std::bit_cast<Index>(std::uint64_t{source.tokenizer.fingerprint()})};
  const std::vector<Index> all = ranks.all_gather(mine);
  throw_on_all_ranks(ranks, task, [&] {
    if (mine[1] != all[1]) throw std::runtime_error("another tokenizer than on rank 0");
    if (mine[0] == all[0]) return;
    throw std::runtime_error(cache.empty()
                                 ? "other tokens than on rank 0: the text differs"
                                 : cache.string() + ": not the file of rank 0; it must lie on a file " +
                                       "system that all ranks share");
  });
  return *corpus;
}

}  // namespace detail

/// The tokens of files, and of all files below folders (sorted by name, without hidden ones and pictures). Each file is
/// one document of text, encoded with `tokenizer.encode(text)` and followed by the tokenizer's end token, if there is
/// one. With a `cache`, tokenising needs memory for one document; without, the tokens stay in memory.
///
/// For a single process without MPI. Throws `std::runtime_error`, with the file and the reason.
template <TextEncoder Encoder>
TokenCorpus open_token_corpus(const std::vector<std::filesystem::path>& paths, const Encoder& tokenizer,
                              const std::filesystem::path& cache = {}) {
  return detail::open_tokens(detail::TextSource<Encoder>{paths, tokenizer}, cache);
}

/// The same for many ranks, with the same arguments on all: the first reads the text and writes the cache while the
/// others wait; then each maps it, so it must be on a file system that all of them share. Without a cache, every
/// rank reads the text and keeps all tokens. Collective; if one rank fails, or has other tokens than the first, all
/// throw the same `std::runtime_error`.
template <TextEncoder Encoder>
TokenCorpus open_token_corpus(const Communicator& ranks, const std::vector<std::filesystem::path>& paths,
                              const Encoder& tokenizer, const std::filesystem::path& cache = {}) {
  return detail::open_tokens(ranks, "open_token_corpus", detail::TextSource<Encoder>{paths, tokenizer},
                             cache);
}
/// The same for all ranks of a mesh.
template <MeshAxis... Axes, TextEncoder Encoder>
TokenCorpus open_token_corpus(const Mesh<Axes...>& mesh, const std::vector<std::filesystem::path>& paths,
                              const Encoder& tokenizer, const std::filesystem::path& cache = {}) {
  return open_token_corpus(mesh.communicator(), paths, tokenizer, cache);
}

}  // namespace shardwise::llm
