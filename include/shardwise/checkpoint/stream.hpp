// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads the tensors of a checkpoint in one process, part by part: whatever the sizes of tensors, rows and pieces, in
/// a few slabs of memory. Every byte is read once, and its checksum compared.

#include <functional>
#include <string>
#include <vector>

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/manifest_file.hpp>

namespace shardwise {

/// Is told how many bytes of how many are done; what it throws ends the work.
using ByteProgress = std::function<void(Index done, Index all)>;

// Implementation details: not part of the interface.
namespace detail {

inline constexpr Index stream_slab_bytes = 8 << 20;  // a multiple of every element's size

/// Which elements [first, first + count) of a box those of the tensor are: calls f(element of the box, element of the
/// tensor, count) for each run of them that lies together.
template <class F>
void for_each_run_of(const AnyBox& box, const Shape<max_rank>& shape, Index first, Index count, F f) {
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

class CheckpointStream {
 public:
  CheckpointStream(Path folder, const CheckpointManifest& manifest) : reader_(std::move(folder), manifest) {}

  /// Calls f(first, elements, count) until it has got every element of the tensor; `first` counts in row-major order.
  /// Throws `std::runtime_error`, naming file and tensor, if a checksum is wrong: f may have got the elements.
  template <class F>
  void read(const CheckpointTensor& tensor, F f) {
    if (tensor.elements() == 0) return;
    AnyBox slab;
    slab.size = padded(tensor.shape);
    const Index rows = slab.size[0], row = tensor.elements() / rows,
                group = std::min(tensor.group_rows, rows);
    const Index room = stream_slab_bytes / size_of(tensor.type) / (group * row) * group;
    if (room == 0) return read_pieces(tensor, f);
    for (Index begin = 0; begin < rows; begin += room) {
      slab.begin[0] = begin;
      slab.size[0] = std::min(room, rows - begin);
      buffer_.resize(static_cast<std::size_t>(slab.elements() * size_of(tensor.type)));
      reader_.read(tensor, slab, buffer_.data());
      f(begin * row, buffer_.data(), slab.elements());
    }
  }

  /// Calls done(rows, bytes, whether their checksum is right) for each group of rows of a piece.
  template <class Done>
  void verify(const CheckpointTensor& tensor, const CheckpointPiece& piece, Done done) {
    for_each_group(
        tensor, piece, [](Index, const char*, Index) {}, done);
  }
  Path path_of(const CheckpointPiece& piece) { return reader_.files().path_of(piece.file); }

 private:
  /// Where one group of rows is more than a slab: piece by piece.
  template <class F>
  void read_pieces(const CheckpointTensor& tensor, F f) {
    const Index element = size_of(tensor.type);
    for (const CheckpointPiece& piece : tensor.pieces) {
      const AnyBox box = box_of(piece);
      for_each_group(
          tensor, piece,
          [&](Index first, const char* data, Index count) {
            for_each_run_of(box, padded(tensor.shape), first, count, [&](Index from, Index to, Index run) {
              f(to, data + (from - first) * element, run);
            });
          },
          [&](Range rows, Index, bool whole) {
            if (!whole) throw std::runtime_error(damage_text(path_of(piece), tensor, rows));
          });
    }
  }

  /// Reads a piece from its beginning to its end: calls f(element of the piece, elements, count), and when a group of
  /// rows is at its end done(rows, bytes, whether its checksum is right).
  template <class F, class Done>
  void for_each_group(const CheckpointTensor& tensor, const CheckpointPiece& piece, F f, Done done) {
    const AnyBox box = box_of(piece);
    if (box.elements() == 0) return;
    const File& file = reader_.files().opened(piece.file);
    const Index element = size_of(tensor.type), row = box.elements() / box.size[0] * element;
    const Range rows = box.range(0), groups = groups_of(rows, tensor.group_rows);
    for (Index group = groups.begin; group < groups.end(); ++group) {
      const Range part = intersection(rows, {group * tensor.group_rows, tensor.group_rows});
      const Index end = (part.end() - rows.begin) * row, bytes = part.size * row;
      Fingerprint fingerprint;
      for (Index at = end - bytes; at < end;) {
        const Index now = std::min(stream_slab_bytes, end - at);
        buffer_.resize(static_cast<std::size_t>(now));
        file.read(buffer_.data(), now, piece.offset + at);
        fingerprint.add({buffer_.data(), buffer_.size()});
        f(at / element, buffer_.data(), now / element);
        at += now;
      }
      const auto number = static_cast<std::size_t>(group - groups.begin);
      done(part, bytes, fingerprint.value() == piece.checksums[number]);
    }
  }

  CheckpointReader reader_;
  std::vector<char> buffer_;
};

}  // namespace detail

/// Compares every checksum of a checkpoint, and returns what is wrong: of each piece of a tensor the first rows that
/// are damaged, and how many other groups of rows are. Throws `std::runtime_error` if the manifest itself is damaged,
/// or a file is missing or of another size.
inline std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder,
                                                  const ByteProgress& progress = {}) {
  const CheckpointManifest manifest = read_manifest(folder);
  detail::CheckpointStream stream(folder, manifest);
  std::vector<std::string> problems;
  Index done = 0;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      std::string problem;
      Index others = 0;
      stream.verify(tensor, piece, [&](Range rows, Index bytes, bool whole) {
        done += bytes;
        if (progress) progress(done, manifest.bytes());
        if (whole) return;
        others += problem.empty() ? 0 : 1;
        if (problem.empty()) problem = detail::damage_text(stream.path_of(piece), tensor, rows);
      });
      if (others > 0) problem += ", as are " + std::to_string(others) + " more groups of rows";
      if (!problem.empty()) problems.push_back(std::move(problem));
    }
  }
  return problems;
}

}  // namespace shardwise
