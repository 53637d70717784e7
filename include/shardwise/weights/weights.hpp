// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The weights of a model in files: one of safetensors, or several with an index, as Hugging Face lays them out; or one
/// of another format. A header is checked whole before use, and of the elements each rank reads only those of its own
/// block.
///
/// ```
/// Weights weights("llama/");     // model.safetensors, or model.safetensors.index.json and the files it lists
/// weights.read_block("lm_head.weight", block.writable());   // this rank's block, converted if need be
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/io/mapped_file.hpp>
#include <shardwise/tensor/parts.hpp>
#include <shardwise/weights/safetensors_header.hpp>

namespace shardwise {

namespace detail {

/// Whether the extents of `coarse` are products of adjacent extents of `fine`, in order: [6, 5] of [2, 3, 5].
inline bool merges_to(std::span<const Index> fine, std::span<const Index> coarse) {
  std::size_t next = 0;
  for (Index wanted : coarse) {
    if (next == fine.size()) return false;
    Index product = fine[next++];
    while (product != wanted && next < fine.size()) product *= fine[next++];
    if (product != wanted) return false;
  }
  // What is left is merged into the last one.
  return fine.empty() == coarse.empty() &&
         std::ranges::all_of(fine.subspan(next), [](Index extent) { return extent == 1; });
}

}  // namespace detail

/// Another format of files of weights, such as `gguf_format` (llm/gguf/header.hpp).
struct WeightsFormat {
  /// Whether the file at a path is of this format.
  bool (*matches)(const std::filesystem::path& path);
  /// Reads the header of a file of these bytes, and checks all that it says. Throws `std::runtime_error`.
  SafetensorsHeader (*read_header)(std::string_view bytes);
};

/// A file that is open and mapped: of safetensors or, if it matches that, of another format. It must not shrink
/// meanwhile.
class SafetensorsFile {
 public:
  /// Opens the file and reads its header. A `std::runtime_error` names the file and what is wrong with it.
  explicit SafetensorsFile(std::filesystem::path path, const WeightsFormat* other = nullptr)
      : path_(std::move(path)), memory_(path_), header_(prefix_errors(path_.string(), [&] {
          return other != nullptr && other->matches(path_) ? other->read_header(memory_.bytes())
                                                           : detail::read_safetensors_header(memory_.bytes());
        })) {}

  /// The path that it was opened with.
  const std::filesystem::path& path() const noexcept { return path_; }
  /// In the order of their elements in the file.
  const std::vector<StoredTensor>& tensors() const noexcept { return header_.tensors; }
  /// The texts under `__metadata__`; in GGUF the architecture.
  const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }

 private:
  friend class Weights;

  std::filesystem::path path_;
  detail::MappedFile memory_;
  SafetensorsHeader header_;
};

/// One safetensors file or a checkpoint of several, open and mapped. Nothing here communicates: a `std::runtime_error`,
/// which names file, tensor, what was expected and found, is of one rank; `load_weights` and `read_tensor` make it one
/// of all.
class Weights {
 public:
  /// `path` is a file, of safetensors or of `other`, or a folder, in which model.safetensors comes before
  /// model.safetensors.index.json.
  /// Every tensor that an index lists must be in the file that it names; all other tensors of that file are there too.
  explicit Weights(std::filesystem::path path, const WeightsFormat* other = nullptr)
      : path_(std::move(path)) {
    open_all(other);
  }

  /// The path that was given, and the files.
  const std::filesystem::path& path() const noexcept { return path_; }
  const std::vector<SafetensorsFile>& files() const noexcept { return files_; }

  /// Whether a file has a tensor of this name.
  bool contains(std::string_view name) const { return places_.contains(name); }
  /// The file that holds a tensor. Throws if none does.
  const SafetensorsFile& file_of(std::string_view name) const { return files_[place_of(name).file]; }
  /// Throws if no file has it.
  const StoredTensor& tensor(std::string_view name) const { return *place_of(name).tensor; }

  /// Reads this rank's block of a tensor. The shapes in file and view may differ by merging adjacent dimensions:
  /// [heads, head_dim, in] is [heads * head_dim, in] in Hugging Face's files. Floating-point numbers are rounded to
  /// nearest even, or quantised if the view is of blocks; an integer that does not fit, and a number that
  /// cannot be quantised, is an error, after which the block is in part written.
  template <Communicable T, int Rank>
  void read_block(std::string_view name, const View<T, Rank>& block) const {
    View<char, max_rank> bytes{
        reinterpret_cast<char*>(block.data), detail::padded(block.size), {}, detail::padded(block.shape)};
    std::copy(block.begin.begin(), block.begin.end(), bytes.begin.begin());
    read_bytes(name, bytes, Rank, data_type_of<T>(), &block_format<T>);
  }

  /// Why a tensor cannot be read into blocks of such a tensor in memory; empty if it can.
  std::string problem(std::string_view name, DataType type, std::span<const Index> shape) const;

  /// Bytes of elements that have been read by this object.
  Index bytes_read() const noexcept { return bytes_read_; }

  /// `read_block` for elements of `type`, with ones behind the block's `rank` extents: compiled once. `blocks` is null
  /// unless elements are blocks.
  void read_bytes(std::string_view name, const View<char, max_rank>& block, int rank, DataType type,
                  const BlockFormat* blocks) const;

 private:
  struct Place {
    std::size_t file;
    const StoredTensor* tensor;
  };

  std::string where(std::string_view name) const {
    return (contains(name) ? file_of(name).path() : path_).string() + ": tensor \"" + std::string(name) +
           "\": ";
  }
  const Place& place_of(std::string_view name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) detail::fail<std::runtime_error>({where(name), "there is no such tensor"});
    return found->second;
  }

  void open_all(const WeightsFormat* other);

  void open(const std::filesystem::path& path, const WeightsFormat* other = nullptr) {
    files_.emplace_back(path, other);
    for (const StoredTensor& tensor : files_.back().tensors()) {
      const auto [place, fresh] = places_.try_emplace(tensor.name, Place{files_.size() - 1, &tensor});
      if (!fresh) {
        detail::fail<std::runtime_error>({path.string(), ": tensor \"", tensor.name, "\" is in ",
                                          files_[place->second.file].path().filename().string(), " too"});
      }
    }
  }

  void open_listed(const std::filesystem::path& index) {
    std::map<std::string, std::size_t> opened;
    detail::for_each_listed(index, [&](const std::string& tensor, const std::string& name, auto& entry) {
      const auto [place, fresh] = opened.emplace(name, files_.size());
      if (fresh) open(index.parent_path() / name);
      const auto found = places_.find(tensor);
      if (found == places_.end() || found->second.file != place->second) {
        entry.fail("the tensor must be in " + name + ", but is not");
      }
    });
  }

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string_view, Place> places_;  // by the tensors' names, which lie in the files' headers
  mutable Index bytes_read_ = 0;
};

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {

SHARDWISE_INLINE void Weights::open_all(const WeightsFormat* other) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::exists(path_, ignored))
    detail::fail<std::runtime_error>({path_.string(), ": no such file or folder"});
  const fs::path single = path_ / "model.safetensors", index = path_ / "model.safetensors.index.json";
  if (!fs::is_directory(path_, ignored)) {
    open(path_, other);
  } else if (fs::exists(single, ignored)) {
    open(single);
  } else if (fs::exists(index, ignored)) {
    open_listed(index);
  } else {
    detail::fail<std::runtime_error>(
        {path_.string(), ": neither model.safetensors nor model.safetensors.index.json is there",
         fs::exists(path_ / "pytorch_model.bin", ignored) ? ", and a pytorch_model.bin is not read" : ""});
  }
}

namespace detail {

/// Converts numbers of a tensor, from number `first` on, to `count` of another type.
inline void read_numbers(const StoredTensor& from, const char* source, Index first, StoredType to,
                         void* target, Index count) {
  const Index bytes = from.element_bytes(), each = from.numbers();
  if (!from.blocks) return convert(from.type, source + first * bytes, to, target, count);
  float wide[256];  // a block has fewer numbers
  for (Index i = first, n = 0; i < first + count; i += n) {
    from.blocks->dequantise(source + i / each * bytes, wide);
    n = std::min(each - i % each, first + count - i);
    convert(StoredType::f32, wide + i % each, to, static_cast<char*>(target) + (i - first) * size_of(to), n);
  }
}
/// Copies, converts or quantises `count` elements in memory from a tensor of a file, from element `first` on.
inline void read_elements(const StoredTensor& from, const char* source, Index first, DataType type,
                          const BlockFormat* blocks, char* target, Index count) {
  const Index numbers = numbers_in(type), bytes = size_of(type);
  if (from.blocks && from.blocks->type == type) {
    std::copy_n(source + first * bytes, count * bytes, target);
    for (Index i = 0; i < count; ++i) {
      if (const float scale = blocks->scale(target + i * bytes); !is_finite(scale))
        fail<std::runtime_error>({"the scale of block ", first + i, " is ", scale});
    }
    return;
  }
  if (numbers == 1) return read_numbers(from, source, first, stored_as(type), target, count);
  if (!blocks->quantise)
    return read_numbers(from, source, first * numbers, StoredType::bf16, target, count * numbers);
  constexpr Index most = 256;  // blocks at a time, whose numbers stay in the cache
  std::vector<float> wide(static_cast<std::size_t>(std::min(most, count) * numbers));
  for (Index begin = 0; begin < count; begin += most) {
    const Index n = std::min(most, count - begin);
    read_numbers(from, source, (first + begin) * numbers, StoredType::f32, wide.data(), n * numbers);
    blocks->quantise(n, wide.data(), target + begin * bytes);
    for (Index i = 0; i < n; ++i) {
      if (is_finite(blocks->scale(target + (begin + i) * bytes))) continue;
      const std::span group(wide.data() + i * numbers, static_cast<std::size_t>(numbers));
      fail<std::runtime_error>({"a number is ", std::ranges::max(group, {}, magnitude_bits<float>),
                                ", expected one to quantise, of at most ", blocks->largest});
    }
  }
}

}  // namespace detail

SHARDWISE_INLINE void Weights::read_bytes(std::string_view name, const View<char, max_rank>& block, int rank,
                                          DataType type, const BlockFormat* blocks) const {
  const std::string why = problem(name, type, {block.shape.begin(), block.shape.begin() + rank});
  if (!why.empty()) throw std::runtime_error(why);
  const detail::MappedFile& memory = file_of(name).memory_;
  const detail::FileWork here("reads", file_of(name).path().native());
  const StoredTensor& stored = tensor(name);
  const Index numbers = numbers_in(type), each = stored.numbers();
  const auto place_of = [&](Index number) { return stored.offset + number / each * stored.element_bytes(); };
  memory.check_size();

  // The system reads while we still ask: one request for pages that follow each other.
  Index begin = 0, end = 0;
  detail::for_each_run(block, [&](Index, Index global, Index count) {
    const Index from = place_of(global * numbers);
    const bool apart = from / memory.page() > (end - 1) / memory.page() + 1;
    if (begin == end || apart) {
      if (end > begin) memory.will_need(begin, end - begin);
      begin = from;
    }
    end = place_of((global + count) * numbers + each - 1);  // blocks in part are read whole
  });
  if (end > begin) memory.will_need(begin, end - begin);

  detail::for_each_run(block, [&](Index local, Index global, Index count) {
    try {
      detail::read_elements(stored, memory.data() + stored.offset, global, type, blocks,
                            block.data + local * size_of(type), count);
    } catch (const std::runtime_error& error) {
      detail::fail<std::runtime_error>({where(name), error.what()});
    }
    bytes_read_ += place_of((global + count) * numbers + each - 1) - place_of(global * numbers);
  });
  memory.release(stored.offset, stored.bytes);
}

SHARDWISE_INLINE std::string Weights::problem(std::string_view name, DataType type,
                                              std::span<const Index> shape) const {
  if (!contains(name)) return where(name) + "there is no such tensor";
  const StoredTensor& stored = tensor(name);
  const bool blocks = numbers_in(type) > 1;
  const StoredType wanted = blocks ? StoredType::f32 : stored_as(type);
  if (!detail::convertible(stored.blocks ? StoredType::f32 : stored.type, wanted)) {
    return detail::text({where(name), "expected a type that can be read as ", name_of(wanted), ", found ",
                         stored.type_name()});
  }
  // The elements lie in the same row-major order if adjacent dimensions are merged in one of the two.
  std::vector<Index> expected(shape.begin(), shape.end());
  if (blocks) expected.back() *= numbers_in(type);
  if (!detail::merges_to(stored.shape, expected) && !detail::merges_to(expected, stored.shape)) {
    return detail::text({where(name), "expected the shape ", expected, ", found ", stored.shape});
  }
  return {};
}

}  // namespace shardwise
#endif
