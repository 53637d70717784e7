// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Generates text with the Llama that train_llama has saved (`generate [FOLDER [PROMPT]]`), with heads and features
/// split over all ranks. Their number changes the text only where rounding decides between two tokens.

#include <cstdio>

#include <shardwise/llm/decoding/continuous_batch.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 3 || (argc > 1 && argv[1][0] == '-'))
      throw std::invalid_argument("usage: generate [FOLDER [PROMPT]]");
    const std::filesystem::path folder = argc > 1 ? argv[1] : "llama-model";
    const sw::Mesh<sw::tp> mesh(sw::world(), {sw::any});
    sw::llm::Llama<sw::Mesh<sw::tp>> model(mesh, sw::llm::read_llama_config(folder / "config.json"));
    sw::llm::load_llama(model, folder);  // each rank reads its own blocks

    const sw::llm::ByteTokenizer bytes;
    std::vector<std::int32_t> text = bytes.encode(argc > 2 ? argv[2] : "The ");
    sw::llm::ContinuousBatch batch(mesh, model, 1, std::ssize(text) + 200);  // of one sequence
    batch.add({.prompt = text, .sampling = {.temperature = 0.8, .top_k = 40}, .seed = 7, .new_tokens = 200});
    while (batch.busy()) {
      for (const auto& token : batch.step()) text.push_back(token.id);  // the same on all ranks
    }
    if (mesh.rank() == 0) std::printf("%s\n", bytes.decode(text).c_str());
  });
}
