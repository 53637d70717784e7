// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writes weights as a file for `torch.load(file, weights_only=True)`: a dictionary of tensors in the format of
/// `torch.save` since PyTorch 1.6. It is a zip file (APPNOTE 6.3.10, uncompressed, with 64-bit sizes) with a pickle
/// of protocol 2, which describes the contents, and the elements of each tensor.
///
/// ```
/// write_pytorch_file(sw::Weights("llama/"), "llama/pytorch_model.bin");
/// ```

#include <shardwise/weights/weights.hpp>

namespace tools {

namespace sw = shardwise;

namespace detail {

/// CRC-32 as in zip files, continued from that of the preceding bytes.
inline std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> all{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
      all[byte] = value;
    }
    return all;
  }();
  std::uint32_t value = ~before;
  for (const char byte : bytes) value = table[(value ^ static_cast<unsigned char>(byte)) & 0xff] ^ value >> 8;
  return ~value;
}

/// Appends little-endian numbers.
template <class... Numbers>
void append_numbers(std::string& bytes, Numbers... numbers) {
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
}

/// Writes a zip file sequentially.
class ZipWriter {
 public:
  explicit ZipWriter(const sw::File& file) : file_(file) {}

  /// `fill(write)` calls write(bytes) until all `size` bytes are written; they begin at a multiple of 64.
  template <class Fill>
  void add(const std::string& name, sw::Index size, Fill fill) {
    Entry entry{name, size, end_, 0};
    constexpr sw::Index fixed = 30, sizes = 20, head_of_filler = 4, alignment = 64;
    const sw::Index unfilled = end_ + fixed + std::ssize(name) + sizes + head_of_filler;
    const auto filler = static_cast<std::uint16_t>((alignment - unfilled % alignment) % alignment);
    const sw::Index begin = unfilled + filler;
    sw::Index at = begin;
    fill([&](std::string_view bytes) {
      entry.sum = crc32(bytes, entry.sum);
      file_.write(bytes, at);
      at += std::ssize(bytes);
    });
    std::string head;
    append_numbers(head, std::uint32_t{0x04034b50});
    append_common(head, entry, static_cast<std::uint16_t>(sizes + head_of_filler + filler));
    head += name;
    append_numbers(head, std::uint16_t{1}, std::uint16_t{16}, std::uint64_t(size), std::uint64_t(size));
    append_numbers(head, std::uint16_t{0x4246}, filler);
    head.append(filler, 'Z');
    file_.write(head, end_);
    end_ = at;
    entries_.push_back(std::move(entry));
  }
  void add(const std::string& name, std::string_view bytes) {
    add(name, std::ssize(bytes), [&](auto write) { write(bytes); });
  }

  /// Writes the directory.
  void finish() {
    std::string all;
    for (const Entry& entry : entries_) {
      append_numbers(all, std::uint32_t{0x02014b50}, version);
      append_common(all, entry, 28);
      append_numbers(all, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}, std::uint32_t{0}, elsewhere);
      all += entry.name;
      append_numbers(all, std::uint16_t{1}, std::uint16_t{24}, std::uint64_t(entry.size),
                     std::uint64_t(entry.size), std::uint64_t(entry.offset));
    }
    const std::uint64_t count = entries_.size(), size = all.size(), begin = std::uint64_t(end_);
    append_numbers(all, std::uint32_t{0x06064b50}, std::uint64_t{44}, version, version, std::uint32_t{0},
                   std::uint32_t{0}, count, count, size, begin);
    append_numbers(all, std::uint32_t{0x07064b50}, std::uint32_t{0}, begin + size, std::uint32_t{1});
    append_numbers(all, std::uint32_t{0x06054b50}, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0xffff},
                   std::uint16_t{0xffff}, elsewhere, elsewhere, std::uint16_t{0});
    file_.write(all, end_);
  }

 private:
  struct Entry {
    std::string name;
    sw::Index size, offset;
    std::uint32_t sum;
  };
  static constexpr std::uint16_t version = 45;            // supports 64-bit sizes,
  static constexpr std::uint32_t elsewhere = 0xffffffff;  // which are in an extra field
  static constexpr std::uint16_t first_day = 1 << 5 | 1;  // of 1980

  static void append_common(std::string& bytes, const Entry& entry, std::uint16_t extra) {
    append_numbers(bytes, version, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}, first_day, entry.sum,
                   elsewhere, elsewhere, static_cast<std::uint16_t>(entry.name.size()), extra);
  }

  const sw::File& file_;
  sw::Index end_ = 0;
  std::vector<Entry> entries_;
};

/// PyTorch's class for a tensor's storage. Throws for types that weights do not have.
inline std::string storage_of(const sw::StoredTensor& tensor) {
  const sw::StoredType type = tensor.type;
  if (type == sw::StoredType::f64) return "DoubleStorage";
  if (type == sw::StoredType::f32) return "FloatStorage";
  if (type == sw::StoredType::bf16) return "BFloat16Storage";
  if (type == sw::StoredType::f16) return "HalfStorage";
  throw std::runtime_error("tensor \"" + tensor.name + "\": expected the type F64, F32, BF16 or F16, found " +
                           std::string(tensor.type_name()));
}

/// {name: _rebuild_tensor_v2(storage, 0, sizes, strides, False, OrderedDict())}
inline std::string pickle_of(const std::vector<const sw::StoredTensor*>& tensors) {
  std::string all = "\x80\x02}(";
  auto add_text = [&](const std::string& text) {
    append_numbers(all += 'X', static_cast<std::uint32_t>(text.size()));
    all += text;
  };
  auto add_number = [&](sw::Index number) {
    if (number <= std::numeric_limits<std::int32_t>::max()) {
      append_numbers(all += 'J', static_cast<std::int32_t>(number));
    } else {
      append_numbers(all += "\x8a\x08", std::int64_t{number});
    }
  };
  auto add_numbers = [&](const std::vector<sw::Index>& numbers) {
    all += '(';
    for (const sw::Index number : numbers) add_number(number);
    all += 't';
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const sw::StoredTensor& tensor = *tensors[i];
    std::vector<sw::Index> strides(tensor.shape.size(), 1);
    for (std::size_t dim = strides.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * tensor.shape[dim];
    add_text(tensor.name);
    all += "ctorch._utils\n_rebuild_tensor_v2\n((";
    add_text("storage");
    all += "ctorch\n" + storage_of(tensor) + "\n";
    add_text(std::to_string(i));
    add_text("cpu");
    add_number(tensor.bytes / sw::size_of(tensor.type));
    all += "tQ";
    add_number(0);
    add_numbers(tensor.shape);
    add_numbers(strides);
    all +=
        "\x89"
        "ccollections\nOrderedDict\n)RtR";
  }
  return all + "u.";
}

}  // namespace detail

/// Writes all tensors, in one process, with little memory. The file appears by one rename when it is complete.
/// Throws `std::runtime_error`, with the file, the tensor and the problem.
inline void write_pytorch_file(const sw::Weights& weights, const std::filesystem::path& path) {
  std::vector<const sw::StoredTensor*> tensors;
  for (const sw::SafetensorsFile& file : weights.files()) {
    for (const sw::StoredTensor& tensor : file.tensors()) tensors.push_back(&tensor);
  }
  sw::TemporaryFile temporary(path, weights.files().front().path());
  detail::ZipWriter zip(temporary.file());
  zip.add("model/data.pkl", sw::prefix_errors(path.string(), [&] { return detail::pickle_of(tensors); }));
  zip.add("model/byteorder", "little");
  std::vector<char> slab(std::size_t{1} << 20);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const sw::StoredTensor& tensor = *tensors[i];
    const sw::File source(weights.file_of(tensor.name).path(), O_RDONLY);
    zip.add("model/data/" + std::to_string(i), tensor.bytes, [&](auto write) {
      for (sw::Index done = 0; done < tensor.bytes;) {
        const sw::Index count = std::min(tensor.bytes - done, std::ssize(slab));
        source.read(slab.data(), count, tensor.offset + done);
        write(std::string_view(slab.data(), static_cast<std::size_t>(count)));
        done += count;
      }
    });
  }
  zip.add("model/version", "3\n");
  zip.finish();
  temporary.commit();
}

}  // namespace tools
