// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The tokens of documents, in memory or in a cache file that is rebuilt when it is outdated.

#include <pwd.h>

#include <shardwise/llm/data/documents.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::detail {

using Paths = std::vector<std::filesystem::path>;

inline void check_not_empty(const Paths& paths, const TokenFileHeader& header) {
  if (header.count > 0) return;
  std::string names;
  for (const Path& path : paths) names += (names.empty() ? "" : ", ") + path.string();
  fail<std::runtime_error>({"there is no text in ", names});
}

/// A cache among the files of the text would become text in the next run.
inline void check_outside(const Paths& paths, const Path& cache) {
  for (const Path& path : paths) {
    const Path name = whole_path(cache).lexically_relative(whole_path(path));
    if (name.empty() || *name.begin() == "..") continue;
    const bool hidden = std::any_of(name.begin(), name.end(), [](const Path& part) {
      return part != "." && part.string().starts_with('.');
    });
    if (!hidden) {
      fail<std::runtime_error>({cache.string(), ": the cache would lie in ", path.string(),
                                ", whose files are the text; name another place, or a hidden file"});
    }
  }
}

/// Throws `std::runtime_error` if the cache is named as a folder or is a symbolic link, which would be replaced, or if
/// a user other than this one and root may change or replace it. (In a folder with the sticky bit, such as /tmp, only a
/// file's owner may.)
inline void check_trusted(const Path& cache) {
  if (!cache.has_filename() || std::filesystem::is_symlink(cache))
    fail<std::runtime_error>(
        {cache.string(), ": a folder or a symbolic link, expected the name of the file itself"});
  for (const Path& path : {cache, folder_of(cache)}) {
    const auto status = status_of(path);
    if (!status || S_ISCHR(status->st_mode)) continue;  // a device, which cannot be opened as a cache
    const bool foreign = status->st_uid != 0 && status->st_uid != ::geteuid();
    if (!foreign && ((status->st_mode & S_IWOTH) == 0 || (status->st_mode & S_ISVTX) != 0)) continue;
    const struct ::passwd* owner = ::getpwuid(status->st_uid);
    fail<std::runtime_error>(
        {path.string(), ": belongs to user ", status->st_uid, " ", owner ? owner->pw_name : "",
         foreign ? ", who could put other tokens there" : ", and all users may write to it",
         ": keep the cache where only user ", ::geteuid(), " may write"});
  }
}

/// Files of text. It is a source of tokens: it passes them on, and knows whether a cache with a header is of it.
template <TextEncoder Encoder>
struct TextSource {
  const Paths& paths;
  const Encoder& tokenizer;

  bool is_in(const TokenFileHeader& header) const {
    return header.tokenizer == tokenizer.fingerprint() &&
           header.vocabulary == static_cast<std::uint64_t>(tokenizer.vocabulary()) &&
           header.corpus == corpus_fingerprint(documents_of(paths));
  }
  template <class Take>
  TokenFileHeader tokenise(Take take) const {
    const TokenFileHeader header = detail::tokenise(documents_of(paths), tokenizer, take);
    check_not_empty(paths, header);
    return header;
  }
};

TokenCorpus tokens_in_memory(const auto& source) {
  std::vector<char> bytes;
  const TokenFileHeader header = source.tokenise(
      [&](std::string_view packed) { bytes.insert(bytes.end(), packed.begin(), packed.end()); });
  return TokenCorpus(header, std::move(bytes));
}

TokenFileHeader write_cache(const auto& source, const Path& cache) {
  TemporaryFile temporary(cache);
  auto end = static_cast<Index>(sizeof(TokenFileHeader));
  const TokenFileHeader header = source.tokenise([&](std::string_view packed) {
    temporary.file().write(packed, end);
    end += std::ssize(packed);
  });
  temporary.file().write({reinterpret_cast<const char*>(&header), sizeof header}, 0);
  temporary.commit();
  return header;
}

/// Ensures that the cache is complete and up to date; returns its header.
TokenFileHeader prepare_cache(const auto& source, const Path& cache) {
  check_outside(source.paths, cache);
  check_trusted(cache);
  if (std::filesystem::exists(cache)) {
    const File file(cache, O_RDONLY);
    const TokenFileHeader header = read_token_header(file);
    if (source.is_in(header)) {
      check_tokens(file);
      return header;
    }
  }
  return write_cache(source, cache);
}

/// Opens the cache left by `prepare_cache`; throws if another run has replaced it meanwhile.
inline TokenCorpus open_prepared(const Path& cache, const TokenFileHeader& header) {
  TokenCorpus corpus(cache, MappedFile(cache));
  if (corpus.fingerprint() != header.header_checksum) {
    fail<std::runtime_error>({cache.string(),
                              ": another run has replaced it, just now, by one of other text or of another "
                              "tokenizer; give each run a cache of its own"});
  }
  return corpus;
}

}  // namespace shardwise::llm::detail
