// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GGUF files: their tensors, and what programs read besides.

#include <memory>

#include "../../examples/programs/common/model_files.hpp"
#include "support/gguf.hpp"
#include "target.hpp"

namespace fuzz {

/// Reads a tensor whole, as a type in memory.
template <class T>
void read_gguf_whole(const shardwise::Weights& weights, const shardwise::StoredTensor& tensor) {
  using shardwise::Index;
  const Index numbers = tensor.bytes / tensor.element_bytes() * tensor.numbers();
  const Index count = numbers / shardwise::numbers_in(shardwise::data_type_of<T>());
  std::vector<T> elements(static_cast<std::size_t>(count));
  taken(weights.path().string(), [&] {
    weights.read_block(tensor.name, shardwise::View<T, 1>{elements.data(), {count}, {0}, {count}});
  });
}

/// An input is a file; or a header, which gets 512 bytes of data.
inline Target gguf() {
  struct Place {
    Folder folder;
    MemoryFile memory;
  };
  const auto place = std::make_shared<Place>();
  place->folder.file("model.gguf", place->memory);
  const auto model_of = [](const std::string& architecture, const std::string& pre) {
    ::gguf::Writer file;
    const std::string prefix = architecture + ".";
    file.words("general.architecture", architecture).number(prefix + "block_count", 1);
    file.number(prefix + "embedding_length", 32).number(prefix + "feed_forward_length", 48);
    file.number(prefix + "attention.head_count", 2).real(prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
    file.words("tokenizer.ggml.model", "gpt2").words("tokenizer.ggml.pre", pre);
    file.list("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab", "<s>"});
    file.list("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 3});
    file.list("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
    file.number("tokenizer.ggml.bos_token_id", 3).words("tokenizer.chat_template", "{{ bos_token }}");
    file.value("tokenizer.ggml.add_bos_token", 7, "\1");
    return file.tensor("token_embd.weight", {4, 32}, ::gguf::q8_0, std::string(136, '\1'));
  };
  const ::gguf::Writer llama =
      model_of("llama", "llama-bpe").tensor("rope_freqs.weight", {2}, ::gguf::f32, "01234567");
  const ::gguf::Writer qwen =
      model_of("qwen2", "qwen2").tensor("blk.0.attn_q.bias", {3}, ::gguf::bf16, "012345");
  const ::gguf::Writer small =
      model_of("qwen3", "smollm").tensor("x", {2, 1, 32}, ::gguf::q4_0, std::string(36, '\2'));
  const ::gguf::Writer none =  // no number, for heads of one
      model_of("llama", "llama-bpe")
          .number("llama.attention.key_length", 1)
          .tensor("rope_freqs.weight", {0}, ::gguf::f32, "");
  ::gguf::Writer least;  // lists, texts and tensors of none and of one
  least.words("general.architecture", "llama").words("", "").words("tokenizer.ggml.model", "gpt2");
  least.words("tokenizer.ggml.pre", "").words("tokenizer.chat_template", "");
  for (const char* name : {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                           "rope.dimension_count", "context_length"}) {
    least.number(std::string("llama.") + name, 1);
  }
  least.real("llama.attention.layer_norm_rms_epsilon", 1);
  least.list("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  least.list("tokenizer.ggml.token_type", std::vector<std::int32_t>{});
  least.list("tokenizer.ggml.merges", std::vector<std::string>{});
  least.tensor("rope_freqs.weight", {1}, ::gguf::f32, "0123").tensor("", {}, ::gguf::f32, "0123");
  least.tensor("x", {1, 0}, ::gguf::bf16, "").tensor("y", {1, 1}, ::gguf::bf16, "01");
  const auto read = [place](std::string_view bytes) {
    place->memory.write(bytes);
    const std::filesystem::path path = place->folder.path() / "model.gguf";
    taken(path.string(), [&] {
      const shardwise::Weights file(path, &shardwise::llm::gguf_format);
      for (const shardwise::StoredTensor& tensor : file.files()[0].tensors()) {
        require(tensor.offset >= 24 &&
                    tensor.offset + tensor.bytes <= static_cast<shardwise::Index>(bytes.size()),
                "a tensor lies in the file");
        read_gguf_whole<float>(file, tensor);
        read_gguf_whole<Eigen::bfloat16>(file, tensor);
        read_gguf_whole<std::int32_t>(file, tensor);
        read_gguf_whole<shardwise::llm::Block8>(file, tensor);
        read_gguf_whole<shardwise::llm::Block4>(file, tensor);
      }
    });
    taken(path.string(), [&] { static_cast<void>(tools::config_of(path)); });
    try {
      if (const auto tokenizer = tools::tokenizer_of(path, 256))
        tokenizer->decode(tokenizer->encode("abba <s>"));
    } catch (const std::runtime_error&) {
    } catch (const std::invalid_argument&) {
    } catch (const std::length_error&) {
    }
    taken(path.string(), [&] { static_cast<void>(tools::ends_of(path, std::nullopt)); });
    taken(path.string(), [&] { static_cast<void>(tools::chat_template_of(path)); });
  };
  return {"gguf",
          {llama.bytes(), qwen.bytes(), small.bytes(), none.bytes(), least.bytes(), ::gguf::Writer().bytes(),
           llama.header()},
          [read](std::string_view input) {
            read(input);
            std::string with_data(input);
            with_data.resize((input.size() + 31) / 32 * 32 + 512, '\1');
            read(with_data);
          }};
}

}  // namespace fuzz
