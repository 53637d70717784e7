// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The readers of files as targets of libFuzzer, or of driver.cpp where the compiler has none:
///
///     fuzz TARGET [OPTIONS OF LIBFUZZER] [FILES OR FOLDERS OF INPUTS]
///
/// Without files it begins with the target's own seeds, which `fuzz TARGET --seeds=FOLDER` writes.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "chat_template.hpp"
#include "gguf.hpp"
#include "llama_config.hpp"
#include "manifest.hpp"
#include "openai_request.hpp"
#include "safetensors.hpp"
#include "schedule.hpp"
#include "target.hpp"
#include "token_file.hpp"
#include "tokenizer.hpp"

namespace {

fuzz::Target target_named(const std::string& name) {
  for (auto* make :
       {fuzz::safetensors, fuzz::index, fuzz::llama_config, fuzz::tokenizer, fuzz::manifest, fuzz::token_file,
        fuzz::schedule, fuzz::chat_template, fuzz::openai_request, fuzz::gguf}) {
    if (fuzz::Target target = make(); target.name == name) return target;
  }
  std::fprintf(stderr,
               "usage: fuzz TARGET …, of safetensors, index, llama_config, tokenizer, manifest, token_file, "
               "schedule, chat_template, openai_request, gguf\n");
  std::exit(2);
}

const fuzz::Target& target() {
  constexpr const char* variable = "SHARDWISE_FUZZ_TARGET";  // also for the processes that libFuzzer starts
  static const fuzz::Target chosen = target_named(std::getenv(variable) ? std::getenv(variable) : "");
  return chosen;
}

/// Also inputs of no byte and of one.
void write_seeds(const std::filesystem::path& folder) {
  std::vector<std::string> seeds = target().seeds;
  seeds.insert(seeds.end(), {"", "0"});
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream(folder / ("seed-" + std::to_string(i)), std::ios::binary) << seeds[i];
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  char** const all = *arguments;
  if (*count > 1 && all[1][0] != '-') {
    ::setenv("SHARDWISE_FUZZ_TARGET", all[1], 1);
    std::copy(all + 2, all + *count + 1, all + 1);
    --*count;
  }
  const std::string_view option = "--seeds=";
  if (*count > 1 && std::string_view(all[1]).starts_with(option)) {
    write_seeds(all[1] + option.size());
    std::exit(0);
  }
  if (std::any_of(all + 1, all + *count, [](const char* word) { return word[0] != '-'; })) return 0;
  static const fuzz::Folder folder;
  static std::string path = folder.path().string();
  write_seeds(folder.path());
  static std::vector<char*> with_seeds(all, all + *count);
  with_seeds.push_back(path.data());
  *count = static_cast<int>(with_seeds.size());
  with_seeds.push_back(nullptr);
  *arguments = with_seeds.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  target().read({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
