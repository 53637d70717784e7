// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All ranks write one set of files under temporary names: rank 0 the headers, every rank its own blocks. When
/// everything is on the device, rank 0 renames.
///
/// The folder always holds the old tensors or the new, whole. One step makes the new ones count: renaming the one file
/// or the index, or removing the model.safetensors that several files replace. Then the files beside them, such as
/// config.json, are renamed, and the files that the old index listed are removed: a crash in between leaves files that
/// no index lists. If a file beside them changes, the folder changes places with a new one instead, so that all count
/// in one step. Where that is impossible, the old files beside them are NAME.replaced until the new ones are there: a
/// crash in between leaves no config.json, so nothing reads the folder as a model.

#include <deque>
#include <set>

#include <shardwise/base/bodies.hpp>
#include <shardwise/io/new_folder.hpp>
#include <shardwise/weights/brace_expansion.hpp>
#include <shardwise/weights/output_files.hpp>
#include <shardwise/weights/ranks.hpp>
#include <shardwise/weights/tensors_of_all.hpp>

namespace shardwise::detail {

/// A tensor to be written, and this rank's part of it.
struct WrittenTensor {
  std::string name;
  std::vector<Index> shape;  // in the file: its own, or with adjacent dimensions merged
  AnyTensor tensor;
  bool owner = false;           // of ranks with the same block one writes it
  Index number = 0, count = 1;  // which block of `tensor` it is, of how many: see weights/brace_expansion.hpp
};

/// Writes this rank's block at its place, converted to the file's type. Returns the bytes.
inline Index write_block(const File& file, const WrittenTensor& source, const StoredTensor& stored) {
  const StoredType type = stored_as(source.tensor.type);
  const auto block = block_here(source.tensor, source.number, source.count);
  std::vector<char> buffer;
  Index written = 0;
  for_each_run(block, [&](Index local, Index global, Index count) {
    const Index piece = type == stored.type ? count : 1 << 16;  // elements that are converted at a time
    for (Index done = 0; done < count; done += piece) {
      const auto bytes = converted_elements(type, block.data + (local + done) * size_of(type), stored.type,
                                            std::min(piece, count - done), buffer);
      file.write(bytes, stored.offset + (global + done) * size_of(stored.type));
      written += std::ssize(bytes);
    }
  });
  return written;
}

/// Removes a file if it is there.
inline void remove_file(const Path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_file_error(path, "cannot be removed");
}

/// The safetensors files that an index lists. An index that cannot be read lists none: no checkpoint is lost with
/// it, and its files stay.
inline std::set<std::string> files_listed_in(const Path& index) {
  std::set<std::string> names;
  try {
    for_each_listed(index, [&](const std::string&, const std::string& file, const JsonPart&) {
      if (file.ends_with(".safetensors")) names.insert(file);
    });
  } catch (const std::exception&) {
    names.clear();
  }
  return names;
}

/// The files of one plan as they come to be.
class ParallelWrite {
 public:
  ParallelWrite(CollectiveWrite& work, OutputPlan plan, const std::vector<WrittenTensor>& tensors)
      : work_(work), plan_(std::move(plan)) {
    for (const WrittenTensor& tensor : tensors) sources_.emplace(tensor.name, &tensor);
  }

  /// Collective; throws `std::runtime_error` on all ranks, and then the temporary files are gone. Returns the
  /// bytes of elements that this rank wrote.
  Index run() {
    Index written = 0;
    const auto end_step = [&] { work_.end_step([&] { temporaries_.clear(); }); };
    agree_on_names();
    work_.on_first([&] { create(); });
    end_step();
    work_.on_each([&] { written = write_blocks(); });
    end_step();
    work_.on_first([&] { commit(); });
    end_step();
    return written;
  }

 private:
  /// Rank 0's names are those of all ranks, which must have the same plan.
  void agree_on_names() {
    Fnv1a texts;
    texts.add(plan_.index);
    for (const auto& [name, text] : plan_.beside) texts.add(name + '\0');
    for (const OutputFile& file : plan_.files) texts.add(file.target.string() + '\0' + file.head);
    const std::array<Index, 2> mine{std::bit_cast<Index>(texts.value), static_cast<Index>(name_token())};
    const std::vector<Index> all = work_.ranks.all_gather(mine);
    for (std::size_t r = 1; 2 * r < all.size(); ++r) {
      if (all[2 * r] == all[0]) continue;
      fail<std::runtime_error>(
          {work_.task, ": rank ", r, " writes other tensors, or to another place, than rank 0"});
    }
    if (plan_.several()) name_files(plan_, static_cast<std::uint32_t>(all[1]));
  }

  /// Several files have a token in their names where others may have the names without: those must stay until the new
  /// index counts.
  std::uint32_t name_token() const {
    std::error_code ignored;  // a folder that cannot be examined cannot be written to either
    const auto is_there = [&](const Path& file) { return std::filesystem::exists(file, ignored); };
    const bool taken = is_there(index_path()) || is_there(plan_.files.front().target);
    return taken && work_.ranks.rank() == 0 ? temporary_token() : 0;
  }

  Path index_path() const { return plan_.folder / "model.safetensors.index.json"; }

  void create() {
    if (plan_.in_folder || !plan_.beside.empty()) {
      std::error_code failure;
      const bool fresh = std::filesystem::create_directories(plan_.folder, failure);
      if (failure) throw_file_error(plan_.folder, "cannot be created", failure.value());
      if (fresh) sync_folder(folder_of(plan_.folder));
    }
    for (const OutputFile& file : plan_.files) create(file.target, file.head);
    if (plan_.several()) create(index_path(), plan_.index);
    for (const auto& [name, text] : plan_.beside) {
      if (text) create(plan_.folder / name, *text);
    }
  }
  /// A file with a new name has the access of the weights that it replaces.
  void create(const Path& target, const std::string& text) {
    Path like = plan_.files.front().target;
    for (const Path& old :
         {index_path(), plan_.folder / "model.safetensors", plan_.folder / "pytorch_model.bin"}) {
      if (plan_.in_folder && std::filesystem::exists(old)) like = old;
    }
    temporaries_.emplace_back(target, like, work_.token).file().write(text, 0);
  }

  Index write_blocks() const {
    Index written = 0;
    for (const OutputFile& output : plan_.files) {
      std::optional<File> file;
      for (const StoredTensor& stored : output.header.tensors) {
        const auto found = sources_.find(stored.name);
        if (found == sources_.end()) continue;  // another part of the model has it
        const WrittenTensor& source = *found->second;
        if (!source.owner || source.tensor.local_elements() == 0) continue;
        if (!file) file.emplace(temporary_path(output.target, work_.token), O_WRONLY);
        written += write_block(*file, source, stored);
      }
      if (file) file->sync();
    }
    for (const TemporaryFile& temporary : temporaries_) temporary.file().sync();
    return written;
  }

  void commit() {
    const auto replaced = plan_.in_folder ? files_listed_in(index_path()) : std::set<std::string>{};
    const std::vector<Path> others = others_beside();
    if (!others.empty() && exchange_folder(replaced, others)) return;
    rename_files(others);
    sync_folder(plan_.folder);
    if (plan_.several()) {
      remove_file(plan_.folder / "model.safetensors");
      sync_folder(plan_.folder);
    }
    for (const bool last : {false, true}) {  // config.json comes last
      for (TemporaryFile& file : temporaries_)
        if (!file.path().empty() && (last || file.target().filename() != "config.json")) file.rename();
    }
    for (const auto& [name, text] : plan_.beside) remove_file(set_aside(plan_.folder / name));
    if (plan_.in_folder && !plan_.several()) remove_file(index_path());
    sync_folder(plan_.folder);
    remove_all_but_new(replaced);
  }

  /// The files beside the weights that are there, if any of them gets another text or is removed.
  std::vector<Path> others_beside() const {
    std::vector<Path> there;
    bool other = false;
    for (const auto& [name, text] : plan_.beside) {
      if (!status_of(plan_.folder / name)) continue;
      there.push_back(plan_.folder / name);
      other |= !text || read_text(there.back()) != *text;
    }
    return other ? there : std::vector<Path>{};
  }
  static Path set_aside(const Path& file) { return Path(file.string() + ".replaced"); }

  /// Makes weights and other files beside them count in one step: the folder changes places with a new one, which has
  /// links to the files that stay. Returns false where that is impossible: if it has folders in it, a job is at work in
  /// it, or the file system has no links.
  bool exchange_folder(std::set<std::string> replaced, const std::vector<Path>& others) {
    try {
      const File old(plan_.folder, O_RDONLY | O_DIRECTORY);
      if (std::filesystem::equivalent(plan_.folder, ".") || (!old.lock() && errno == EWOULDBLOCK))
        return false;
      NewFolder folder(plan_.folder, work_.token, [](const Path&) {});
      for (const TemporaryFile& temporary : temporaries_) {
        temporary.link_into(folder.path());
        replaced.insert({temporary.path().filename(), temporary.target().filename()});
      }
      if (plan_.in_folder) replaced.insert({"model.safetensors", index_path().filename()});
      for (const Path& file : others) replaced.insert({file.filename(), set_aside(file).filename()});
      for (const auto& entry : std::filesystem::directory_iterator(plan_.folder)) {
        const Path name = entry.path().filename();
        if (std::filesystem::is_directory(entry.symlink_status())) return false;
        if (!replaced.contains(name)) std::filesystem::create_hard_link(entry.path(), folder.path() / name);
      }
      folder.commit();
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }

  /// The one file; or several, which have names that nothing lists, and then their index.
  void rename_files(const std::vector<Path>& others) {
    const std::size_t count = plan_.several() ? plan_.files.size() : 0;
    try {
      for (const Path& file : others) std::filesystem::rename(file, set_aside(file));
      for (std::size_t i = 0; i < count; ++i) temporaries_[i].rename();
      sync_folder(plan_.folder);
      temporaries_[count].rename();
    } catch (...) {
      for (std::size_t i = 0; i < count; ++i) ::unlink(plan_.files[i].target.c_str());
      for (const Path& file : others) ::rename(set_aside(file).c_str(), file.c_str());
      throw;
    }
  }

  void remove_all_but_new(std::set<std::string> names) const {
    for (const OutputFile& file : plan_.files) names.erase(file.target.filename().string());
    for (const std::string& name : names) remove_file(plan_.folder / name);
    if (!names.empty()) sync_folder(plan_.folder);
  }

  CollectiveWrite& work_;
  OutputPlan plan_;
  std::map<std::string_view, const WrittenTensor*> sources_;
  std::deque<TemporaryFile> temporaries_;  // rank 0's
};

/// Whether all ranks write the same tensors, or each those of its part of a model.
enum class Writers : std::uint8_t { all_alike, each_its_part };

/// The tensors of all parts, of which those that several have are one's: that of the lowest rank.
inline std::vector<StoredTensor> stored_by_all(const Communicator& ranks, std::string_view task,
                                               std::vector<WrittenTensor>& tensors) {
  std::vector<TensorOfAll> mine;
  for (const WrittenTensor& tensor : tensors) {
    const MeshView& mesh = tensor.tensor.mesh;
    if (!is_first_rank(mesh)) continue;
    mine.push_back({tensor.name, stored_as(tensor.tensor.type), tensor.shape, "", mesh.rank_in_job()});
  }
  std::map<std::string, int> first_ranks;
  std::vector<StoredTensor> stored;
  for (const TensorOfAll& tensor : tensors_of_all(ranks, task, mine)) {
    first_ranks[tensor.name] = tensor.first_rank;
    stored.push_back({tensor.name, tensor.type, tensor.shape});
  }
  for (WrittenTensor& tensor : tensors) {
    tensor.owner &= first_ranks.at(tensor.name) == tensor.tensor.mesh.place().ranks.first;
  }
  return stored;
}

/// Plans and writes tensors, and the files beside them; which rank writes each is noted in them. Collective; a failure
/// on any rank is an error of all.
Index plan_and_write(const Communicator& ranks, std::string_view task, const Path& path,
                     const SaveOptions& options, std::vector<WrittenTensor>& tensors, Writers writers);

/// The same of the tensors that collect(list) puts into a list; an error of it is an error of all ranks.
template <class Collect>
Index write_together(const Communicator& ranks, std::string_view task, const Path& path,
                     const SaveOptions& options, Collect collect, Writers writers = Writers::all_alike) {
  std::vector<WrittenTensor> tensors;
  throw_on_all_ranks(ranks, task, [&] { collect(tensors); });
  return plan_and_write(ranks, task, path, options, tensors, writers);
}

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE Index plan_and_write(const Communicator& ranks, std::string_view task, const Path& path,
                                      const SaveOptions& options, std::vector<WrittenTensor>& tensors,
                                      Writers writers) {
  std::vector<StoredTensor> stored;
  if (writers == Writers::each_its_part) {
    stored = stored_by_all(ranks, task, tensors);
  } else {
    for (const WrittenTensor& tensor : tensors) {
      stored.push_back({tensor.name, stored_as(tensor.tensor.type), tensor.shape});
    }
  }
  OutputPlan plan;
  throw_on_all_ranks(ranks, task, [&] { plan = plan_output(path, std::move(stored), options); });
  CollectiveWrite work(ranks, std::string(task));
  return ParallelWrite(work, std::move(plan), tensors).run();
}

#endif

}  // namespace shardwise::detail
