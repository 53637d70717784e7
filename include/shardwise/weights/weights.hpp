// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The weights of a model in files, as Hugging Face lays them out: one safetensors file, or several with an
/// index. It is read as one file is.
///
/// ```
/// Weights weights("llama/");     // model.safetensors, or model.safetensors.index.json and the files it lists
/// weights.read_block("lm_head.weight", block);
/// ```

#include <shardwise/weights/safetensors.hpp>

namespace shardwise {

/// One safetensors file or a checkpoint of several, open and mapped. Errors are `std::runtime_error`s of the
/// rank that meets them; `load_weights` and `read_tensor` make them errors of all ranks.
class Weights {
 public:
  /// `path` is a safetensors file, or a folder. In a folder, model.safetensors comes before
  /// model.safetensors.index.json. Every tensor that an index lists must be in the file that it names; tensors
  /// that a listed file holds besides are there too.
  explicit Weights(const std::filesystem::path& path) : path_(path) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) throw std::runtime_error(path.string() + ": no such file or folder");
    const fs::path single = path / "model.safetensors", index = path / "model.safetensors.index.json";
    if (!fs::is_directory(path, ignored)) {
      open(path);
    } else if (fs::exists(single, ignored)) {
      open(single);
    } else if (fs::exists(index, ignored)) {
      open_listed(index);
    } else {
      throw std::runtime_error(path.string() +
                               ": neither model.safetensors nor model.safetensors.index.json is there");
    }
  }

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::vector<SafetensorsFile>& files() const noexcept { return files_; }

  bool contains(std::string_view name) const { return place_.contains(name); }
  /// The file that holds a tensor. Throws if none does.
  const SafetensorsFile& file_of(std::string_view name) const {
    const auto found = place_.find(name);
    if (found == place_.end()) throw std::runtime_error(missing(name));
    return files_[found->second];
  }
  /// Throws if there is none of that name.
  const StoredTensor& tensor(std::string_view name) const { return file_of(name).tensor(name); }

  /// As `SafetensorsFile::read_block`.
  template <Communicable T, int Rank>
  void read_block(std::string_view name, const View<T, Rank>& block) const {
    file_of(name).read_block(name, block);
  }
  /// As `SafetensorsFile::problem`.
  std::string problem(std::string_view name, DataType type, std::span<const Index> shape) const {
    return contains(name) ? file_of(name).problem(name, type, shape) : missing(name);
  }

  /// Bytes of elements that have been read by this object.
  Index bytes_read() const {
    Index bytes = 0;
    for (const SafetensorsFile& file : files_) bytes += file.bytes_read();
    return bytes;
  }

 private:
  std::string missing(std::string_view name) const {
    return path_.string() + ": tensor \"" + std::string(name) + "\": there is no such tensor";
  }

  void open(const std::filesystem::path& path) {
    files_.emplace_back(path);
    for (const StoredTensor& tensor : files_.back().tensors()) {
      const auto [place, fresh] = place_.emplace(tensor.name, files_.size() - 1);
      if (!fresh) {
        throw std::runtime_error(path.string() + ": tensor \"" + tensor.name + "\" is in " +
                                 files_[place->second].path().filename().string() + " too");
      }
    }
  }

  void open_listed(const std::filesystem::path& index) {
    const Json json = read_json(index);
    std::map<std::string, std::size_t> opened;
    const detail::JsonPart whole(json, index.string() + ": ");
    whole["weight_map"].for_each_member([&](const std::string& tensor, const detail::JsonPart& file) {
      const auto name = file.get<std::string>();
      if (!detail::is_plain_name(name)) file.expected("a name in the same folder");
      const auto [place, fresh] = opened.emplace(name, files_.size());
      if (fresh) open(index.parent_path() / name);
      if (!files_[place->second].contains(tensor))
        file.fail("the tensor is to be in " + name + ", but is not");
    });
  }

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t, std::less<>> place_;  // which of the files
};

}  // namespace shardwise
