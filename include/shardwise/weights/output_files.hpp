// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which files a set of tensors becomes, and what stands in them but the elements: the same on every rank,
/// since it is computed from names, types and global extents.

#include <set>

#include <shardwise/weights/safetensors_header.hpp>

namespace shardwise {

struct SaveOptions {
  /// From a parameter's path ("blocks.0.attention.wq.weight") to its tensor's name in the file; without it
  /// they are the same. (Tensors that are named one by one keep their names.)
  std::function<std::string(std::string_view)> name_of = {};
  /// The type of all floating-point numbers in the file: f64, f32, bf16 or f16. Without it, as in memory.
  std::optional<StoredType> type = {};
  /// Tensors whose names end so keep their type; empty: none.
  std::string_view keep = {};
  /// The most bytes of elements in a file that has several tensors; 0 means one file for all.
  Index max_file_bytes = 0;
  /// Hugging Face's loaders refuse files without this format.
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  /// Texts of other files in the folder, by name, which change together with the weights; the texts of the first rank
  /// count. Without a text, a file is removed.
  std::map<std::string, std::optional<std::string>> beside = {};
};

namespace detail {

struct OutputFile {
  Path target;
  std::string head;  // the bytes before the elements
  SafetensorsHeader header;
};

struct OutputPlan {
  std::vector<OutputFile> files;
  bool in_folder = false;  // else it is one file of the caller's naming
  Path folder;
  std::string index;  // the text of the index, if there are several files
  std::map<std::string, std::optional<std::string>> beside;

  bool several() const { return files.size() > 1; }
};

/// As Hugging Face numbers files: model-00001-of-00003.safetensors; with a token other than 0
/// model-89abcdef-00001-of-00003.safetensors.
inline std::string numbered_name(std::size_t number, std::size_t count, std::uint32_t token) {
  std::array<char, 16> infix{};
  if (token != 0) std::snprintf(infix.data(), infix.size(), "-%08x", static_cast<unsigned>(token));
  std::array<char, 100> name{};
  std::snprintf(name.data(), name.size(), "model%s-%05zu-of-%05zu.safetensors", infix.data(), number, count);
  return name.data();
}

inline std::string index_text(const std::vector<OutputFile>& files) {
  std::map<std::string, std::string> places;
  Index total = 0;
  for (const OutputFile& file : files) {
    for (const StoredTensor& tensor : file.header.tensors) {
      total += tensor.bytes;
      places[tensor.name] = file.target.filename().string();
    }
  }
  return Json{{"metadata", {{"total_size", total}}}, {"weight_map", places}}.dump(2) + "\n";
}

/// Puts a token into the names of several files, and makes their index.
inline void name_files(OutputPlan& plan, std::uint32_t token) {
  const std::size_t count = plan.files.size();
  for (std::size_t i = 0; i < count; ++i) {
    plan.files[i].target = plan.folder / numbered_name(i + 1, count, token);
  }
  plan.index = index_text(plan.files);
}

inline void check(const std::vector<StoredTensor>& tensors, const SaveOptions& options) {
  if (options.max_file_bytes < 0) {
    fail<std::runtime_error>({"max_file_bytes is ", options.max_file_bytes, ", where 0 or more is expected"});
  }
  if (options.type && !convertible(StoredType::f32, *options.type)) {
    fail<std::runtime_error>({"floating-point numbers cannot be written as ", name_of(*options.type),
                              ", but as F64, F32, BF16 or F16"});
  }
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.name == "__metadata__") throw std::runtime_error("no tensor may be named __metadata__");
    if (!names.insert(tensor.name).second) {
      fail<std::runtime_error>({"two tensors are named \"", tensor.name, "\""});
    }
  }
}

/// Fills files in the order of the tensors, of which name, shape and the type in memory are given. `path` is a file if
/// it ends in .safetensors, else a folder.
inline OutputPlan plan_output(const Path& path, std::vector<StoredTensor> tensors,
                              const SaveOptions& options) {
  check(tensors, options);
  OutputPlan plan;
  plan.beside = options.beside;
  plan.files.emplace_back();
  Index filled = 0;
  for (StoredTensor& tensor : tensors) {
    const bool kept = !options.keep.empty() && tensor.name.ends_with(options.keep);
    if (options.type && !kept && convertible(tensor.type, *options.type)) tensor.type = *options.type;
    const auto bytes = stored_bytes(size_of(tensor.type), tensor.shape);
    if (!bytes) fail<std::runtime_error>({"tensor \"", tensor.name, "\" has more bytes than 2^63 - 1"});
    tensor.bytes = *bytes;
    const bool full = options.max_file_bytes > 0 && filled + *bytes > options.max_file_bytes;
    if (full && !plan.files.back().header.tensors.empty()) {
      plan.files.emplace_back();
      filled = 0;
    }
    filled += *bytes;
    plan.files.back().header.tensors.push_back(std::move(tensor));
  }
  plan.in_folder = path.extension() != ".safetensors";
  plan.folder = plan.in_folder ? path : folder_of(path);
  if (plan.several() && !plan.in_folder) {
    fail<std::runtime_error>({path.string(), ": ", plan.files.size(), " files of at most ",
                              options.max_file_bytes, " bytes need a folder, not a file's name"});
  }
  for (OutputFile& file : plan.files) {
    file.target = plan.in_folder ? path / "model.safetensors" : path;
    file.header.metadata = options.metadata;
    file.head = make_safetensors_header(file.header, path.string());
  }
  if (plan.several()) name_files(plan, 0);
  return plan;
}

}  // namespace detail

}  // namespace shardwise
