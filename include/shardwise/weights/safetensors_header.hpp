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

#include <shardwise/base/bodies.hpp>
#include <shardwise/io/json.hpp>
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
  std::string dtype = {};               ///< how the file spells a type that is `StoredType::other`
  const BlockFormat* blocks = nullptr;  ///< set if elements are blocks, of `StoredType::other`

  /// Numbers in an element, and its bytes.
  Index numbers() const { return blocks ? numbers_in(blocks->type) : 1; }
  Index element_bytes() const { return blocks ? size_of(blocks->type) : size_of(type); }
  /// As the file spells it, for example "BF16".
  std::string_view type_name() const { return type == StoredType::other ? dtype : name_of(type); }
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in the order of their elements
  std::map<std::string, std::string> metadata;
};

namespace detail {

/// A longer header is taken for damage, as by the reference implementation.
inline constexpr std::size_t longest_header = 100'000'000;
inline constexpr std::size_t length_bytes = 8;

/// Bytes of a tensor, or nothing if an `Index` does not hold their number. Extents of zero do not excuse what
/// the others multiply to. An element has `numbers` of the last dimension.
inline std::optional<Index> stored_bytes(Index bytes, std::span<const Index> shape, Index numbers = 1) {
  bool empty = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Index extent = shape[i] / (i + 1 < shape.size() ? 1 : numbers);
    if (extent == 0) empty = true;
    if (extent > 1 && bytes > std::numeric_limits<Index>::max() / extent) return std::nullopt;
    if (extent > 1) bytes *= extent;
  }
  return empty ? 0 : bytes;
}

/// Reads the description of one tensor, whose offset counts from the beginning of the data. The size of an element is
/// unknown for types that have no `StoredType`, such as F8_E8M0.
inline StoredTensor read_stored_tensor(const std::string& name, const JsonPart& fields) {
  fields.only({"dtype", "shape", "data_offsets"});
  const auto dtype = fields.get<std::string>("dtype");
  const auto type = stored_type_named(dtype);
  constexpr Index most = std::numeric_limits<Index>::max();
  const std::vector<Index> shape = fields["shape"].integers(most);
  fields["data_offsets"].must_have(2);
  const std::vector<Index> offsets = fields["data_offsets"].integers(most);
  const Index begin = offsets[0], end = offsets[1];
  if (end < begin) fields.fail(text({"data_offsets [", begin, ", ", end, "] end before they begin"}));
  const auto bytes = stored_bytes(size_of(type.value_or(StoredType::u8)), shape);
  if (!bytes) fields.fail(text({excerpt(dtype), " ", shape, " has more bytes than 2^63 - 1"}));
  if (!type) return {name, StoredType::other, shape, begin, end - begin, dtype};
  if (*bytes != end - begin) {
    fields.fail(text({name_of(*type), " ", shape, " has ", *bytes, " bytes, but data_offsets [", begin, ", ",
                      end, "] hold ", end - begin}));
  }
  return {name, *type, shape, begin, *bytes};
}

/// The bytes of a file that belong to a tensor.
struct FilePart {
  Index begin = 0, bytes = 0;
  std::string_view tensor;
};

/// Sorts the parts of a file. Throws `std::runtime_error` unless every byte is in one part: `where` is "the data" of
/// this file, or its name.
inline void check_parts(std::vector<FilePart>& parts, std::string_view where, Index bytes) {
  std::ranges::sort(parts, {},
                    [](const FilePart& part) { return std::tie(part.begin, part.bytes, part.tensor); });
  Index end = 0;
  std::string_view before;
  for (const FilePart& part : parts) {
    auto fail = [&](std::initializer_list<TextPart> what) {
      detail::fail<std::runtime_error>({"tensor \"", excerpt(std::string(part.tensor)), "\": ", text(what)});
    };
    if (part.begin < end) {
      fail({"overlaps tensor \"", excerpt(std::string(before)), "\": it begins at byte ", part.begin, " of ",
            where, ", that one ends at ", end});
    }
    if (part.begin > end) {
      fail({"begins at byte ", part.begin, " of ", where, ", expected ", end,
            ": no tensor has the bytes between"});
    }
    end = part.begin + part.bytes;
    if (end > bytes) {
      fail({"ends at byte ", end, " of ", where, ", but the file has ", bytes, ": is it truncated?"});
    }
    before = part.tensor;
  }
  if (end != bytes) {
    detail::fail<std::runtime_error>(
        {"the tensors end at byte ", end, " of ", where, ", but the file has ", bytes});
  }
}

/// Sorts the tensors by their place, checks that they fill `data_bytes`, and makes their offsets count from the
/// beginning of the file.
inline void place_tensors(std::vector<StoredTensor>& tensors, Index data_begin, Index data_bytes) {
  std::ranges::sort(tensors, {}, [](const StoredTensor& tensor) {
    return std::tie(tensor.offset, tensor.bytes, tensor.name);
  });
  std::vector<FilePart> parts;
  for (const StoredTensor& tensor : tensors) parts.push_back({tensor.offset, tensor.bytes, tensor.name});
  check_parts(parts, "the data", data_bytes);
  for (StoredTensor& tensor : tensors) tensor.offset += data_begin;
}

/// Calls f(tensor, name of its file, entry in the JSON) for each tensor that an index of several files lists.
template <class F>
void for_each_listed(const Path& index, F f) {
  const Json json = read_json(index);
  const JsonPart whole(json, index.string() + ": ");
  whole["weight_map"].for_each_member([&](const std::string& tensor, const JsonPart& file) {
    const auto name = file.get<std::string>();
    if (!is_plain_name(name)) file.expected("a name in the same folder");
    f(tensor, name, file);
  });
}

/// Reads the header of a file of these `bytes`, and checks all that it says.
SafetensorsHeader read_safetensors_header(std::string_view bytes);

/// The bytes before a file's data: the length and the JSON text, padded with spaces to a multiple of 8. Puts
/// the tensors into the order of the reference writer (wide types first, then names) and gives them their
/// offsets, which count from the beginning of the file.
std::string make_safetensors_header(SafetensorsHeader& header, const std::string& path);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE SafetensorsHeader read_safetensors_header(std::string_view bytes) {
  if (bytes.size() < length_bytes) {
    fail<std::runtime_error>({bytes.size(), " bytes are not a safetensors file, which has at least 8"});
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), length_bytes);
  bytes.remove_prefix(length_bytes);
  if (length > longest_header) {
    fail<std::runtime_error>({"a header of ", length, " bytes, where at most ", longest_header,
                              " are expected: is this a safetensors file?"});
  }
  if (length > bytes.size()) {
    fail<std::runtime_error>({"a header of ", length, " bytes, but the file has ", bytes.size(),
                              " after its length: is it truncated?"});
  }
  const std::string_view text = bytes.substr(0, length);
  if (!text.starts_with('{')) throw std::runtime_error("the header does not begin with {");
  SafetensorsHeader header;
  json_of(text, [&](const std::string& name, const Json& fields) {
    if (name != "__metadata__") {
      header.tensors.push_back(read_stored_tensor(name, JsonPart(fields, "tensor \"" + name + "\"")));
      return;
    }
    if (fields.is_null()) return;  // some writers say so that there is no metadata
    JsonPart(fields, name).for_each_member([&](const std::string& key, const JsonPart& value) {
      header.metadata.emplace(key, value.get<std::string>());
    });
  });
  place_tensors(header.tensors, static_cast<Index>(length_bytes + length),
                static_cast<Index>(bytes.size() - length));
  return header;
}

SHARDWISE_INLINE std::string make_safetensors_header(SafetensorsHeader& header, const std::string& path) {
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

#endif

}  // namespace detail

}  // namespace shardwise
