// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Converts a Llama in Hugging Face's format to a checkpoint, which any mesh can load; in one process without MPI,
/// with little memory for any model size. (consolidate.hpp is the reverse.)
///
/// ```
/// import_weights("llama/", "runs/7/base");
/// CheckpointContents model_alone(mesh);
/// model_alone.add("model", model);
/// load_checkpoint("runs/7/base", model_alone);
/// ```

#include <shardwise/checkpoint/reader.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/llm/models/llama/tensors.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm {

struct ImportOptions {
  /// The type of all weights in the checkpoint: f64, f32 or bf16; by default as in the files.
  std::optional<StoredType> type = {};
  /// Replace a folder that contains a model or a checkpoint, and delete its contents.
  bool replace = false;
  ByteProgress progress = {};
};

struct ImportedWeights {
  std::size_t tensors = 0;
  Index bytes = 0;  ///< of the tensors, in the checkpoint
};

namespace detail {

/// One conversion: construct it, and call `run`.
class WeightsImport {
 public:
  WeightsImport(const Path& folder, const ImportOptions& options)
      : options_(options), weights_(folder), config_(read_json(folder / "config.json")) {
    const LlamaConfig config =
        prefix_errors(folder / "config.json", [&] { return parse_llama_config(config_); });
    manifest_.files.push_back({rank_file_name(0), 0});
    check_weights(folder, config);
    for (const LlamaTensor& wanted : llama_tensors(config)) plan(wanted);
    std::set<std::string_view> used;
    for (const std::vector<std::string>& names : sources_) used.insert(names.begin(), names.end());
    for (const SafetensorsFile& file : weights_.files()) {
      for (const StoredTensor& tensor : file.tensors()) {
        const bool known = used.contains(tensor.name) || is_surplus(config, tensor.name);
        if (!known) fail(file.path(), tensor.name, "does not belong to this model");
      }
    }
    set_torch_type(config_, manifest_.tensors.front().type);
    manifest_.notes["llama_config"] = config_;
    const Path tokenizer = folder / "tokenizer.json";
    if (std::filesystem::exists(tokenizer)) {
      manifest_.notes["from"] = std::filesystem::absolute(folder).string();
      manifest_.notes["tokenizer"] = std::filesystem::absolute(tokenizer).string();
    }
  }

  ImportedWeights run(const Path& source, const Path& target) {
    NewFolder folder(target, temporary_token(),
                     [&](const Path& old) { check_replaceable(old, source, options_.replace); });
    const File file = new_file(folder.path() / manifest_.files[0].name, manifest_.files[0].bytes);
    for (std::size_t i = 0; i < sources_.size(); ++i) copy(sources_[i], manifest_.tensors[i], file);
    file.sync();
    write_new_file(folder.path() / manifest_name, manifest_text(manifest_));
    folder.commit();
    return {manifest_.tensors.size(), manifest_.bytes()};
  }

 private:
  [[noreturn]] static void fail(const Path& path, const std::string& tensor, const std::string& problem) {
    detail::fail<std::runtime_error>({path.string(), ": tensor \"", tensor, "\" ", problem});
  }

  /// Finds a tensor, and plans its place in the new file.
  void plan(const LlamaTensor& wanted) {
    std::vector<std::string> names = expanded_names(wanted.hugging_name);
    for (const std::string& name : names) {
      const std::string why = weights_.problem(name, DataType::f32, wanted.hugging);
      if (!why.empty()) throw std::runtime_error(why);
      all_ += weights_.tensor(name).bytes;
    }
    const StoredTensor& stored = weights_.tensor(names.front());
    CheckpointTensor tensor{wanted.name, options_.type.value_or(stored.type), wanted.shape, "", 1, {}};
    if (wanted.hugging_name.ends_with(bias_of_experts) && tensor.type == StoredType::bf16)
      tensor.type = StoredType::f32;
    if (!is_type_in_memory(tensor.type)) {
      fail(weights_.file_of(stored.name).path(), stored.name,
           "would be " + std::string(name_of(tensor.type)) +
               " in the checkpoint, which no model has in memory: ask for F32 or BF16");
    }
    tensor.group_rows = group_rows_of(tensor.row_bytes());
    Index& end = manifest_.files[0].bytes;
    tensor.pieces.push_back({0, end, std::vector<Index>(tensor.shape.size()), tensor.shape, {}});
    end += tensor.bytes();
    sources_.push_back(std::move(names));
    manifest_.tensors.push_back(std::move(tensor));
  }

  /// Copies a tensor from those of the files that are its blocks.
  void copy(const std::vector<std::string>& names, CheckpointTensor& tensor, const File& file) {
    std::optional<File> source;  // a mapping would count as memory of this process
    Index opened = -1;
    CheckpointPiece& piece = tensor.pieces.front();
    const Index all = tensor.elements(), each = all / std::ssize(names);
    const Index group = tensor.row_elements() * tensor.group_rows;
    for (Index begin = 0; begin < all; begin += group) {
      const Index end = std::min(begin + group, all);
      Fingerprint checksum;
      for (Index first = begin; first < end;) {
        const std::string& name = names[static_cast<std::size_t>(first / each)];
        const StoredTensor& stored = weights_.tensor(name);
        if (std::exchange(opened, first / each) != first / each)
          source.emplace(weights_.file_of(name).path(), O_RDONLY);
        const Index element = size_of(stored.type),
                    count =
                        std::min({CheckpointReader::slab_bytes / element, end - first, each - first % each});
        slab_.resize(static_cast<std::size_t>(count * element));
        source->read(slab_.data(), count * element, stored.offset + first % each * element);
        const auto bytes = converted_elements(stored.type, slab_.data(), tensor.type, count, buffer_);
        file.write(bytes, piece.offset + first * size_of(tensor.type));
        checksum.add(bytes);
        first += count;
        done_ += count * element;
        if (options_.progress) options_.progress(done_, all_);
      }
      piece.checksums.push_back(checksum.value());
    }
  }

  const ImportOptions& options_;
  Weights weights_;
  Json config_;
  CheckpointManifest manifest_;
  std::vector<std::vector<std::string>> sources_;  // the names in the files of the manifest's tensors
  std::vector<char> slab_, buffer_;
  Index done_ = 0, all_ = 0;
};

}  // namespace detail

/// Writes a checkpoint with the weights of a folder (see `Weights`) as "model", in one file, with the notes that
/// `consolidate_checkpoint` needs. Omits rotary frequencies, and a tied model's head, which must equal its table.
///
/// `checkpoint` must be empty or absent, unless `replace` is set. It appears by one rename when everything is on the
/// device. Throws `std::runtime_error` with the file, the tensor and the problem, and then leaves nothing new behind.
inline ImportedWeights import_weights(const std::filesystem::path& folder,
                                      const std::filesystem::path& checkpoint,
                                      const ImportOptions& options = {}) {
  return detail::WeightsImport(folder, options).run(folder, checkpoint);
}

}  // namespace shardwise::llm
