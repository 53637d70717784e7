// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The header of a safetensors file, read and written
/// (https://github.com/huggingface/safetensors, section "Format"):
///
///     8 bytes     N, an unsigned little-endian integer
///     N bytes     JSON: {"__metadata__": {…}, "NAME": {"dtype": "F32", "shape": […], "data_offsets": [b, e]}, …}
///     the rest    the elements, row-major and little-endian; offsets count from here

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <shardwise/io/json_file.hpp>
#include <shardwise/tensor/shape_text.hpp>
#include <shardwise/weights/stored_type.hpp>

namespace shardwise {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// One tensor of a file.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<Index> shape;
  Index offset = 0;  ///< where its elements begin, in bytes from the beginning of the file
  Index bytes = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in the order of their elements
  std::map<std::string, std::string> metadata;
};

// Implementation details: not part of the interface.
namespace detail {

/// A longer header is taken for damage, as by the reference implementation.
inline constexpr Index longest_header = 100'000'000;
inline constexpr Index length_bytes = 8;

/// Bytes of so many elements, or nothing if an `Index` does not hold them. Extents of zero do not excuse what
/// the others multiply to.
inline std::optional<Index> stored_bytes(StoredType type, std::span<const Index> shape) {
  Index bytes = size_of(type);
  bool empty = false;
  for (Index extent : shape) {
    if (extent == 0) empty = true;
    if (extent > 1 && bytes > std::numeric_limits<Index>::max() / extent) return std::nullopt;
    if (extent > 1) bytes *= extent;
  }
  return empty ? 0 : bytes;
}

/// Reads the fields of one tensor; `where` begins the error messages.
class StoredTensorReader {
 public:
  StoredTensorReader(std::string name, const Json& fields, const std::string& path)
      : where_(path + ": tensor \"" + name + "\": ") {
    tensor_.name = std::move(name);
    if (!fields.is_object())
      fail("an object with dtype, shape and data_offsets is expected, found " + excerpt(fields));
    for (const auto& [key, value] : fields.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") fail("unknown field \"" + key + "\"");
    }
    read_type(field(fields, "dtype"));
    tensor_.shape = integers(field(fields, "shape"), "shape");
    read_offsets(integers(field(fields, "data_offsets"), "data_offsets"));
  }

  StoredTensor take() { return std::move(tensor_); }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error(where_ + what); }

  const Json& field(const Json& fields, const char* name) const {
    const auto found = fields.find(name);
    if (found == fields.end()) fail(std::string("the field \"") + name + "\" is missing");
    return *found;
  }

  void read_type(const Json& name) {
    const auto type = name.is_string() ? stored_type_named(name.get_ref<const std::string&>()) : std::nullopt;
    if (!type) fail("unknown dtype " + excerpt(name));
    tensor_.type = *type;
  }

  std::vector<Index> integers(const Json& list, const char* name) const {
    if (!list.is_array()) fail(std::string(name) + " is to be a list of integers, found " + excerpt(list));
    std::vector<Index> values;
    for (const Json& value : list) {
      if (!value.is_number_unsigned() ||
          value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) {
        fail(std::string(name) + " has " + excerpt(value) +
             ", where an integer from 0 to 2^63 - 1 is expected");
      }
      values.push_back(value.get<Index>());
    }
    return values;
  }

  void read_offsets(const std::vector<Index>& offsets) {
    if (offsets.size() != 2)
      fail("data_offsets has " + std::to_string(offsets.size()) + " numbers, expected 2");
    const std::string found = "[" + std::to_string(offsets[0]) + ", " + std::to_string(offsets[1]) + "]";
    if (offsets[1] < offsets[0]) fail("data_offsets " + found + " end before they begin");
    const auto expected = stored_bytes(tensor_.type, tensor_.shape);
    const std::string described = std::string(name_of(tensor_.type)) + " " + to_string(tensor_.shape);
    if (!expected) fail(described + " has more bytes than 2^63 - 1");
    tensor_.offset = offsets[0];
    tensor_.bytes = offsets[1] - offsets[0];
    if (tensor_.bytes != *expected) {
      fail(described + " has " + std::to_string(*expected) + " bytes, but data_offsets " + found + " hold " +
           std::to_string(tensor_.bytes));
    }
  }

  std::string where_;
  StoredTensor tensor_;
};

/// Sorts the tensors by their place, checks that they fill `data_bytes` without overlap or hole, and makes
/// their offsets count from the beginning of the file.
inline void place_tensors(std::vector<StoredTensor>& tensors, Index data_begin, Index data_bytes,
                          const std::string& path) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  Index end = 0;
  const StoredTensor* before = nullptr;
  for (StoredTensor& tensor : tensors) {
    const std::string where = path + ": tensor \"" + tensor.name + "\": ";
    const std::string begins = "begins at byte " + std::to_string(tensor.offset);
    if (tensor.offset < end) {
      throw std::runtime_error(where + "overlaps tensor \"" + before->name + "\": it " + begins +
                               " of the data, that one ends at " + std::to_string(end));
    }
    if (tensor.offset > end) {
      throw std::runtime_error(where + begins + " of the data, expected " + std::to_string(end) +
                               ": no tensor has the bytes between");
    }
    end = tensor.offset + tensor.bytes;
    if (end > data_bytes) {
      throw std::runtime_error(where + "ends at byte " + std::to_string(end) +
                               " of the data, but the file has " + std::to_string(data_bytes) +
                               ": is it truncated?");
    }
    before = &tensor;
  }
  if (end != data_bytes) {
    throw std::runtime_error(path + ": the tensors end at byte " + std::to_string(end) +
                             " of the data, but the file has " + std::to_string(data_bytes));
  }
  for (StoredTensor& tensor : tensors) tensor.offset += data_begin;
}

/// The length of the JSON text, from the file's first 8 bytes.
inline Index header_length(const std::array<unsigned char, length_bytes>& bytes, Index file_bytes,
                           const std::string& path) {
  const auto length = std::bit_cast<std::uint64_t>(bytes);
  if (length > static_cast<std::uint64_t>(longest_header)) {
    throw std::runtime_error(path + ": a header of " + std::to_string(length) + " bytes, where at most " +
                             std::to_string(longest_header) + " are expected: is this a safetensors file?");
  }
  if (static_cast<Index>(length) > file_bytes - length_bytes) {
    throw std::runtime_error(path + ": a header of " + std::to_string(length) + " bytes, but the file has " +
                             std::to_string(file_bytes - length_bytes) +
                             " after its length: is it truncated?");
  }
  return static_cast<Index>(length);
}

/// Reads the header's JSON `text`, of a file of `file_bytes` bytes, and checks all that it says.
inline SafetensorsHeader parse_safetensors_header(std::string_view text, Index file_bytes,
                                                  const std::string& path) {
  if (text.empty() || text.front() != '{')
    throw std::runtime_error(path + ": the header does not begin with {");
  const Json json = parse_json(text, path);
  SafetensorsHeader header;
  for (const auto& [name, fields] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(StoredTensorReader(name, fields, path).take());
      continue;
    }
    if (!fields.is_object())
      throw std::runtime_error(path + ": __metadata__ is no object: " + excerpt(fields));
    for (const auto& [key, value] : fields.items()) {
      if (!value.is_string()) {
        throw std::runtime_error(path + ": __metadata__ \"" + key + "\" is no string: " + excerpt(value));
      }
      header.metadata.emplace(key, value.get<std::string>());
    }
  }
  const Index data_begin = length_bytes + static_cast<Index>(text.size());
  place_tensors(header.tensors, data_begin, file_bytes - data_begin, path);
  return header;
}

/// The bytes before a file's data: the length and the JSON text, padded with spaces to a multiple of 8. Puts
/// the tensors into the order of the reference writer (wide types first, then names) and gives them their
/// offsets, which count from the beginning of the file.
inline std::string make_safetensors_header(SafetensorsHeader& header, const std::string& path) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  Index end = 0;
  for (StoredTensor& tensor : header.tensors) {
    tensor.offset = end;
    end += tensor.bytes;
    json[tensor.name] = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {tensor.offset, end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (static_cast<Index>(text.size()) > longest_header) {
    throw std::runtime_error(path + ": the header would have " + std::to_string(text.size()) +
                             " bytes, and at most " + std::to_string(longest_header) + " are legal");
  }
  const auto length = std::bit_cast<std::array<char, length_bytes>>(static_cast<std::uint64_t>(text.size()));
  text.insert(text.begin(), length.begin(), length.end());
  for (StoredTensor& tensor : header.tensors) tensor.offset += static_cast<Index>(text.size());
  return text;
}

}  // namespace detail

}  // namespace shardwise
