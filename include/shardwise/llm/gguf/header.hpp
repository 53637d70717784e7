// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The header of a GGUF file, as llama.cpp writes it (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):
/// "GGUF", a version, and how many tensors and values there are; the values, with key and type; the tensors, with name,
/// extents (the last dimension first), type and offset; then the data, in which each begins at a multiple of 32, or of
/// what the value general.alignment says.

#include <set>

#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/decoding/weight_blocks.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/weights/weights.hpp>

namespace shardwise::llm {

/// Whether a path is that of a GGUF file: it begins with "GGUF", or its name ends in .gguf and it is not a folder.
inline bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.extension() == ".gguf") return !std::filesystem::is_directory(path, ignored);
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::array<char, 4> begin{};
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);  // the reader reports what is wrong
  const bool read = descriptor >= 0 && ::pread(descriptor, begin.data(), 4, 0) == 4;
  if (descriptor >= 0) ::close(descriptor);
  return read && std::string_view(begin.data(), 4) == "GGUF";
}

namespace detail {

/// Takes `count` bytes from the beginning of the rest of a header; below, a number; a name of visible ASCII characters.
inline std::string take_bytes(std::string_view& rest, std::uint64_t count) {
  if (count > rest.size())
    fail<std::runtime_error>({"expected ", count, " more bytes, found ", rest.size(), ": is it truncated?"});
  rest.remove_prefix(count);
  return {rest.data() - count, count};
}
template <class T>
T take_number(std::string_view& rest) {
  T number;
  std::memcpy(&number, take_bytes(rest, sizeof(T)).data(), sizeof(T));
  return number;
}
inline std::string take_name(std::string_view& rest) {
  std::string name = take_bytes(rest, take_number<std::uint64_t>(rest));
  if (std::ranges::all_of(name, [](char letter) { return letter > ' ' && letter <= '~'; })) return name;
  fail<std::runtime_error>({"the name ", excerpt(Json(name)), ", expected visible ASCII characters"});
}
/// The elements of all lists of a file: vocabularies have less than a million.
inline constexpr std::uint64_t longest_lists = 1 << 22;
/// A value, in which true is 1. Lists become a text, which no number is; if `lists`, those of texts and of 32-bit
/// integers do not. `elements`: how many all lists of the file may still have.
inline Json take_value(std::string_view& rest, std::uint32_t type, bool lists, std::uint64_t& elements) {
  Json value = "a list";
  if (type == 8) return take_bytes(rest, take_number<std::uint64_t>(rest));
  if (type == 9) {
    const auto each = take_number<std::uint32_t>(rest);
    if (each == 9) throw std::runtime_error("a list of lists is not supported");
    if (lists && (each == 5 || each == 8)) value = Json::array();
    auto left = take_number<std::uint64_t>(rest);
    if (left > elements)
      fail<std::runtime_error>(
          {"a list of ", left, ", but all lists together may have ", longest_lists, " elements"});
    for (elements -= left; left > 0; --left) {
      Json one = take_value(rest, each, false, elements);
      if (value.is_array()) value.push_back(std::move(one));
    }
    return value;
  }
  if (type > 12) fail<std::runtime_error>({"type ", type, ", expected 0 to 12"});
  const auto take = [&]<class... T>(std::tuple<T...>) {
    std::uint32_t i = 0;
    ((i++ == type ? void(value = take_number<T>(rest)) : void()), ...);
  };
  take(std::tuple<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float,
                  std::uint8_t, char, char, std::uint64_t, std::int64_t, double>());
  return value;
}

/// The architectures whose tensors have the names below.
inline constexpr std::array<std::string_view, 3> gguf_architectures{"llama", "qwen2", "qwen3"};

/// Hugging Face's name: that of "blk.0.attn_q.weight" is "model.layers.0.self_attn.q_proj.weight". Others stay.
inline std::string name_of_gguf_tensor(std::string_view given) {
  constexpr std::string_view names =
      " token_embd=model.embed_tokens blk=model.layers output_norm=model.norm output=lm_head "
      "attn_norm=input_layernorm ffn_norm=post_attention_layernorm attn_q=self_attn.q_proj "
      "attn_k=self_attn.k_proj attn_v=self_attn.v_proj attn_output=self_attn.o_proj "
      "attn_q_norm=self_attn.q_norm attn_k_norm=self_attn.k_norm ffn_gate=mlp.gate_proj ffn_up=mlp.up_proj "
      "ffn_down=mlp.down_proj ";
  std::string name;
  while (!given.empty()) {
    const std::string part(take_part(given, '.'));
    const auto at = names.find(" " + part + "=");
    std::string_view known = at == names.npos ? part : names.substr(at + part.size() + 2);
    name += (name.empty() ? "" : ".") + std::string(take_part(known, ' '));
  }
  return name;
}

/// Reads the header of a file of these bytes, and checks all that it says. Tensors have Hugging Face's names. The
/// header's metadata is the architecture; `values`, if given, becomes an object with all values of the file.
SafetensorsHeader read_gguf_header(std::string_view file, Json* values = nullptr);

inline Json gguf_values(const Path& path) {
  const MappedFile file(path);
  Json values;
  prefix_errors(path.string(), [&] { read_gguf_header(file.bytes(), &values); });
  return values;
}

#ifdef SHARDWISE_LLM_BODIES

SHARDWISE_INLINE SafetensorsHeader read_gguf_header(std::string_view file, Json* all_values) {
  constexpr std::array<std::string_view, 31> types{
      "F32",   "F16",    "Q4_0", "Q4_1", "Q4_2", "Q4_3",    "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
      "Q3_K",  "Q4_K",   "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
      "IQ2_S", "IQ4_XS", "I8",   "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16"};
  std::string_view rest = file.substr(0, longest_header);
  if (take_bytes(rest, std::min<std::size_t>(file.size(), 4)) != "GGUF")
    throw std::runtime_error("it does not begin with GGUF");
  if (const auto version = take_number<std::uint32_t>(rest); version != 2 && version != 3)
    fail<std::runtime_error>({"version ", version, " of GGUF, expected 2 or 3, little-endian"});
  auto tensors = take_number<std::uint64_t>(rest), left = take_number<std::uint64_t>(rest);
  std::uint64_t elements = longest_lists;
  Json values = Json::object();
  for (; left > 0; --left) {
    const std::string key = take_name(rest);
    prefix_errors("value \"" + excerpt(key) + "\"", [&] {
      if (!values
               .emplace(key,
                        take_value(rest, take_number<std::uint32_t>(rest), all_values != nullptr, elements))
               .second)
        throw std::runtime_error("it is there twice");
    });
  }
  const JsonPart all(values);
  const JsonPart aligned = all["general.alignment"];
  const Index alignment = aligned.null() ? 32 : aligned.integer(8, 1 << 20);
  if (alignment % 8 != 0) aligned.expected("a multiple of 8");
  const auto rounded_up = [&](Index byte) { return (byte + alignment - 1) / alignment * alignment; };
  if (const JsonPart files = all["split.count"]; !files.null())
    files.integer(0, 1);  // else other files have other tensors
  SafetensorsHeader header;
  header.metadata.emplace("architecture", all.get<std::string>("general.architecture", ""));
  std::set<std::string> names;
  for (; tensors > 0; --tensors) {
    const std::string name = take_name(rest);
    prefix_errors("tensor \"" + excerpt(name) + "\"", [&] {
      StoredTensor& tensor = header.tensors.emplace_back();
      tensor.name = name_of_gguf_tensor(name);
      if (!names.insert(tensor.name).second) throw std::runtime_error("it is there twice");
      tensor.shape.resize(std::min(take_number<std::uint32_t>(rest), 5u));
      for (Index& extent : tensor.shape) extent = take_number<Index>(rest);
      std::ranges::reverse(tensor.shape);
      const auto type = take_number<std::uint32_t>(rest);
      const std::string& spelt = tensor.dtype = type < types.size() ? types[type] : "unknown";
      tensor.type = stored_type_named(spelt).value_or(StoredType::other);
      if (spelt == "Q8_0") tensor.blocks = &block_format<Block8>;
      if (spelt == "Q4_0") tensor.blocks = &block_format<Block4>;
      if (tensor.type == StoredType::other && !tensor.blocks)
        fail<std::runtime_error>({"type ", type, " (", spelt, "), expected F32, F16, BF16, Q8_0 or Q4_0"});
      const bool legal = !tensor.shape.empty() && tensor.shape.size() < 5 &&
                         std::ranges::min(tensor.shape) >= 0 && tensor.shape.back() % tensor.numbers() == 0;
      tensor.bytes =
          legal ? stored_bytes(tensor.element_bytes(), tensor.shape, tensor.numbers()).value_or(-1) : -1;
      if (tensor.bytes < 0)
        fail<std::runtime_error>(
            {spelt, " ", tensor.shape, ", expected 1 to 4 extents, whole blocks, and bytes to count"});
      tensor.offset = take_number<Index>(rest);
      if (tensor.offset < 0 || tensor.offset % alignment != 0)
        fail<std::runtime_error>(
            {"it begins at byte ", tensor.offset, " of the data, expected a multiple of ", alignment});
    });
  }
  std::ranges::sort(header.tensors, {},
                    [](const StoredTensor& tensor) { return std::pair(tensor.offset, tensor.bytes); });
  const Index begin = rounded_up(rest.data() - file.data()), data = std::ssize(file) - begin;
  const StoredTensor* before = nullptr;
  for (StoredTensor& tensor : header.tensors) {
    if (tensor.bytes > data || tensor.offset > data - tensor.bytes)
      fail<std::runtime_error>({"tensor \"", tensor.name, "\": ", tensor.bytes, " bytes at byte ",
                                tensor.offset, " of the data, which has ", std::max<Index>(data, 0),
                                ": is the file truncated?"});
    tensor.offset += begin;
    if (before != nullptr && before->offset + before->bytes > tensor.offset)
      fail<std::runtime_error>({"tensor \"", tensor.name, "\" begins in tensor \"", before->name, "\""});
    before = &tensor;
  }
  if (all_values != nullptr) *all_values = std::move(values);
  return header;
}

#endif

}  // namespace detail

/// Those of `is_gguf`: `Weights(path, &gguf_format)` reads them.
inline constexpr WeightsFormat gguf_format{.matches = is_gguf, .read_header = [](std::string_view bytes) {
                                             return detail::read_gguf_header(bytes);
                                           }};

}  // namespace shardwise::llm
