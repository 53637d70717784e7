// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All ranks write one set of files: rank 0 the headers, every rank its own blocks at their places, all under
/// temporary names. When everything is on the device, rank 0 renames.
///
/// Of a crash at any moment remain the old files, or the new, or (where several files replace several) files
/// without an index, which cannot be loaded: never half a file, and never some old and some new ones together.

#include <shardwise/io/agreement.hpp>
#include <shardwise/io/output_files.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// Writes this rank's block at its place, converted to the file's type. Returns the bytes.
inline Index write_block(const File& file, const UntypedBlock<const char>& block,
                         const StoredTensor& stored) {
  constexpr Index piece = 1 << 16;  // elements that are converted at a time
  const StoredType type = stored_as(block.type);
  const Index element = size_of(stored.type);
  std::vector<char> converted;
  Index bytes = 0;
  for_each_run(block.extents, [&](Index local, Index global, Index count) {
    bytes += count * element;
    const Index place = stored.offset + global * element;
    if (type == stored.type) return file.write(block.at(local), count * element, place);
    for (Index done = 0; done < count; done += piece) {
      const Index now = std::min(piece, count - done);
      converted.resize(static_cast<std::size_t>(now * element));
      convert(type, block.at(local + done), stored.type, converted.data(), now);
      file.write(converted.data(), now * element, place + done * element);
    }
  });
  return bytes;
}

/// Removes a file if it is there.
inline void remove_file(const Path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_file_error(path, "cannot be removed");
}

/// The files of one plan as they come to be.
class ParallelWrite {
 public:
  ParallelWrite(const Communicator& ranks, const OutputPlan& plan) : ranks_(ranks), plan_(plan) {}

  /// Collective; throws `std::runtime_error` on all ranks, and then the temporary files are gone. Returns the
  /// bytes of elements that this rank wrote.
  Index run(std::string_view task) {
    Index written = 0;
    auto step = [&](auto work) {
      Problems problems;
      problems.guard(work);
      if (!ranks_.agree(problems.none())) temporaries_.clear();  // before any rank goes on
      problems.throw_together(ranks_, task);
    };
    token_ = agreed_token(task);
    step([&] {
      if (ranks_.rank() == 0) create();
    });
    step([&] { written = write_blocks(); });
    step([&] {
      if (ranks_.rank() == 0) commit();
    });
    return written;
  }

 private:
  /// A token of rank 0, and the certainty that all ranks have the same plan.
  std::uint32_t agreed_token(std::string_view task) const {
    std::string text = plan_.index;
    for (const OutputFile& file : plan_.files) text += file.target.string() + '\0' + file.head;
    const std::array<Index, 2> mine{static_cast<Index>(std::hash<std::string>{}(text)),
                                    static_cast<Index>(temporary_token())};
    const auto size = static_cast<std::size_t>(ranks_.size());
    std::vector<Index> all(2 * size), counts(size, 2), offsets(size);
    for (std::size_t r = 0; r < size; ++r) offsets[r] = static_cast<Index>(2 * r);
    ranks_.all_gather(mine.data(), all.data(), counts, offsets, data_type<Index>);
    for (std::size_t r = 1; r < size; ++r) {
      if (all[2 * r] == all[0]) continue;
      throw std::runtime_error(std::string(task) + ": rank " + std::to_string(r) +
                               " writes other tensors, or to another place, than rank 0");
    }
    return static_cast<std::uint32_t>(all[1]);
  }

  Path index_path() const { return plan_.folder / "model.safetensors.index.json"; }

  void create() {
    if (plan_.in_folder) {
      std::error_code failure;
      const bool fresh = std::filesystem::create_directories(plan_.folder, failure);
      if (failure) throw_file_error(plan_.folder, "cannot be created", failure.value());
      if (fresh) sync_folder(folder_of(plan_.folder));
    }
    temporaries_.reserve(plan_.files.size() + 1);
    for (const OutputFile& file : plan_.files) create(file.target, file.head);
    if (!plan_.index.empty()) create(index_path(), plan_.index);
  }
  void create(const Path& target, const std::string& text) {
    temporaries_.emplace_back(target, token_);
    temporaries_.back().file().write(text.data(), static_cast<Index>(text.size()), 0);
  }

  Index write_blocks() const {
    Index written = 0;
    for (const OutputFile& output : plan_.files) {
      std::optional<File> file;
      for (const StoredTensor& stored : output.header.tensors) {
        const WrittenTensor& source = *output.sources.at(stored.name);
        if (!source.owner || source.block.extents.elements() == 0) continue;
        if (!file) file.emplace(temporary_path(output.target, token_), O_WRONLY);
        written += write_block(*file, source.block, stored);
      }
      if (file) file->sync();
    }
    for (const TemporaryFile& temporary : temporaries_) temporary.file().sync();
    return written;
  }

  void commit() {
    const bool several = !plan_.index.empty();
    if (several) {  // the old index must not list new files
      remove_file(index_path());
      sync_folder(plan_.folder);
    }
    for (TemporaryFile& temporary : temporaries_) temporary.commit();  // the index is the last
    sync_folder(plan_.folder);
    if (!plan_.in_folder) return;
    remove_file(several ? plan_.folder / "model.safetensors" : index_path());  // of an older checkpoint
    sync_folder(plan_.folder);
  }

  const Communicator& ranks_;
  const OutputPlan& plan_;
  std::uint32_t token_ = 0;
  std::vector<TemporaryFile> temporaries_;  // rank 0's
};

/// Plans and writes what collect(list) puts into a list; what it throws is an error of all ranks.
template <class Collect>
Index write_together(const Communicator& ranks, std::string_view task, const Path& path,
                     const SaveOptions& options, Collect collect) {
  Problems problems;
  std::vector<WrittenTensor> tensors;
  OutputPlan plan;
  problems.guard([&] {
    collect(tensors);
    plan = plan_output(path, tensors, options);
  });
  problems.throw_together(ranks, task);
  return ParallelWrite(ranks, plan).run(task);
}

}  // namespace shardwise::detail
