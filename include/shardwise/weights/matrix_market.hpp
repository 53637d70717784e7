// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Matrix Market's text files of one matrix, dense (`array`) or sparse (`coordinate`), as dense tensors.
///
/// ```
/// const auto a = load_matrix_market<double, Shard<0>>(mesh, "a.mtx");   // scipy.io.mmwrite("a.mtx", a)
/// save_matrix_market("x.mtx", x);                                       // scipy.io.mmread("x.mtx")
/// ```
/// Lines have no fixed length. So each rank reads the whole file in pieces, but parses and keeps only the numbers of
/// its block.

#include <charconv>
#include <cmath>

#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/file.hpp>
#include <shardwise/tensor/distribute.hpp>

namespace shardwise {

namespace detail {

/// Removes the next word of a line, and returns it.
inline std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
  line.remove_prefix(word.size());
  return word;
}

/// A file of Matrix Market: its header, and then its lines. Errors are `std::runtime_error`s that name file and line.
class MatrixMarketFile {
 public:
  bool sparse = false, pattern = false, general = false, skew = false;
  Shape<2> shape{};
  Index entries = 0;

  /// Reads the header. Throws also if it is wrong, or if the file is too short for its entries.
  explicit MatrixMarketFile(const Path& path) : file_(path, O_RDONLY), bytes_(file_.size()) {
    std::string banner(next_of_any());
    for (char& c : banner) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    std::string_view rest = banner;
    if (take_word(rest) != "%%matrixmarket" || take_word(rest) != "matrix")
      refuse({"it does not begin with '%%MatrixMarket matrix'"});
    const std::string_view format = take_word(rest), field = take_word(rest), symmetry = take_word(rest);
    sparse = format == "coordinate", pattern = sparse && field == "pattern";
    general = symmetry == "general", skew = symmetry == "skew-symmetric";
    if (!sparse && format != "array")
      refuse({"its format is ", quoted(format), ", expected array or coordinate"});
    if (!pattern && field != "integer" && field != "real")
      refuse({"its elements are ", quoted(field), ", expected real or integer", sparse ? " or pattern" : ""});
    if (!general && !skew && symmetry != "symmetric")
      refuse({"its matrix is ", quoted(symmetry), ", expected general, symmetric or skew-symmetric"});

    std::string_view sizes = next();
    constexpr Index most = Index{1} << 59;  // which no tensor has
    for (Index& extent : shape.values) extent = index(sizes, 0, most, "a number of rows or columns is");
    if (!general && shape[0] != shape[1]) refuse({"a matrix of ", shape, " is not ", symmetry});
    const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
    const double numbers = general ? rows * columns : rows * (rows + (skew ? -1 : 1)) / 2;
    entries = sparse ? index(sizes, 0, most, "the number of entries is")
                     : static_cast<Index>(std::min(numbers, 1e18));
    if (!take_word(sizes).empty()) refuse({"it has more numbers than expected"});
    if (entries > (bytes_ + 1) / (sparse ? 4 : 2))  // even of one digit each
      refuse({"the file has ", bytes_, " bytes, too few for ", entries, " entries"});
  }

  /// The next line that is neither empty nor a comment, or nothing at the end of the file.
  std::string_view next() {
    while (at_ < buffer_.size() || read_ < bytes_) {
      const std::string_view line = next_of_any();
      if (const auto word = line.find_first_not_of(" \t\r"); word != line.npos && line[word] != '%')
        return line;
    }
    return {};
  }
  /// The next number of a line, which must be in [least, most].
  Index index(std::string_view& line, Index least, Index most, const char* subject) const {
    const std::string_view word = take_word(line);
    Index value = -1;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (problem != std::errc() || end != word.data() + word.size() || value < least || value > most)
      refuse({subject, " ", quoted(word), ", expected ", least, " to ", most});
    return value;
  }
  /// The number that is the rest of a line.
  template <class T>
  T number(std::string_view line) const {
    const std::string_view all = line, word = take_word(line);
    const char* const begin = word.data() + (word.starts_with('+') && !word.starts_with("+-") ? 1 : 0);
    const char* const last = word.data() + word.size();
    T value{};
    const auto [end, problem] = std::from_chars(begin, last, value);
    if (end != last || !take_word(line).empty() || problem == std::errc::invalid_argument)
      refuse({"found ", quoted(all), ", expected a number"});
    if (problem == std::errc()) return value;
    long double wide = HUGE_VALL;
    std::from_chars(begin, last, wide);
    if (std::abs(wide) > 1) refuse({quoted(all), " is out of the range of ", name_of(data_type_of<T>())});
    return static_cast<T>(wide);  // 0, with its sign
  }
  static std::string quoted(std::string_view words) {
    return "'" + without_controls(excerpt(std::string(words), 40)) + "'";
  }
  [[noreturn]] void refuse(std::initializer_list<TextPart> parts) const {
    fail<std::runtime_error>({file_.path().string(), ": line ", line_, ": ", text(parts)});
  }

 private:
  static constexpr Index piece = 1 << 20;

  std::string_view next_of_any() {
    ++line_;
    auto end = buffer_.find('\n', at_);
    if (end == buffer_.npos && read_ < bytes_) {
      const std::size_t held = buffer_.erase(0, std::exchange(at_, 0)).size();
      const Index more = std::min(piece, bytes_ - read_);
      buffer_.resize(held + static_cast<std::size_t>(more));
      file_.read(buffer_.data() + held, more, std::exchange(read_, read_ + more));
      end = buffer_.find('\n', held);
      if (end == buffer_.npos && read_ < bytes_) refuse({"it has more than ", piece, " bytes"});
    }
    const std::string_view line = std::string_view(buffer_).substr(at_, end - at_);
    at_ = std::min(end, buffer_.size() - 1) + 1;
    return line;
  }

  File file_;
  Index bytes_, read_ = 0, line_ = 0;
  std::string buffer_;
  std::size_t at_ = 0;
};

/// Reads the entries that belong to a block of zeros. Throws unless the file has all, and nothing else.
template <class T>
void read_entries(MatrixMarketFile& file, const View<T, 2>& block) {
  const auto add = [&](Index i, Index j, T value) {  // -0 stays in dense files
    T& element = block.data[(i - block.begin[0]) * block.size[1] + j - block.begin[1]];
    element = file.sparse ? element + value : value;
  };
  const auto has = [&](Index i, Index j) {
    return i >= block.begin[0] && i < block.begin[0] + block.size[0] && j >= block.begin[1] &&
           j < block.begin[1] + block.size[1];
  };
  Index i = file.skew, j = 0;
  for (Index entry = 0; entry < file.entries; ++entry) {
    std::string_view line = file.next();
    if (line.empty()) file.refuse({"the file ends after ", entry, " of ", file.entries, " entries"});
    if (file.sparse) {
      i = file.index(line, 1, file.shape[0], "the row is") - 1;
      j = file.index(line, 1, file.shape[1], "the column is") - 1;
      if (!file.general && i < j + file.skew)
        file.refuse(
            {"row ", i + 1, " of column ", j + 1, " is above the diagonal, or on that of skew-symmetry"});
    }
    const bool here = has(i, j), mirrored = !file.general && i != j && has(j, i);
    if (here || mirrored) {
      if (file.pattern && !take_word(line).empty()) file.refuse({"a pattern has no numbers"});
      const T value = file.pattern ? T{1} : file.number<T>(line);
      if (here) add(i, j, value);
      if (mirrored) add(j, i, file.skew ? -value : value);
    }
    if (!file.sparse && ++i == file.shape[0]) i = file.general ? (++j, 0) : ++j + file.skew;
  }
  if (const std::string_view line = file.next(); !line.empty())
    file.refuse({MatrixMarketFile::quoted(line), " follows the last of ", file.entries, " entries"});
}

/// Writes the numbers of a matrix, column by column, from `begin` on. With `Dim` 1, a rank has whole columns, which are
/// one part of the file; with 0, a part of each column. It makes their text twice: first to know where they belong.
template <int Dim, TensorType X>
void write_entries(const X& x, const Path& path, Index begin) {
  const auto own = redistribute_to<with_layout<X, packed(everywhere(X::MeshOf::axes, shard(Dim)))>>(x);
  const Communicator& ranks = x.mesh().communicator();
  const auto block = own.view();
  const auto parts = static_cast<std::size_t>(Dim == 1 ? 1 : x.shape()[1]);
  const auto for_each_text = [&](auto f) {  // f(part, text), in order
    std::string text;
    for (Index j = 0; j < block.size[1]; ++j) {
      for (Index i = 0; i < block.size[0]; ++i) {
        char digits[32];
        text.append(digits, std::to_chars(digits, std::end(digits), block.data[i * block.size[1] + j]).ptr) +=
            '\n';
        if (text.size() < 1 << 20 && (i + 1 < block.size[0] || (Dim == 1 && j + 1 < block.size[1]))) continue;
        f(Dim == 1 ? 0 : static_cast<std::size_t>(j), text);
        text.clear();
      }
    }
  };
  std::vector<Index> lengths(parts), places(parts);
  for_each_text([&](std::size_t part, const std::string& text) { lengths[part] += std::ssize(text); });
  const std::vector<Index> all = ranks.all_gather(lengths);  // blocks are in the order of the ranks
  for (std::size_t part = 0; part < parts; ++part) {
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (rank == ranks.rank()) places[part] = begin;
      begin += all[static_cast<std::size_t>(rank) * parts + part];
    }
  }
  throw_on_all_ranks(ranks, "save_matrix_market", [&] {
    const File file(path, O_WRONLY);
    for_each_text([&](std::size_t part, const std::string& text) {
      file.write(text, std::exchange(places[part], places[part] + std::ssize(text)));
    });
    file.sync();
  });
}

}  // namespace detail

/// The matrix in a file, of T: float or double. Elements are real or integer, those of a `coordinate` file also
/// pattern, which are 1; its other elements are 0, and entries with the same indices are added, as SciPy does. The
/// matrix is general, symmetric or skew-symmetric. Numbers are rounded to nearest, and those below the range of T to 0,
/// in every locale; numbers outside of the range of `long double` are refused. All ranks must see the file.
/// Collective: throws `std::runtime_error` on all ranks if it cannot be read, is complex or Hermitian, is truncated, or
/// has too many entries or one that does not fit: the error names the line. Where the tensor becomes `Partial<Sum>`,
/// the first rank takes the values.
template <class T, class... Placements, class MeshType,
          WellFormed Fine = detail::distributed_problem<T, 2, MeshType, Placements...>>
  requires std::is_floating_point_v<T>
auto load_matrix_market(const MeshType& mesh, const std::filesystem::path& path) {
  std::optional<detail::MatrixMarketFile> file;
  throw_on_all_ranks(mesh.communicator(), "load_matrix_market", [&] { file.emplace(path); });
  auto x = empty<T, Placements...>(mesh, file->shape);
  throw_on_all_ranks(mesh.communicator(), "load_matrix_market", [&] {
    const auto block = x.writable();
    std::fill_n(block.data, block.elements(), T{0});
    if (!adds_zeros(x.layout, mesh.coordinates())) detail::read_entries(*file, block);
  });
  return x;
}

/// Writes a matrix of floats or doubles as an `array` file, under a temporary name, which becomes `path` when it is
/// complete. Each number has as few digits as give the same number again, so what is loaded has the same bits, except
/// for those of NaN. Finishes pending sums. Collective: throws `std::runtime_error` on all ranks if it cannot be
/// written.
template <TensorType X>
  requires(X::rank == 2 && std::is_floating_point_v<typename X::Element>)
void save_matrix_market(const std::filesystem::path& path, const X& x) {
  const Communicator& ranks = x.mesh().communicator();
  const std::string header = "%%MatrixMarket matrix array real general\n" + std::to_string(x.shape()[0]) +
                             " " + std::to_string(x.shape()[1]) + "\n";
  std::optional<TemporaryFile> made;
  throw_on_all_ranks(ranks, "save_matrix_market", [&] {
    if (ranks.rank() != 0) return;
    made.emplace(path);
    made->file().write(header, 0);
  });
  const std::string temporary = ranks.broadcast(made ? made->path().string() : "");
  const auto begin = static_cast<Index>(header.size());
  if (x.shape()[1] >= ranks.size()) {
    detail::write_entries<1>(x, temporary, begin);
  } else {
    detail::write_entries<0>(x, temporary, begin);
  }
  throw_on_all_ranks(ranks, "save_matrix_market", [&] {
    if (made) made->commit();
  });
}

}  // namespace shardwise
