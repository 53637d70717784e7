// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The file that tokens are kept in.

#include <array>
#include <cstring>
#include <memory>

#include <shardwise/llm/data/token_corpus.hpp>

#include "target.hpp"

namespace fuzz {

inline std::string token_file_bytes(shardwise::Index vocabulary, const std::vector<std::int32_t>& tokens) {
  shardwise::llm::detail::TokenPacker packer(vocabulary, 1);
  const std::string packed(packer.pack(tokens));
  const auto header = packer.header(2);
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + packed;
}

/// An input is a file; it is read once more with its checksums put right.
inline Target token_file() {
  const auto read = [memory = std::make_shared<MemoryFile>()](std::string_view bytes) {
    memory->write(bytes);
    const std::string path = memory->path().string();
    taken(path, [&] {
      const auto corpus = shardwise::llm::TokenCorpus::from_file(path);
      require(corpus.size() <= static_cast<shardwise::Index>(bytes.size()), "a file does not grow");
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
      corpus.copy(0, tokens);
      for (const std::int32_t token : tokens) {
        require(token >= 0 && token < corpus.vocabulary(), "all tokens are less than the vocabulary");
      }
    });
  };
  return {"token_file",
          {token_file_bytes(257, {0, 256, 7}), token_file_bytes(70000, {69999, 1}), token_file_bytes(1, {}),
           token_file_bytes(1, {0})},
          [read](std::string_view input) {
            using Header = shardwise::llm::detail::TokenFileHeader;
            read(input);
            if (input.size() < sizeof(Header)) return;
            Header header;
            std::memcpy(&header, input.data(), sizeof header);
            header.token_checksum = shardwise::detail::fingerprint_of(input.substr(sizeof header));
            header.header_checksum = header.computed();
            read(std::string(reinterpret_cast<const char*>(&header), sizeof header)
                     .append(input.substr(sizeof header)));
          }};
}

}  // namespace fuzz
