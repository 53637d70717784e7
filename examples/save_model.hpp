// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writes a trained Llama and its tokenizer in Hugging Face's form.

#include <cstdio>
#include <filesystem>

#include <shardwise/models/llama/files.hpp>
#include <shardwise/text/tokenizer.hpp>

namespace examples {

namespace sw = shardwise;

/// Where texts begin and end, for config.json.
inline sw::LlamaTokens special_tokens(const sw::Tokenizer& tokenizer) {
  sw::LlamaTokens special;
  if (tokenizer.begin_token()) special.begin = tokenizer.begin_token();
  if (tokenizer.end_token()) special.ends.push_back(*tokenizer.end_token());
  return special;
}

/// Writes to `folder`, with a copy of the file that the tokenizer is from, if it is from one; a tokenizer.json of an
/// older model does not stay. Collective.
template <class MeshType, class Model>
void save_model(const MeshType& mesh, Model& model, const sw::Tokenizer& tokenizer,
                const std::filesystem::path& folder, const std::filesystem::path& tokenizer_file) {
  const sw::Index bytes = sw::save_llama(model, folder, {}, special_tokens(tokenizer));
  if (mesh.rank() != 0) return;
  namespace fs = std::filesystem;
  const fs::path copy = folder / "tokenizer.json";
  if (tokenizer_file.empty()) {
    fs::remove(copy);
  } else if (!fs::exists(copy) || !fs::equivalent(tokenizer_file, copy)) {
    fs::copy_file(tokenizer_file, copy, fs::copy_options::overwrite_existing);
  }
  std::printf("saved to %s; this rank wrote %.2f MB\n", folder.c_str(), static_cast<double>(bytes) * 1e-6);
}

}  // namespace examples
