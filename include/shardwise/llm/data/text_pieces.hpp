// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Files of text, cut into pieces of about the same number of bytes. The cuts depend only on the files: a piece can be
/// read without those before it.

#include <shardwise/llm/data/documents.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::detail {

/// A part of a file. `begins` and `ends`: it has the file's first and last byte.
struct TextPiece {
  const Path& path;
  Index offset;
  std::string text;
  bool begins, ends;
};

/// Its tokens. Throws `std::runtime_error`, with the file's name.
template <TextEncoder Encoder>
std::vector<std::int32_t> tokens_of(const TextPiece& piece, const Encoder& tokenizer) {
  if (piece.text.empty()) return {};
  check_text(piece.path, piece.text, piece.offset);
  auto tokens = tokens_of(piece.path, piece.text, tokenizer, piece.begins, piece.ends);
  for (const std::int32_t token : tokens) check_token(token, tokenizer.vocabulary());
  return tokens;
}

/// The pieces of files, and of all files below folders, in their order. Piece k of a file begins near byte k · bytes.
/// Files must not change meanwhile: sizes and times are those that the constructor has seen.
class TextPieces {
 public:
  /// Throws `std::invalid_argument` unless pieces have 16 to 2^40 bytes, and `std::runtime_error`, with the name, for a
  /// file that cannot be examined, or with all paths, if all files are empty.
  TextPieces(const std::vector<Path>& paths, Index bytes) : bytes_(bytes) {
    constexpr Index most = Index{1} << 40;
    if (bytes < 16 || bytes > most) fail({"pieces of ", bytes, " bytes of text, expected 16 to ", most});
    Fingerprint all;
    all.add(static_cast<std::uint64_t>(bytes));
    for (const Document& document : documents_of(paths)) {
      const auto status = status_of(document.path);
      if (!status) throw_file_error(document.path, "cannot be examined");
      if (!S_ISREG(status->st_mode))
        fail<std::runtime_error>({document.path.string(), ": not a regular file"});
      files_.push_back({document.path, State(*status), count_});
      const Index size = files_.back().state.size;
      all_bytes_ += size;
      count_ += (size + bytes - 1) / bytes;
      all.add(std::uint64_t{document.name.size()}).add(document.name).add(static_cast<std::uint64_t>(size));
    }
    if (count_ == 0) {
      std::string names;
      for (const Path& path : paths) names += (names.empty() ? "" : ", ") + path.string();
      fail<std::runtime_error>({names, ": there is no text (files: ", files(), ")"});
    }
    fingerprint_ = all.value();
  }

  Index count() const { return count_; }
  Index files() const { return std::ssize(files_); }
  Index bytes() const { return all_bytes_; }
  const Path& first_file() const { return files_.front().path; }
  /// Of the names below the folders, the sizes, and the size of pieces.
  std::uint64_t fingerprint() const { return fingerprint_; }

  /// Reads a piece: up to twice as many bytes, or none at the end of a file. Throws `std::runtime_error`, with the
  /// file's name, if it cannot be read or has changed.
  TextPiece read(Index number) const {
    const Source& source = *std::prev(std::ranges::upper_bound(files_, number, {}, &Source::first));
    const Index size = source.state.size, begin = (number - source.first) * bytes_,
                from = std::max<Index>(begin - 1, 0);
    const File file(source.path, O_RDONLY);
    check(file, source.state);
    std::string read(static_cast<std::size_t>(std::min(size - from, 2 * bytes_ + 1)), '\0');
    file.read(read.data(), std::ssize(read), from);
    check(file, source.state);
    const Index first = cut(read, from, begin, size), last = cut(read, from, begin + bytes_, size);
    std::string text =
        read.substr(static_cast<std::size_t>(first - from), static_cast<std::size_t>(last - first));
    return {source.path, first, std::move(text), first == 0, last == size};
  }

 private:
  struct State {
    Index size = 0, seconds = 0, nanoseconds = 0;
    explicit State(const struct ::stat& status)
        : size(status.st_size), seconds(status.st_mtim.tv_sec), nanoseconds(status.st_mtim.tv_nsec) {}
    bool operator==(const State&) const = default;
  };
  struct Source {
    Path path;
    State state;
    Index first;  // of its pieces
  };

  static void check(const File& file, const State& before) {
    struct ::stat status {};
    if (::fstat(file.descriptor(), &status) != 0) throw_file_error(file.path(), "cannot be examined");
    const State now(status);
    if (now == before) return;
    if (now.size == before.size)
      fail<std::runtime_error>({file.path().string(), ": it was written to after the run had begun"});
    fail<std::runtime_error>(
        {file.path().string(), ": it had ", before.size, " bytes when the run began, and has ", now.size});
  }

  /// Where the text is cut near byte `place`: before the next line that begins without white space, because few
  /// tokens cross that; if no such line begins within a piece, between two characters. `text` begins at byte `from`.
  Index cut(std::string_view text, Index from, Index place, Index size) const {
    if (place == 0 || place >= size) return std::min(place, size);
    const auto at = [&](Index i) { return text[static_cast<std::size_t>(i - from)]; };
    const Index end = std::min(place + bytes_, size);
    for (Index i = place; i < end; ++i) {
      if (at(i - 1) == '\n' && std::string_view(" \t\r\n").find(at(i)) == std::string_view::npos) return i;
    }
    if (end == size) return size;
    while (place < end && (at(place) & 0xc0) == 0x80) ++place;
    return place;
  }

  Index bytes_, count_ = 0, all_bytes_ = 0;
  std::vector<Source> files_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace shardwise::llm::detail
