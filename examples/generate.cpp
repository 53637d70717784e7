// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Generates text with the Llama that train_llama has saved (`generate [FOLDER [PROMPT]]`), with heads and features
/// split over all ranks. The text does not depend on their number.

#include <cstdio>

#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/llm/text/sampling.hpp>
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
    std::vector<std::int32_t> text = bytes.encode(argc > 2 ? argv[2] : "The "), next = text;
    const auto ids = [&] {  // one sequence, the same on every rank
      return sw::distribute<sw::Replicate>(mesh, sw::Shape<2>{1, std::ssize(next)},
                                           std::span<const std::int32_t>(next));
    };
    auto cache = model.make_cache(ids(), std::ssize(text) + 200);
    for (unsigned i = 0; i < 200; ++i) {
      const auto logits = sw::redistribute<sw::Replicate>(model.next(ids(), cache));  // [1, 1, 256], gathered
      const std::span<const float> row(logits.data(), 256);
      next = {
          sw::llm::sample(row, {.temperature = 0.8, .top_k = 40}, /*seed*/ 7, i)};  // the same on all ranks
      text.push_back(next.front());
    }
    if (mesh.rank() == 0) std::printf("%s\n", bytes.decode(text).c_str());
  });
}
