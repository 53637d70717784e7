// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads the tensors of a checkpoint in one process, in whatever pieces they lie and whatever their sizes are, in
/// little memory. Every byte is read once, and its checksum compared.

#include <shardwise/checkpoint/manifest_file.hpp>
#include <shardwise/tensor/parts.hpp>

namespace shardwise {

/// Called with the number of bytes that are done, and of all; an exception ends the work.
using ByteProgress = std::function<void(Index done, Index all)>;

namespace detail {

inline AnyBox box_of(const CheckpointPiece& piece) {
  AnyBox box{{}, padded(piece.size)};
  std::copy(piece.begin.begin(), piece.begin.end(), box.begin.begin());
  return box;
}

/// The error for a checksum that is wrong.
inline std::string damage_text(const Path& file, const CheckpointTensor& tensor, Range rows) {
  return text({file.string(), ": tensor \"", tensor.name, "\": the checksum of rows ", rows.begin, " to ",
               rows.end(), " is wrong: the file is damaged"});
}

/// Which elements [first, first + count) of a box those of the tensor are: calls f(element of the box, element of the
/// tensor, count) for each run of them that lies together.
template <class F>
void for_each_run_of(const AnyBox& box, const AnyShape& shape, Index first, Index count, F f) {
  const auto strides = row_major_strides(shape);
  int cut = shape.size() - 1;  // the dimensions after this one are whole
  Index run = box.size[cut];
  while (cut > 0 && box.size[cut] == shape[cut]) run *= box.size[--cut];
  for (Index done = 0; done < count;) {
    const Index element = first + done, within = element % run;
    Index place = box.begin[cut] * strides[cut] + within;
    Index number = element / run;
    for (int dim = cut; dim-- > 0; number /= box.size[dim]) {
      place += (box.begin[dim] + number % box.size[dim]) * strides[dim];
    }
    const Index now = std::min(run - within, count - done);
    f(element, place, now);
    done += now;
  }
}

/// Opens files when they are needed: there may be more of them than a process may have open.
class CheckpointReader {
 public:
  /// The manifest must stay where it is.
  CheckpointReader(Path folder, const CheckpointManifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest), files_(manifest.files.size()) {}

  Path path_of(const CheckpointPiece& piece) const { return folder_ / manifest_.files[piece.file].name; }
  Index bytes_read() const { return bytes_read_; }

  /// Reads `rows` of a piece, which begin and end with groups (or with the piece): calls f(element of the piece,
  /// elements, count) for one slab after the other, and, when a group of rows is at its end, done(rows, whether its
  /// checksum is right).
  template <class F, class Done>
  void for_each_group(const CheckpointTensor& tensor, const CheckpointPiece& piece, Range rows, F f,
                      Done done) {
    const AnyBox box = box_of(piece);
    if (rows.size == 0 || box.elements() == 0) return;
    const Range all = box.range(0), groups = groups_of(rows, tensor.group_rows);
    const Index element = size_of(tensor.type), row = box.elements() / all.size * element;
    const File& file = opened(piece);
    for (Index group = groups.begin; group < groups.end(); ++group) {
      const Range part = intersection(rows, {group * tensor.group_rows, tensor.group_rows});
      const Index end = (part.end() - all.begin) * row, bytes = part.size * row;
      Fingerprint fingerprint;
      for (Index at = end - bytes; at < end;) {
        const Index now = std::min(slab_bytes, end - at);
        const auto size = static_cast<std::size_t>(now);
        if (slab_.size() < size) slab_.resize(size);
        file.read(slab_.data(), now, piece.offset + at);
        fingerprint.add({slab_.data(), size});
        bytes_read_ += now;
        f(at / element, slab_.data(), now / element);
        at += now;
      }
      const Index number = group - groups_of(all, tensor.group_rows).begin;
      done(part, fingerprint.value() == piece.checksums[static_cast<std::size_t>(number)]);
    }
  }

  /// Calls f(element of the tensor, elements, count) for each run of elements of its `rows`, which begin and end with
  /// groups (or with the tensor). Throws `DamagedCheckpoint`, naming file and tensor, if a checksum is wrong: f may
  /// have got the elements.
  template <class F>
  void for_each_run(const CheckpointTensor& tensor, Range rows, F f) {
    const Index element = size_of(tensor.type);
    for (const CheckpointPiece& piece : tensor.pieces) {
      const AnyBox box = box_of(piece);
      for_each_group(
          tensor, piece, intersection(box.range(0), rows),
          [&](Index first, const char* data, Index count) {
            for_each_run_of(box, padded(tensor.shape), first, count, [&](Index from, Index to, Index run) {
              f(to, data + (from - first) * element, run);
            });
          },
          [&](Range part, bool whole) {
            if (!whole) throw DamagedCheckpoint(damage_text(path_of(piece), tensor, part));
          });
    }
  }

  /// Reads such rows, whole, to `target`.
  void read(const CheckpointTensor& tensor, Range rows, char* target) {
    const Index element = size_of(tensor.type), begin = rows.begin * tensor.row_elements();
    for_each_run(tensor, rows, [&](Index to, const char* data, Index count) {
      std::memcpy(target + (to - begin) * element, data, static_cast<std::size_t>(count * element));
    });
  }

  /// Calls f(first, elements, count) until it has got every element of the tensor in the range `wanted`; they and
  /// `first` count in row-major order. As `for_each_run`, with few and long ones.
  template <class F>
  void for_each_slab(const CheckpointTensor& tensor, Range wanted, F f) {
    if (wanted.size == 0) return;
    const Index row = tensor.row_elements(), element = size_of(tensor.type);
    const Index group = std::min(tensor.group_rows, tensor.rows()),
                room = slab_bytes / element / (group * row) * group;
    const Index first = wanted.begin / row / group * group,
                last = std::min(tensor.rows(), ((wanted.end() - 1) / row / group + 1) * group);
    const auto pass_on = [&](Index begin, const char* data, Index count) {
      const Range part = intersection(wanted, {begin, count});
      if (part.size > 0) f(part.begin, data + (part.begin - begin) * element, part.size);
    };
    if (room == 0) return for_each_run(tensor, {first, last - first}, pass_on);
    std::vector<char> slab(static_cast<std::size_t>(std::min(room, last - first) * row * element));
    for (Index begin = first; begin < last; begin += room) {
      const Range part{begin, std::min(room, last - begin)};
      read(tensor, part, slab.data());
      pass_on(begin * row, slab.data(), part.size * row);
    }
  }

  static constexpr Index slab_bytes = 8 << 20;  // a multiple of every element's size

 private:
  static constexpr std::size_t most_open = 32;

  /// Until the next call.
  const File& opened(const CheckpointPiece& piece) {
    auto& file = files_[piece.file];
    if (file) return *file;
    if (open_.size() == most_open) {
      for (std::size_t each : open_) files_[each].reset();
      open_.clear();
    }
    file.emplace(path_of(piece), O_RDONLY);
    open_.push_back(piece.file);
    return *file;
  }

  Path folder_;
  const CheckpointManifest& manifest_;
  std::vector<std::optional<File>> files_;
  std::vector<std::size_t> open_;
  std::vector<char> slab_;
  Index bytes_read_ = 0;
};

}  // namespace detail

/// Compares every checksum of a checkpoint, and returns what is wrong: of each piece of a tensor the first rows that
/// are damaged, and how many other groups of rows are. Throws `std::runtime_error` if the manifest itself is damaged,
/// or a file is missing or of another size.
inline std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder,
                                                  const ByteProgress& progress = {}) {
  const CheckpointManifest manifest = read_manifest(folder);
  detail::CheckpointReader reader(folder, manifest);
  std::vector<std::string> problems;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      std::string problem;
      Index others = 0;
      auto read = [&](Index, const char*, Index) {
        if (progress) progress(reader.bytes_read(), manifest.bytes());
      };
      auto done = [&](Range rows, bool whole) {
        if (whole) return;
        others += problem.empty() ? 0 : 1;
        if (problem.empty()) problem = detail::damage_text(reader.path_of(piece), tensor, rows);
      };
      reader.for_each_group(tensor, piece, detail::rows_of(piece), read, done);
      if (others > 0) problem += ", as are " + std::to_string(others) + " more groups of rows";
      if (!problem.empty()) problems.push_back(std::move(problem));
    }
  }
  return problems;
}

}  // namespace shardwise
