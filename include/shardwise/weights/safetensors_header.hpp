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

#include <shardwise/io/json.hpp>
#include <shardwise/layout/text.hpp>
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

namespace detail {

/// A longer header is taken for damage, as by the reference implementation.
inline constexpr std::size_t longest_header = 100'000'000;
inline constexpr std::size_t length_bytes = 8;

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

/// What the header says of one tensor, whose offset counts from the beginning of the data.
inline StoredTensor read_stored_tensor(const std::string& name, const JsonPart& fields) {
  fields.only({"dtype", "shape", "data_offsets"});
  const auto type = stored_type_named(fields.get<std::string>("dtype"));
  if (!type) fields["dtype"].expected("a known type");
  constexpr Index most = std::numeric_limits<Index>::max();
  const std::vector<Index> shape = fields["shape"].integers(most);
  fields["data_offsets"].must_have(2);
  const std::vector<Index> offsets = fields["data_offsets"].integers(most);
  const std::string found =
      "data_offsets [" + std::to_string(offsets[0]) + ", " + std::to_string(offsets[1]) + "]";
  if (offsets[1] < offsets[0]) fields.fail(found + " end before they begin");
  const std::string described = text({name_of(*type), " ", shape});
  const Index bytes = offsets[1] - offsets[0];
  const auto expected = stored_bytes(*type, shape);
  if (!expected) fields.fail(described + " has more bytes than 2^63 - 1");
  if (bytes != *expected) {
    fields.fail(described + " has " + std::to_string(*expected) + " bytes, but " + found + " hold " +
                std::to_string(bytes));
  }
  return {name, *type, shape, offsets[0], bytes};
}

/// Sorts the tensors by their place, checks that they fill `data_bytes` without overlap or hole, and makes
/// their offsets count from the beginning of the file.
inline void place_tensors(std::vector<StoredTensor>& tensors, Index data_begin, Index data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  Index end = 0;
  std::string before;
  for (const StoredTensor& tensor : tensors) {
    auto fail = [&](const std::string& what) {
      detail::fail<std::runtime_error>({"tensor \"", tensor.name, "\": ", what});
    };
    const std::string begins = "begins at byte " + std::to_string(tensor.offset) + " of the data";
    if (tensor.offset < end) {
      fail("overlaps tensor \"" + before + "\": it " + begins + ", that one ends at " + std::to_string(end));
    }
    if (tensor.offset > end) {
      fail(begins + ", expected " + std::to_string(end) + ": no tensor has the bytes between");
    }
    end = tensor.offset + tensor.bytes;
    if (end > data_bytes) {
      fail("ends at byte " + std::to_string(end) + " of the data, but the file has " +
           std::to_string(data_bytes) + ": is it truncated?");
    }
    before = tensor.name;
  }
  if (end != data_bytes) {
    detail::fail<std::runtime_error>(
        {"the tensors end at byte ", end, " of the data, but the file has ", data_bytes});
  }
  for (StoredTensor& tensor : tensors) tensor.offset += data_begin;
}

/// Reads the header of a file of these `bytes`, and checks all that it says.
inline SafetensorsHeader read_safetensors_header(std::string_view bytes) {
  auto fail = [&](const std::string& what) { throw std::runtime_error(what); };
  if (bytes.size() < length_bytes) {
    fail(std::to_string(bytes.size()) + " bytes are no safetensors file, which has at least 8");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), length_bytes);
  bytes.remove_prefix(length_bytes);
  const std::string found = "a header of " + std::to_string(length) + " bytes, ";
  if (length > longest_header) {
    fail(found + "where at most " + std::to_string(longest_header) +
         " are expected: is this a safetensors file?");
  }
  if (length > bytes.size()) {
    fail(found + "but the file has " + std::to_string(bytes.size()) + " after its length: is it truncated?");
  }
  const std::string_view text = bytes.substr(0, length);
  if (!text.starts_with('{')) fail("the header does not begin with {");
  SafetensorsHeader header;
  json_of(text, [&](const std::string& name, const Json& fields) {
    if (name != "__metadata__") {
      header.tensors.push_back(read_stored_tensor(name, JsonPart(fields, "tensor \"" + name + "\"")));
      return;
    }
    JsonPart(fields, name).for_each_member([&](const std::string& key, const JsonPart& value) {
      header.metadata.emplace(key, value.get<std::string>());
    });
  });
  place_tensors(header.tensors, static_cast<Index>(length_bytes + length),
                static_cast<Index>(bytes.size() - length));
  return header;
}

/// The bytes before a file's data: the length and the JSON text, padded with spaces to a multiple of 8. Puts
/// the tensors into the order of the reference writer (wide types first, then names) and gives them their
/// offsets, which count from the beginning of the file.
inline std::string make_safetensors_header(SafetensorsHeader& header, const std::string& path) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  std::string json = "{";
  if (!header.metadata.empty()) json += "\"__metadata__\":" + Json(header.metadata).dump() + ",";
  Index end = 0;
  for (StoredTensor& tensor : header.tensors) {
    tensor.offset = end;
    end += tensor.bytes;
    json += text({Json(tensor.name).dump(), ":{\"dtype\":\"", name_of(tensor.type), "\",\"shape\":",
                  Json(tensor.shape).dump(), ",\"data_offsets\":[", tensor.offset, ",", end, "]},"});
  }
  if (json.ends_with(',')) json.pop_back();
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > longest_header) {
    detail::fail<std::runtime_error>({path, ": the header would have ", json.size(), " bytes, and at most ",
                                      longest_header, " are legal"});
  }
  const auto length = std::bit_cast<std::array<char, length_bytes>>(static_cast<std::uint64_t>(json.size()));
  json.insert(json.begin(), length.begin(), length.end());
  for (StoredTensor& tensor : header.tensors) tensor.offset += static_cast<Index>(json.size());
  return json;
}

}  // namespace detail

}  // namespace shardwise
