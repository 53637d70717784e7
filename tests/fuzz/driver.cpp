// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// For compilers without libFuzzer: changes inputs at random, without knowing what they reach. It takes of libFuzzer's
/// options -runs=, -seed= and -max_len=, leaves out the others, and reads a single file just as it is.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A number below `end`, which is not 0.
std::size_t below(std::mt19937_64& random, std::size_t end) {
  return static_cast<std::size_t>(random() % end);
}

/// One change: of a byte, or of a piece that goes, comes again, or comes from another input.
void change(std::string& input, const std::string& other, std::mt19937_64& random) {
  static constexpr std::string_view words[] = {
      "null", "-1", "{}", "[]", "\"\"", "[[", "18446744073709551615", "1e308", "../"};
  const std::size_t at = below(random, input.size() + 1);
  const std::size_t length = 1 + below(random, 16);
  switch (below(random, 6)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(random());
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << below(random, 8));
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(below(random, input.size() + 1), std::string(input, at, length * 4));
      break;
    case 4:
      input.insert(at, words[below(random, std::size(words))]);
      break;
    default:
      if (!other.empty()) input.insert(at, other, below(random, other.size()), length * 4);
  }
}

}  // namespace

int main(int count, char** arguments) {
  LLVMFuzzerInitialize(&count, &arguments);
  std::uint64_t runs = 100'000, seed = 1, longest = 4096;
  std::vector<std::string> inputs;
  for (const std::string_view word : std::vector<std::string_view>(arguments + 1, arguments + count)) {
    for (const auto& [name, value] :
         {std::pair("-runs=", &runs), {"-seed=", &seed}, {"-max_len=", &longest}}) {
      if (word.starts_with(name))
        std::from_chars(word.data() + std::string_view(name).size(), word.data() + word.size(), *value);
    }
    if (word.starts_with('-')) continue;
    if (!std::filesystem::is_directory(word)) {
      inputs.push_back(contents(word));
      runs = 0;
      continue;
    }
    for (const auto& file : std::filesystem::directory_iterator(word))
      inputs.push_back(contents(file.path()));
  }
  std::sort(inputs.begin(), inputs.end());  // folders have no order
  const auto run = [](const std::string& input) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  };
  for (const std::string& input : inputs) run(input);
  std::mt19937_64 random(seed);
  for (std::uint64_t i = 0; i < runs && !inputs.empty(); ++i) {
    std::string input = inputs[below(random, inputs.size())];
    for (std::size_t changes = 1 + below(random, 8); changes > 0; --changes) {
      change(input, inputs[below(random, inputs.size())], random);
    }
    input.resize(std::min<std::size_t>(input.size(), longest));
    run(input);
  }
  std::fprintf(stderr, "%zu inputs as they are, %llu changed\n", inputs.size(),
               static_cast<unsigned long long>(runs));
}
