// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Converts the checkpoint of a Llama to one folder in Hugging Face's format, in one process without MPI, with
/// little memory for any model size. (import_weights.hpp is the reverse.)
///
/// ```
/// consolidate_checkpoint("runs/7/step-00001000", "llama/", {.type = StoredType::bf16});
/// ```
/// The folder does not depend on the mesh that wrote the checkpoint. config.json is "llama_config" in the
/// checkpoint's notes; tokenizer.json is the checkpoint's own, or else a copy of the file that the notes name under
/// "tokenizer".

#include <shardwise/checkpoint/reader.hpp>
#include <shardwise/io/new_folder.hpp>
#include <shardwise/llm/models/llama/tensors.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm {

struct ConsolidateOptions {
  /// The type of all weights in the files: f64, f32, bf16 or f16; by default as in the checkpoint.
  std::optional<StoredType> type = {};
  /// Starts a new file when the tensors of one would exceed this many bytes; 0: a single file.
  Index max_file_bytes = 5'000'000'000;
  /// Replace a folder that contains a model or a checkpoint, and delete its contents.
  bool replace = false;
  ByteProgress progress = {};
  /// Called with the folder, before its rename, and the checkpoint's notes: may add files.
  std::function<void(const std::filesystem::path& folder, const Json& notes)> complete = {};
};

struct ConsolidatedCheckpoint {
  std::size_t tensors = 0, files = 0;  ///< files of tensors
  Index bytes = 0;                     ///< of the tensors, in the files
  /// The tokenizer in the notes, if it was not copied because it is missing or invalid.
  std::string missing_tokenizer = {};
};

namespace detail {

/// One conversion: construct it, and call `run`.
class Consolidation {
 public:
  Consolidation(const Path& checkpoint, const ConsolidateOptions& options)
      : source_((checkpoint / manifest_name).string()),
        options_(options),
        manifest_(read_manifest(checkpoint)),
        reader_(checkpoint, manifest_) {
    for (const CheckpointTensor& tensor : manifest_.tensors) {
      if (tensor.name.starts_with("model.")) stored_.emplace(tensor.name, &tensor);
    }
  }

  ConsolidatedCheckpoint run(const Path& checkpoint, const Path& target) {
    NewFolder folder(target, temporary_token(),
                     [&](const Path& old) { check_replaceable(old, checkpoint, options_.replace); });
    const OutputPlan plan = plan_output(
        folder.path(), matched(write_config(folder.path())),
        {.type = options_.type, .keep = bias_of_experts, .max_file_bytes = options_.max_file_bytes});
    ConsolidatedCheckpoint result;
    result.files = plan.files.size();
    for (const OutputFile& file : plan.files) {
      result.tensors += file.header.tensors.size();
      for (const StoredTensor& tensor : file.header.tensors) all_ += sources_.at(tensor.name).bytes();
    }
    for (const OutputFile& file : plan.files) result.bytes += write(file);
    if (plan.several()) write_new_file(folder.path() / "model.safetensors.index.json", plan.index);
    result.missing_tokenizer = copy_tokenizer(checkpoint, folder.path());
    if (options_.complete) options_.complete(folder.path(), manifest_.notes);
    folder.commit();
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    detail::fail<std::runtime_error>({source_, ": ", problem});
  }

  LlamaConfig write_config(const Path& folder) const {
    if (!manifest_.notes.is_object() || !manifest_.notes.contains("llama_config")) {
      fail("the notes have no \"llama_config\", the config.json of the model");
    }
    Json config = manifest_.notes.at("llama_config");
    const auto norm = stored_.find("model.norm.weight");
    auto type = options_.type;
    if (!type && norm != stored_.end()) type = norm->second->type;
    if (type && torch_name(*type)) set_torch_type(config, *type);
    write_new_file(folder / "config.json", config.dump(2) + "\n");
    return prefix_errors(source_ + ": \"llama_config\" in the notes",
                         [&] { return parse_llama_config(config); });
  }

  /// The model's tensors under Hugging Face's names; throws if any are missing or superfluous.
  std::vector<StoredTensor> matched(const LlamaConfig& config) {
    std::vector<StoredTensor> tensors;
    auto left = stored_;
    for (const LlamaTensor& wanted : llama_tensors(config)) {
      const auto found = left.extract(wanted.name);
      const std::string where = "tensor \"" + wanted.name + "\": ";
      if (found.empty()) fail(where + "there is no such tensor");
      const CheckpointTensor& stored = *found.mapped();
      if (stored.shape != wanted.shape) {
        fail(text({where, "expected the shape ", wanted.shape, ", found ", stored.shape}));
      }
      if (!is_type_in_memory(stored.type)) {
        fail(where + "expected the type F64, F32 or BF16, found " + std::string(name_of(stored.type)));
      }
      const std::vector<std::string> names = expanded_names(wanted.hugging_name);
      const Index elements = stored.elements() / std::ssize(names);
      for (Index i = 0; i < std::ssize(names); ++i) {
        const std::string& name = names[static_cast<std::size_t>(i)];
        tensors.push_back({name, stored.type, wanted.hugging});
        sources_.emplace(name, Source{&stored, {i * elements, elements}});
      }
    }
    if (!left.empty()) fail("tensor \"" + left.begin()->first + "\" does not belong to this model");
    return tensors;
  }

  Index write(const OutputFile& output) {
    Index bytes = 0;
    for (const StoredTensor& tensor : output.header.tensors) bytes += tensor.bytes;
    const File file = new_file(output.target, std::ssize(output.head) + bytes);
    file.write(output.head, 0);
    for (const StoredTensor& tensor : output.header.tensors) {
      const Source& source = sources_.at(tensor.name);
      const StoredType from = source.tensor->type;
      reader_.for_each_slab(*source.tensor, source.elements, [&](Index first, const char* data, Index count) {
        const auto elements = converted_elements(from, data, tensor.type, count, buffer_);
        file.write(elements, tensor.offset + (first - source.elements.begin) * size_of(tensor.type));
        done_ += count * size_of(from);
        if (options_.progress) options_.progress(done_, all_);
      });
    }
    file.sync();
    return bytes;
  }

  /// Returns the name in the notes if there is no such file. Since a checkpoint may come from anywhere, the file is
  /// copied only if it is a tokenizer.
  std::string copy_tokenizer(const Path& checkpoint, const Path& folder) const {
    const auto note = manifest_.notes.find("tokenizer");
    Path file = checkpoint / "tokenizer.json";
    std::error_code ignored;  // a file that cannot be examined counts as missing
    if (!std::filesystem::exists(file, ignored)) {
      if (note == manifest_.notes.end() || !note->is_string()) return {};
      file = note->get<std::string>();
    }
    if (!std::filesystem::is_regular_file(file, ignored)) return file.string();
    const std::string text = read_text(file);
    if (!is_tokenizer(text)) return file.string();
    write_new_file(folder / "tokenizer.json", text);
    return {};
  }

  static bool is_tokenizer(const std::string& text) {
    try {
      const Json json = json_of(text);
      return !JsonPart(json)["model"]["vocab"].null();
    } catch (const std::runtime_error&) {
      return false;
    }
  }

  std::string source_;
  const ConsolidateOptions& options_;
  CheckpointManifest manifest_;
  CheckpointReader reader_;
  /// Consecutive elements of a tensor there, which are a tensor in the files.
  struct Source {
    const CheckpointTensor* tensor;
    Range elements;

    Index bytes() const { return elements.size * size_of(tensor->type); }
  };
  std::map<std::string, const CheckpointTensor*> stored_;  // by name
  std::map<std::string, Source> sources_;                  // by name in the files
  std::vector<char> buffer_;
  Index done_ = 0, all_ = 0;
};

}  // namespace detail

/// Writes config.json, model.safetensors (or several files and model.safetensors.index.json) and tokenizer.json from
/// the checkpoint of a `Llama` that was added as "model", without the optimizer's state. Verifies every checksum.
///
/// `folder` must be empty or absent, unless `replace` is set. It appears by one rename when everything is on the
/// device, and keeps the mode of the folder it replaces. Throws `std::runtime_error` with the file, the tensor and
/// the problem, and then leaves nothing new behind (only a kill leaves FOLDER.tmp-swNUMBER).
inline ConsolidatedCheckpoint consolidate_checkpoint(const std::filesystem::path& checkpoint,
                                                     const std::filesystem::path& folder,
                                                     const ConsolidateOptions& options = {}) {
  return detail::Consolidation(checkpoint, options).run(checkpoint, folder);
}

}  // namespace shardwise::llm
