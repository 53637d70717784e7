// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The expected tokens are worked out by hand, from the rules of Hugging Face's library.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <shardwise/llm/data/json_lines.hpp>
#include <shardwise/llm/text/tokenizer.hpp>

#include "../../examples/programs/generate/printable.hpp"

namespace shardwise::testing::tokenizer {
namespace {

using namespace shardwise;
using Ids = std::vector<std::int32_t>;
using Texts = std::vector<std::string>;
using nlohmann::json;

json operator""_j(const char* text, std::size_t size) { return json::parse(std::string_view(text, size)); }

/// A file with this vocabulary and nothing else.
json file_with(json vocabulary, json merges = json::array()) {
  json file =
      R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
                  "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"}})"_j;
  file["model"] = {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
  return file;
}
llm::Tokenizer tokenizer(const json& file) { return llm::Tokenizer::from_json(file.dump()); }

std::string visible(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) llm::detail::byte_alphabet.append(text, byte);
  return text;
}

/// The 256 bytes and some longer tokens: ids 256, …
json byte_vocabulary(std::initializer_list<const char*> more = {}) {
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[visible(std::string(1, static_cast<char>(byte)))] = byte;
  int id = 256;
  for (const char* token : more) vocabulary[visible(token)] = id++;
  return vocabulary;
}

json byte_level(bool prefix, bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", use_regex}};
}
json split_by(json pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", std::move(pattern)}, {"behavior", behavior}, {"invert", invert}};
}

/// The words that a pre-tokenizer makes of a text.
Texts words_of(const json& pre_tokenizer, std::string_view text) {
  llm::detail::Words words{std::string(text), {{0, text.size(), true}}};
  llm::detail::read_pre_tokenizer(JsonPart(pre_tokenizer))(words);
  Texts result;
  for (const auto& word : words.words) result.emplace_back(words[word]);
  return result;
}

/// … and of the alphabet of bytes they go back to text.
Texts byte_words_of(const json& pre_tokenizer, std::string_view text) {
  Texts words = words_of(pre_tokenizer, text);
  for (std::string& word : words) word = llm::detail::bytes_of(word);
  return words;
}

TEST_CASE("bytes are tokens") {
  const llm::Tokenizer bytes = llm::Tokenizer::bytes();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const Ids ids = bytes.encode(all);
  REQUIRE(ids.size() == 256);
  for (std::int32_t id = 0; id < 256; ++id) CHECK(ids[static_cast<std::size_t>(id)] == id);
  CHECK(bytes.decode(ids) == all);
  CHECK(bytes.encode("") == Ids{});
  CHECK(bytes.vocabulary() == 256);
  CHECK(!bytes.begin_token());
  CHECK(!bytes.end_token());
  CHECK_THROWS_WITH_AS(bytes.decode(Ids{65, 256}), "token 256 is not a byte: expected 0 to 255",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(bytes.decode(Ids{-1}), "token -1 is not a byte: expected 0 to 255",
                       std::invalid_argument);
}

TEST_CASE("the alphabet of bytes is GPT-2's") {
  CHECK(visible("a ~\n\x7f") == "a\u0120~\u010a\u0121");
  CHECK(visible("\xa0\xa1\xac\xad\xae\xff") == "\u0142\u00a1\u00ac\u0143\u00ae\u00ff");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = visible(std::string(1, static_cast<char>(byte)));
    CHECK(llm::detail::byte_alphabet.byte(llm::detail::character_at(character, 0).value) == byte);
  }
  CHECK(llm::detail::byte_alphabet.byte(' ') == -1);
  CHECK(llm::detail::byte_alphabet.byte(0x144) == -1);
  CHECK(llm::detail::byte_alphabet.byte(0x10ffff) == -1);
}

TEST_CASE("UTF-8 is checked") {
  const auto offset = [](std::string_view text) {
    std::size_t i = 0;
    while (i < text.size() && llm::detail::character_at(text, i).length > 0)
      i += llm::detail::character_at(text, i).length;
    return i;
  };
  CHECK(llm::detail::character_at("\U0010ffff", 0).value == 0x10ffff);
  CHECK(llm::detail::character_at("\u00e9", 0).value == 0xe9);
  CHECK(offset("a\u00e9\u4e16\U0001f44d") == 10);
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe4\xb8", "\xe4\x41\x41"}) {
    CHECK(offset("ab" + std::string(bad)) == 2);
  }
  CHECK_THROWS_WITH_AS(tokenizer(file_with({{"a", 0}})).encode("aa\xff"),
                       "the text is not UTF-8: byte 255 at offset 2", std::invalid_argument);
}

TEST_CASE("merges go by rank, then from left to right") {
  const llm::Vocabulary vocabulary{{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"aa", 5}, {"abc", 6}};
  auto encode = [&](std::vector<std::pair<std::string, std::string>> merges, std::string_view word) {
    Ids ids;
    llm::BytePairEncoding(vocabulary, merges).encode(word, ids);
    return ids;
  };
  CHECK(encode({}, "abc") == Ids{0, 1, 2});
  CHECK(encode({{"b", "c"}, {"a", "b"}}, "abc") == Ids{0, 3});
  CHECK(encode({{"a", "b"}, {"b", "c"}}, "abc") == Ids{4, 2});
  CHECK(encode({{"b", "c"}, {"a", "bc"}}, "abcab") == Ids{6, 0, 1});
  CHECK(encode({{"a", "a"}}, "aaaaa") == Ids{5, 5, 0});
  CHECK(encode({{"a", "b"}, {"b", "c"}, {"a", "b"}}, "abc") == Ids{0, 3});  // the last place counts
  CHECK(encode({{"a", "a"}}, "") == Ids{});
  CHECK_THROWS_WITH_AS(encode({{"a", "b"}, {"c", "a"}}, "a"),
                       "merge 1, \"c\" and \"a\": the vocabulary has no token \"ca\"", std::invalid_argument);
}

TEST_CASE("merging agrees with the definition") {
  std::mt19937 random(5);
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (int round = 0; round < 300; ++round) {
    Texts tokens{"a", "b", "c"};
    llm::Vocabulary vocabulary{{"a", 0}, {"b", 1}, {"c", 2}};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 12; ++i) {
      const std::string left = tokens[below(tokens.size())], right = tokens[below(tokens.size())];
      if (std::find(merges.begin(), merges.end(), std::pair(left, right)) != merges.end()) continue;
      merges.emplace_back(left, right);
      if (vocabulary.emplace(left + right, static_cast<std::int32_t>(tokens.size())).second) {
        tokens.push_back(left + right);
      }
    }
    std::shuffle(merges.begin(), merges.end(), random);
    std::string word;
    for (std::size_t i = below(60); i > 0; --i) word += "abc"[below(3)];

    Texts expected;
    for (const char c : word) expected.emplace_back(1, c);
    for (bool merged = true; merged;) {
      merged = false;
      for (std::size_t rank = 0; rank < merges.size() && !merged; ++rank) {
        for (std::size_t i = 0; i + 1 < expected.size() && !merged; ++i) {
          if (std::pair(expected[i], expected[i + 1]) != merges[rank]) continue;
          expected[i] += expected[i + 1];
          expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          merged = true;
        }
      }
    }
    Ids ids;
    llm::BytePairEncoding(vocabulary, merges).encode(word, ids);
    Texts got;
    for (const std::int32_t id : ids) got.push_back(tokens[static_cast<std::size_t>(id)]);
    CHECK(got == expected);
  }
}

TEST_CASE("documents with special tokens, which a chat template writes itself") {
  json file = file_with(byte_vocabulary());
  file["pre_tokenizer"] = byte_level(false, false);
  file["decoder"] = {{"type", "ByteLevel"}};
  int id = 256;
  for (const char* token : {"<s>", "</s>", "<|eot|>"}) {
    file["added_tokens"].push_back(
        {{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  file["post_processor"] = R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}})"_j;
  const llm::Tokenizer with_special = tokenizer(file);
  auto document = [&](const json& line) {
    const llm::ChatTemplate chat(
        "{{ bos_token }}{% for m in messages %}{{ m.role + ':' + m.content + '<|eot|>' }}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}",
        "<s>");
    return llm::detail::document_of_line(
        line.dump(), with_special,
        {.chat = chat, .begin = 256, .match_special_tokens = line.contains("match")});
  };
  CHECK(with_special.encode_part("ab", true, true) == with_special.encode("ab"));
  CHECK(with_special.encode_part("ab", true, false) == Ids{256, 'a', 'b'});
  CHECK(with_special.encode_part("a</s>", false, true) == Ids{'a', 257});
  const llm::TrainingDocument text = document({{"text", "ab"}});
  CHECK(text.tokens == Ids{256, 'a', 'b', 257});
  CHECK(text.answers == std::vector<Range>{{0, 4}});
  const llm::TrainingDocument pair = document({{"prompt", "a"}, {"completion", "b<|eot|>"}, {"match", 1}});
  CHECK(pair.tokens == Ids{256, 'a', 'b', 258, 257});
  CHECK(pair.answers == std::vector<Range>{{2, 3}});
  const llm::TrainingDocument dialogue = document({{"messages",
                                                    {{{"role", "user"}, {"content", "a"}},
                                                     {{"role", "assistant"}, {"content", "b"}},
                                                     {{"role", "user"}, {"content", "c"}},
                                                     {{"role", "assistant"}, {"content", "de"}}}}});
  CHECK(with_special.decode(dialogue.tokens, {.skip_special_tokens = false}) ==
        "<s>user:a<|eot|>assistant:b<|eot|>user:c<|eot|>assistant:de<|eot|>");
  CHECK(dialogue.tokens[0] == 256);
  CHECK(dialogue.answers == std::vector<Range>{{18, 2}, {37, 3}});
  for (const Range& answer : dialogue.answers)
    CHECK(dialogue.tokens[static_cast<std::size_t>(answer.end() - 1)] == 258);
  CHECK(!dialogue.has_special_text);
  // What users write is text.
  const llm::TrainingDocument written = document({{"prompt", "<s>"}, {"completion", "b"}});
  CHECK(written.tokens == Ids{256, '<', 's', '>', 'b', 257});
  CHECK(written.has_special_text);
  const llm::TrainingDocument said = document(
      {{"messages",
        {{{"role", "user"}, {"content", "<|eot|></s>"}}, {{"role", "assistant"}, {"content", "x<s>"}}}}});
  CHECK(std::ranges::count(said.tokens, 258) == 2);
  CHECK(std::ranges::count(said.tokens, 257) == 0);
  CHECK(std::ranges::count(said.tokens, 256) == 1);
  CHECK(with_special.decode(said.tokens, {.skip_special_tokens = false}) ==
        "<s>user:<|eot|></s><|eot|>assistant:x<s><|eot|>");
  CHECK(said.answers == std::vector<Range>{{Index(std::ssize(said.tokens)) - 5, 5}});
  CHECK(said.has_special_text);
  // So it is in names of arguments and in tools.
  const llm::ChatTemplate calls(
      "{% for m in messages %}{{ m.content }}{{ m.tool_calls | tojson }}{{ tools | tojson }}{% endfor %}");
  const llm::TrainingDocument called = llm::detail::document_of_line(
      R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": [{"</s>": "<s>"}]}], "tools": ["<|eot|>"]})",
      with_special, {.chat = calls});
  CHECK(std::ranges::all_of(called.tokens, [](std::int32_t token) { return token < 256; }));
  CHECK(with_special.decode(called.tokens) == R"(a[{"</s>": "<s>"}]["<|eot|>"])");
  CHECK(with_special.special_tokens_in("a<s></s>b") == std::vector<std::size_t>{1, 4});
  const std::array<std::size_t, 1> second{4};
  CHECK(with_special.encode("a<s></s>", {.add_special_tokens = false, .ordinary = second}) ==
        Ids{'a', 256, '<', '/', 's', '>'});
}

TEST_CASE("what a model's folder says of begin and end") {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("shardwise-borders-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const json& content) { std::ofstream(folder / name) << content; };
  json file = file_with(byte_vocabulary());
  file["pre_tokenizer"] = byte_level(false, false);
  int id = 256;
  for (const char* token : {"<s>", "</s>", "<|im_end|>"})
    file["added_tokens"].push_back(
        {{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  const auto learned = [&] {
    return llm::detail::document_of_line(R"({"prompt": "a", "completion": "b"})",
                                         llm::Tokenizer::from_folder(folder), {})
        .tokens;
  };
  write("config.json", {{"bos_token_id", 256}, {"eos_token_id", nullptr}});
  CHECK(llm::Tokenizer::from_folder(folder).encode("a") == Ids{'a'});
  CHECK(!llm::Tokenizer::from_folder(folder).end_token());
  write("config.json", {{"bos_token_id", 256}, {"eos_token_id", 10}});
  CHECK(learned() == Ids{'a', 'b', 10});  // bytes, with the end that config.json names
  write("tokenizer.json", file);
  write("config.json", {{"bos_token_id", 256}});
  CHECK(learned() == Ids{'a', 'b', 257});  // a guess; bos_token_id is no begin
  write("special_tokens_map.json", {{"eos_token", "<|im_end|>"}});
  CHECK(learned() == Ids{'a', 'b', 258});
  const auto guessed = llm::Tokenizer::from_folder(folder).fingerprint();
  write("config.json", {{"bos_token_id", 256}, {"eos_token_id", {257, 258}}});
  CHECK(learned() == Ids{'a', 'b', 257});
  CHECK(llm::Tokenizer::from_folder(folder).fingerprint() != guessed);
  write("tokenizer_config.json", {{"add_bos_token", true}, {"bos_token", {{"content", "<s>"}}}});
  CHECK(learned() == Ids{256, 'a', 'b', 257});
  CHECK(llm::Tokenizer::from_folder(folder).begin_token() == 256);
  write("tokenizer_config.json", {{"add_bos_token", true}});
  CHECK_THROWS_WITH_AS(llm::Tokenizer::from_folder(folder),
                       doctest::Contains("add_bos_token: there is no token that is the bos_token"),
                       std::runtime_error);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what a model has written, for a terminal") {
  CHECK(tools::printable("a\x1b[2J\r\tb\n\x7f") == "a\\x1b[2J\\x0d\tb\n\\x7f");
  CHECK(tools::printable("\u00e9 \u202ex \u0085") == "\u00e9 \\u202ex \\x85");
  CHECK(tools::printable("\xe4\xbd") == "\ufffd");  // a character that is not whole
  CHECK(tools::printable("a\xff\xff z") == "a\ufffd\ufffd z");
  struct Spaced {  // as Llama 2's: a text's first space is none of it
    std::string decode(std::span<const std::int32_t> ids) const {
      std::string text;
      for (const std::int32_t id : ids) text += id == 0 ? " The" : id == 1 ? " cat" : " sat";
      return text.substr(1);
    }
  };
  CHECK(tools::continued(Spaced(), "The cat", std::vector{0, 1}, std::vector{2}) == "The cat sat");
}

TEST_CASE("GPT-2's words") {
  const json gpt2 = byte_level(false, true);
  const std::vector<std::pair<const char*, Texts>> cases = {
      {"Hello I'm 1234  world's\n\n  x", {"Hello", " I", "'m", " 1234", " ", " world", "'s", "\n\n ", " x"}},
      {"I'M we've they'll", {"I", "'", "M", " we", "'ve", " they", "'ll"}},
      {"f(x)=3.14;", {"f", "(", "x", ")=", "3", ".", "14", ";"}},
      {"a   ", {"a", "   "}},
      {" \t\n", {" \t\n"}},
      {"\u4f60\u597d\uff0c\u4e16\u754c", {"\u4f60\u597d", "\uff0c", "\u4e16\u754c"}},
      {"ok \U0001f44d\U0001f3fd!", {"ok", " \U0001f44d\U0001f3fd!"}},
      {"e\u0301a", {"e", "\u0301", "a"}},  // a combining mark is no letter
      {"x\u2167", {"x", "\u2167"}},        // a Roman numeral is a number
      {"a\u00a0b", {"a", "\u00a0", "b"}},  // a no-break space is white space,
      {" \u0085x", {" ", "\u0085", "x"}},  // so is the next line,
      {"a \u180e!", {"a", " \u180e!"}},    // and the Mongolian vowel separator is not
  };
  for (const auto& [text, words] : cases) CHECK(byte_words_of(gpt2, text) == words);
  CHECK(words_of(byte_level(true, true), "a b") == Texts{"\u0120a", "\u0120b"});
  CHECK(words_of(byte_level(true, true), " a") == Texts{"\u0120a"});
  CHECK(words_of(byte_level(false, false), "a b") == Texts{"a\u0120b"});
}

constexpr const char* llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

json llama3_words() {
  return {{"type", "Sequence"},
          {"pretokenizers",
           json::array({split_by({{"Regex", llama3_pattern}}, "Isolated"), byte_level(false, false)})}};
}

TEST_CASE("Llama 3's words") {
  const std::vector<std::pair<const char*, Texts>> cases = {
      {"I'M 12345 it's", {"I", "'M", " ", "123", "45", " it", "'s"}},
      {"we'LL'Dx", {"we", "'LL", "'D", "x"}},
      {"a  \n\n  b", {"a", "  \n\n", " ", " b"}},
      {"x = y;\r\n\r\nz", {"x", " =", " y", ";\r\n\r\n", "z"}},
      {"$abc", {"$abc"}},
      {"\t\tfoo   ", {"\t", "\tfoo", "   "}},
      {"\n \n", {"\n \n"}},
      {"\u4f60\u597d\uff0c\u4e16\u754c", {"\u4f60\u597d", "\uff0c\u4e16\u754c"}},
      {"\U0001f44da \U0001f44d\U0001f3fd!", {"\U0001f44da", " \U0001f44d\U0001f3fd!"}},
      {"e\u0301a", {"e", "\u0301a"}},
      {"\u0661\u0662\u0663\u0664", {"\u0661\u0662\u0663", "\u0664"}},  // Arabic digits
      {"a\u3000\u3000b", {"a", "\u3000", "\u3000b"}},                  // ideographic spaces
  };
  for (const auto& [text, words] : cases) CHECK(byte_words_of(llama3_words(), text) == words);
}

TEST_CASE("other pre-tokenizers") {
  const json dash = {{"String", "-"}};
  const char* text = "the-final--countdown";  // the example of Hugging Face's documentation
  CHECK(words_of(split_by(dash, "Removed"), text) == Texts{"the", "final", "countdown"});
  CHECK(words_of(split_by(dash, "Isolated"), text) == Texts{"the", "-", "final", "-", "-", "countdown"});
  CHECK(words_of(split_by(dash, "MergedWithPrevious"), text) == Texts{"the-", "final-", "-", "countdown"});
  CHECK(words_of(split_by(dash, "MergedWithNext"), text) == Texts{"the", "-final", "-", "-countdown"});
  CHECK(words_of(split_by(dash, "Contiguous"), text) == Texts{"the", "-", "final", "--", "countdown"});
  CHECK(words_of(split_by(dash, "Removed", true), text) == Texts{"-", "-", "-"});
  CHECK(words_of(split_by({{"Regex", "-+"}}, "Isolated"), "--a-") == Texts{"--", "a", "-"});
  CHECK(words_of(split_by({{"String", "."}}, "Removed"), "a.b") == Texts{"a", "b"});  // not any character
  CHECK(words_of(split_by({{"Regex", "^a"}}, "Removed"), "aa\nab") == Texts{"a\n", "b"});  // of every line
  CHECK(words_of(R"({"type": "Digits", "individual_digits": true})"_j, "ab12\u00bd") ==
        Texts{"ab", "1", "2", "\u00bd"});
  CHECK(words_of(R"({"type": "Digits", "individual_digits": false})"_j, "ab12c") == Texts{"ab", "12", "c"});

  auto metaspace = [](const char* scheme, bool cut) {
    return json{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", cut}};
  };
  CHECK(words_of(metaspace("always", true), "a  b") == Texts{"\u2581a", "\u2581", "\u2581b"});
  CHECK(words_of(metaspace("always", true), " a") == Texts{"\u2581a"});
  CHECK(words_of(metaspace("never", true), "a b") == Texts{"a", "\u2581b"});
  CHECK(words_of(metaspace("first", false), "a b") == Texts{"\u2581a\u2581b"});
  CHECK(words_of(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})"_j, "a b") ==
        Texts{"a", "_b"});
  // Only what begins where the text does gets a mark.
  json both = {{"type", "Sequence"},
               {"pretokenizers", json::array({split_by(dash, "Removed"), metaspace("first", true)})}};
  CHECK(words_of(both, "a-b") == Texts{"\u2581a", "b"});
  CHECK(words_of(both, "-b") == Texts{"b"});
  both["pretokenizers"][1] = metaspace("always", true);
  CHECK(words_of(both, "-b") == Texts{"\u2581b"});
}

/// As Llama 1 and 2: sentencepiece's model. Bytes are 3 to 258.
json llama2() {
  json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[llm::BytePairEncoding::byte_token(byte)] = 3 + byte;
  int id = 259;
  for (const char* token : {"\u2581", "a", "b", "\u2581a", "ab", "\u2581ab"}) vocabulary[token] = id++;
  json file = file_with(vocabulary, {"a b", "\u2581 ab", "\u2581 a"});
  file["added_tokens"] = R"([
    {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 2, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}])"_j;
  file["normalizer"] = R"({"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})"_j;
  file["post_processor"] = R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})"_j;
  file["decoder"] = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})"_j;
  file["model"].update(
      {{"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}, {"dropout", nullptr}});
  return file;
}

TEST_CASE("a tokenizer as Llama 2's") {
  const llm::Tokenizer t = tokenizer(llama2());
  CHECK(t.vocabulary() == 265);
  CHECK(t.begin_token() == 1);
  CHECK(t.end_token() == 2);
  CHECK(t.encode("ab a") == Ids{1, 264, 262});
  CHECK(t.encode("ab a", {.add_special_tokens = false}) == Ids{264, 262});
  CHECK(t.encode("") == Ids{1});
  CHECK(t.encode("\u00e9") == Ids{1, 259, 3 + 0xc3, 3 + 0xa9});
  CHECK(t.encode("</s>b") == Ids{1, 2, 259, 261});
  CHECK(t.encode("</s>b", {.match_special_tokens = false}) ==
        Ids{1, 259, 3 + '<', 3 + '/', 3 + 's', 3 + '>', 261});
  CHECK(t.decode(Ids{1, 264, 262, 2}) == "ab a");
  CHECK(t.decode(Ids{1, 264, 262, 2}, {.skip_special_tokens = false}) == "<s> ab a</s>");
  CHECK(t.decode(Ids{259, 3 + 0xc3}) == "\xc3");  // the rest of the character may follow
  CHECK(t.decode(Ids{}) == "");
  for (const char* text : {"ab", " ab", "a  b\n", "\u4f60\U0001f44d ab", "x\ty"})
    CHECK(t.decode(t.encode(text)) == text);
  CHECK_THROWS_WITH_AS(t.decode(Ids{265}),
                       "there is no token 265: expected 0 to 264, and one that the file has",
                       std::invalid_argument);
  CHECK_THROWS_AS(t.decode(Ids{-1}), std::invalid_argument);
}

/// As Llama 3 and GPT-2: words of bytes, and special tokens from 300.
json llama3() {
  json file =
      file_with(byte_vocabulary({"he", "ll", " w", "hello"}), R"([["h", "e"], ["l", "l"], ["Ġ", "w"]])"_j);
  file["pre_tokenizer"] = llama3_words();
  file["decoder"] = byte_level(true, true);
  file["model"]["ignore_merges"] = true;
  int id = 300;
  for (const char* token : {"<|begin_of_text|>", "<|end_of_text|>", "<|a", "<|a|>"}) {
    file["added_tokens"].push_back(
        {{"id", id++}, {"content", token}, {"normalized", false}, {"special", true}});
  }
  file["post_processor"] = R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
     {"Sequence": {"id": "A", "type_id": 0}}], "pair": null,
     "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [300], "tokens": []}}}]})"_j;
  return file;
}

TEST_CASE("a tokenizer as Llama 3's") {
  const llm::Tokenizer t = tokenizer(llama3());
  CHECK(t.vocabulary() == 304);
  CHECK(t.begin_token() == 300);
  CHECK(t.end_token() == 301);
  CHECK(t.id_of("<|a|>") == 303);
  CHECK(!t.id_of("<|b|>"));
  CHECK(t.encode("hello wll") == Ids{300, 259, 258, 257});  // no merge makes 259: ignore_merges does
  CHECK(t.encode("hellow") == Ids{300, 256, 257, 'o', 'w'});
  CHECK(t.encode("h<|a|>h<|ah", {.add_special_tokens = false}) == Ids{'h', 303, 'h', 302, 'h'});
  CHECK(t.encode("<|a|>", {.add_special_tokens = false, .match_special_tokens = false}) ==
        Ids{'<', '|', 'a', '|', '>'});
  CHECK(t.decode(Ids{300, 259, 303, 257}) == "helloll");
  CHECK(t.decode(Ids{300, 259, 303}, {.skip_special_tokens = false}) == "<|begin_of_text|>hello<|a|>");
  CHECK_THROWS_AS(t.decode(Ids{299}), std::invalid_argument);  // a hole

  json file = llama3();
  file["model"]["ignore_merges"] = false;
  CHECK(tokenizer(file).encode("hello", {.add_special_tokens = false}) == Ids{256, 257, 'o'});
  file["model"].erase("type");  // as in GPT-2's own file
  CHECK(tokenizer(file).encode("hello", {.add_special_tokens = false}) == Ids{256, 257, 'o'});
  file["decoder"] = nullptr;
  CHECK(tokenizer(file).decode(Ids{256, 257}) == "he ll");
}

TEST_CASE("any UTF-8 text goes through bytes and back") {
  const llm::Tokenizer t = tokenizer(llama3());
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      constexpr std::uint32_t limits[] = {0x80, 0x80, 0x250, 0xd800, 0x110000};
      const std::uint32_t c = static_cast<std::uint32_t>(random()) % limits[random() % 5];
      if (c < 0x80) {
        text += static_cast<char>(c);
      } else if (c < 0x800) {
        text += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
      } else if (c < 0x10000) {
        if (c >= 0xd800 && c < 0xe000) continue;
        text += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
                 static_cast<char>(0x80 | (c & 0x3f))};
      } else {
        text += {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3f)),
                 static_cast<char>(0x80 | (c >> 6 & 0x3f)), static_cast<char>(0x80 | (c & 0x3f))};
      }
    }
    CHECK(t.decode(t.encode(text)) == text);
  }
  std::string spaces(1 << 20, ' ');  // a run that backtracking must survive
  CHECK(t.decode(t.encode(spaces + "x")) == spaces + "x");
}

TEST_CASE("added tokens and the space beside them") {
  json file = file_with(byte_vocabulary());
  file["pre_tokenizer"] = byte_level(false, false);
  auto encode = [&](const char* properties, const char* text) {
    json token = {{"id", 300}, {"content", "<m>"}};
    token.update(json::parse(properties));
    file["added_tokens"] = json::array({token});
    return tokenizer(file).encode(text);
  };
  CHECK(encode(R"({"normalized": false})", "a <m> b") == Ids{'a', ' ', 300, ' ', 'b'});
  CHECK(encode(R"({"lstrip": true})", "a \t<m> b") == Ids{'a', 300, ' ', 'b'});
  CHECK(encode(R"({"rstrip": true})", "a <m> \u3000b") == Ids{'a', ' ', 300, 'b'});
  CHECK(encode(R"({"lstrip": true, "rstrip": true})", "<m> <m> ") == Ids{300, 300});
  // A normalized token is found in normalized text only, the other in text as it is.
  file["normalizer"] = R"({"type": "Replace", "pattern": {"Regex": "[<\\[]"}, "content": "("})"_j;
  CHECK(encode(R"({"normalized": true})", "[m>") == Ids{300});
  CHECK(encode(R"({"normalized": false})", "[m>") == Ids{'(', 'm', '>'});
  CHECK(encode(R"({"normalized": false})", "<m>") == Ids{300});
  // It is not special, so that matching it is no choice, and it is text.
  CHECK(tokenizer(file).encode("<m>", {.match_special_tokens = false}) == Ids{300});
  file["added_tokens"][0]["normalized"] = true;
  file["normalizer"] = R"({"type": "Replace", "pattern": {"Regex": ".+"}, "content": ""})"_j;
  CHECK_THROWS_WITH_AS(tokenizer(file), doctest::Contains("added_tokens[0]: the normalizer leaves nothing"),
                       std::runtime_error);
}

TEST_CASE("characters that are no tokens") {
  json file = file_with({{"a", 0}, {"<unk>", 1}, {"<0xC3>", 2}});
  CHECK_THROWS_WITH_AS(tokenizer(file).encode("a\u00e9"),
                       "the vocabulary has no token for the character \"\u00e9\", and no unk_token",
                       std::invalid_argument);
  file["model"]["unk_token"] = "<unk>";
  CHECK(tokenizer(file).encode("xya\u00e9z") == Ids{1, 1, 0, 1, 1});
  file["model"]["fuse_unk"] = true;
  CHECK(tokenizer(file).encode("xya\u00e9z") == Ids{1, 0, 1});
  file["model"]["byte_fallback"] = true;  // all bytes of the character, or none
  CHECK(tokenizer(file).encode("\u00e9a") == Ids{1, 0});
  file["model"]["vocab"]["<0xA9>"] = 3;
  CHECK(tokenizer(file).encode("x\u00e9ya") == Ids{1, 2, 3, 1, 0});
}

TEST_CASE("decoders") {
  auto decode = [](const char* decoder, Texts tokens) {
    const json part = json::parse(decoder);
    llm::detail::read_decoder(JsonPart(part))(tokens, 1000);
    return tokens;
  };
  CHECK(decode(R"({"type": "Strip", "content": "_", "start": 1, "stop": 2})", {"__a___", "_", "b"}) ==
        Texts{"_a_", "", "b"});
  CHECK(decode(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"})", {"_a_", "_b"}) ==
        Texts{"a", " b"});
  CHECK(decode(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"})", {"_a", "_b"}) ==
        Texts{" a", " b"});
  CHECK(decode(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "-"})", {"a \t b", " "}) ==
        Texts{"a-b", "-"});
  CHECK(decode(R"({"type": "ByteFallback"})", {"<0x41>", "<0xfF>", "<0xE4>"}) ==
        Texts{"A", "<0xfF>", "\xe4"});
  CHECK(decode(R"({"type": "Fuse"})", {"a", "b"}) == Texts{"ab"});
  CHECK(decode(R"({"type": "ByteLevel"})", {"\u0120a", "a b\u0120"}) == Texts{" aa b\u0120"});
  // Bytes of half a character are no obstacle to a pattern.
  CHECK(decode(R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"},
                   {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}]})",
               {"<0xE4>", "a"}) == Texts{"\xe4", "b"});
}

TEST_CASE("normal form C") {
  json file = file_with(byte_vocabulary());
  file["pre_tokenizer"] = byte_level(false, false);
  file["decoder"] = {{"type", "ByteLevel"}};
  file["normalizer"] = {{"type", "NFC"}};
  const llm::Tokenizer t = tokenizer(file);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain, \u00e9", "plain, \u00e9"},
      {"e\u0301 a\u0323\u0302 a\u0302\u0323", "\u00e9 \u1ead \u1ead"},
      {"\u0645\u0631\u062d\u0628\u0627 \u0627\u0653", "\u0645\u0631\u062d\u0628\u0627 \u0622"},
      {"\u0928\u092e\u0938\u094d\u0924\u0947 \u0958", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0915\u093c"},
      {"\U0001f1e9\U0001f1ea \U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea \U0001f468\u200d\U0001f469"},
      {"\u1112\u1161\u11ab \uac00\u11a8", "\ud55c \uac01"},
      {"\u212b \u2126 \uf900", "\u00c5 \u03a9 \u8c48"},
      {"\u304b\u3099 \u0344", "\u304c \u0308\u0301"},
      {"\u0301a \ufb01", "\u0301a \ufb01"},
  };
  for (const auto& [text, normal] : cases) CHECK(t.decode(t.encode(text)) == normal);
  std::string marks = "a";
  for (int i = 0; i < 100'000; ++i)
    marks += i % 2 == 0 ? "\u0301" : "\u0323";    // to be sorted, in no quadratic time
  CHECK(t.encode(marks).size() == marks.size());  // "a" and a dot below became one character
}

TEST_CASE("patterns that Oniguruma and PCRE2 read differently are refused") {
  auto compile = [](const char* pattern) { llm::detail::TextPattern::expression(pattern); };
  for (const char* good :
       {R"([^\s\p{L}]+\d{2,3}x)", R"(\.\[[\]\-a]+)", R"((?>a|b)(?<!c)(?<=d)(?=e)\P{Lu})", "a++", "a{2}"}) {
    CHECK_NOTHROW(compile(good));
  }
  for (const auto& [bad, what] :
       std::vector<std::pair<const char*, const char*>>{{R"(a\w)", R"("\w" at offset 1)"},
                                                        {R"(\h)", R"("\h" at offset 0)"},
                                                        {R"(\b)", R"("\b")"},
                                                        {R"(a\)", R"("\" at offset 1)"},
                                                        {R"(\p{Han})", R"("\p{Han}" at)"},
                                                        {R"(\p{L)", R"("\p{L")"},
                                                        {R"(\p{})", R"("\p{}")"},
                                                        {R"([a[b]])", R"("[b" at offset 2)"},
                                                        {R"([a&&b])", R"("&&" at offset 2)"},
                                                        {R"([^\S])", R"("\S" at offset 2)"},
                                                        {R"([]a])", R"("[]" at offset 0)"},
                                                        {R"((?m)a)", "\"(?m)\" at offset 0"},
                                                        {R"((*FAIL))", R"("(*" at offset 0)"},
                                                        {R"(a{,3})", R"("{," at offset 1)"},
                                                        {R"(\p{N}{1,3}+)", R"("}+" at offset 9)"},
                                                        {R"(a*)", "can match the empty text"},
                                                        {R"((a)", "parenthes"}}) {
    CHECK_THROWS_WITH_AS(compile(bad), doctest::Contains(what), std::invalid_argument);
  }
}

TEST_CASE("what the file asks for and is not there is an error") {
  auto refused = [](const char* pointer, const char* value, const char* message) {
    json file = llama2();
    file[json::json_pointer(pointer)] = json::parse(value);
    CHECK_THROWS_WITH_AS(llm::Tokenizer::from_json(file.dump(), "t.json"), doctest::Contains(message),
                         std::runtime_error);
  };
  refused("/normalizer/normalizers/1", R"({"type": "Lowercase"})",
          "normalizer.normalizers[1]: the normalizer \"Lowercase\" is not supported");
  refused("/pre_tokenizer", R"({"type": "Whitespace"})",
          "pre_tokenizer: the pre_tokenizer \"Whitespace\" is not");
  refused("/decoder", R"({"type": "WordPiece"})", "decoder: the decoder \"WordPiece\" is not supported");
  refused("/decoder/decoders/1", R"({"type": "CTC"})",
          "decoder.decoders[1]: the decoder \"CTC\" is not supported");
  refused("/post_processor", R"({"type": "BertProcessing"})",
          "post_processor: the post_processor \"BertProcessing\" is not supported");
  refused("/model/type", R"("Unigram")", "model: the model \"Unigram\" is not supported");
  refused("/model/dropout", "0.1", "model.dropout: it is 0.1, expected 0.0");
  refused("/model/end_of_word_suffix", R"("</w>")",
          "model.end_of_word_suffix: it is \"</w>\", expected \"\"");
  refused("/model/other", "1", "model: the key \"other\" is not supported");
  refused("/model/unk_token", R"("<u>")", "the vocabulary has no token \"<u>\", which unk_token names");
  refused("/model/merges/1", R"("a")", "model.merges[1]: expected two tokens and a space between them");
  refused("/model/merges/1", R"(["a"])", "model.merges[1]: expected two tokens");
  refused("/model/merges/1", R"("a a")", "merge 1, \"a\" and \"a\": the vocabulary has no token \"aa\"");
  refused("/model/vocab/a", "-1", "model.vocab, \"a\": it is -1, expected an integer from 0 to 2147483646");
  refused("/model/vocab/a", "261", "have one id, 261");
  refused("/version", R"("2.0")", "version: it is \"2.0\", expected \"1.0\"");
  refused("/news", "1", "the key \"news\" is not supported");
  refused("/added_tokens/2/single_word", "true", "added_tokens[2].single_word: it is true, expected false");
  refused("/added_tokens/2/id", "7", "added_tokens[2]: the vocabulary has the token with another id");
  refused("/added_tokens/2/content", R"("")", "added_tokens[2].content: expected a token that is not empty");
  refused("/added_tokens", R"([{"id": 300, "content": "<n>"}, {"id": 301, "content": "<n>"}])",
          "added_tokens[1]: the token is there twice, with the ids 300 and 301");
  refused("/post_processor/single/1/Sequence/id", R"("B")",
          "post_processor.single[1]: expected the text A, once");
  refused("/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "X"})",
          "pre_tokenizer.behavior: \"X\" is not supported");
  refused("/pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "\\w"}, "behavior": "Removed"})",
          "the pattern \"\\w\": \"\\w\" at offset 0 is not supported");
  refused("/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})",
          "pre_tokenizer.replacement: expected one");
  refused(
      "/pre_tokenizer",
      R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false, "prepend_scheme": "always"})",
      "pre_tokenizer: add_prefix_space and prepend_scheme contradict");
  std::string steps =
      R"({"type": "Sequence", "decoders": [{"type": "Sequence", "decoders": [{"type": "Fuse"})";
  for (int i = 0; i < 63; ++i) steps += R"(,{"type": "Fuse"})";
  refused("/decoder", (steps + "]}]}").c_str(), "decoder.decoders: 65 steps, expected 64 at most");
  refused("/post_processor/special_tokens/<s>/ids/0", "300", "post_processor: there is no token 300");
  refused("/model", "null", "model: it is missing, expected an object");
  CHECK_THROWS_WITH_AS(llm::Tokenizer::from_json("{", "t.json"), doctest::Contains("t.json: "),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(
      llm::Tokenizer::from_json(R"({"model": {"vocab": {"a": 0, "b": 1, "a": 2}}})", "t.json"),
      "t.json: the key \"a\" is there twice in one object", std::runtime_error);
}

TEST_CASE("what a tokenizer's training left in the file changes nothing") {
  json file = llama2();
  file["truncation"] = R"({"max_length": 2, "strategy": "LongestFirst", "stride": 0})"_j;
  file["padding"] = R"({"strategy": {"Fixed": 9}, "pad_id": 0})"_j;
  file["added_tokens"].push_back(file["added_tokens"][1]);  // one token twice
  CHECK(tokenizer(file).encode("ab a<s>") == tokenizer(llama2()).encode("ab a<s>"));
}

TEST_CASE("a tokenizer is read from a file") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("shardwise_tokenizer_" + std::to_string(std::random_device{}()) + ".json");
  CHECK_THROWS_WITH_AS(llm::Tokenizer::from_file(path),
                       (path.string() + ": cannot be opened: No such file or directory").c_str(),
                       std::runtime_error);
  const auto folder = path.parent_path();
  CHECK_THROWS_WITH_AS(llm::Tokenizer::from_file(folder), (folder.string() + ": not a regular file").c_str(),
                       std::runtime_error);
  std::ofstream(path) << llama2().dump();
  CHECK(llm::Tokenizer::from_file(path).encode("ab a") == Ids{1, 264, 262});
  std::filesystem::remove(path);
}

/// A list of `count` times this part.
json many(std::size_t count, const json& part) { return json(json::array_t(count, part)); }
json replace_step(const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

TEST_CASE("ids may be far apart, and take no memory for those between") {
  const llm::Tokenizer sparse = tokenizer(file_with({{"a", 0}, {"b", 2147483646}}));
  CHECK(sparse.vocabulary() == 2147483647);
  CHECK(sparse.encode("ab") == Ids{0, 2147483646});
  CHECK(sparse.decode(Ids{2147483646, 0}) == "ba");
  CHECK_THROWS_AS(sparse.decode(Ids{1}), std::invalid_argument);
}

TEST_CASE("a file whose steps double a text again and again") {
  json normalizer = file_with({{"a", 0}, {"b", 1}});
  normalizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", many(64, replace_step("a", "aa"))}};
  CHECK(tokenizer(normalizer).encode("b") == Ids{1});
  CHECK_THROWS_WITH_AS(tokenizer(normalizer).encode("a"),
                       doctest::Contains("would make more than 65552 bytes"), std::length_error);
  // One step is enough, with a content that is long.
  normalizer["normalizer"] = replace_step("a", std::string(10000, 'b').c_str());
  CHECK(tokenizer(normalizer).encode("a").size() == 10000);
  CHECK_THROWS_AS(tokenizer(normalizer).encode(std::string(10000, 'a')), std::length_error);
  normalizer["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", many(64, {{"type", "Prepend"}, {"prepend", std::string(2000, 'b')}})}};
  CHECK_THROWS_AS(tokenizer(normalizer).encode("a"), std::length_error);

  json words = file_with(byte_vocabulary());
  words["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", many(64, byte_level(false, false))}};
  CHECK(tokenizer(words).encode("a") == Ids{'a'});
  CHECK_THROWS_AS(tokenizer(words).encode("\u00e9"), std::length_error);

  json decoder = file_with({{"a", 0}, {"b", 1}});
  decoder["decoder"] = {{"type", "Sequence"}, {"decoders", many(64, replace_step("a", "aa"))}};
  CHECK(tokenizer(decoder).decode(Ids{1, 1}) == "bb");
  CHECK_THROWS_AS(tokenizer(decoder).decode(Ids{0}), std::length_error);

  // What is left to the second part is what the first has not used.
  json parts = file_with({{"b", 0}});
  parts["added_tokens"] =
      json::array({{{"id", 1}, {"content", "<s>"}, {"normalized", false}, {"special", true}}});
  parts["normalizer"] = replace_step("a", std::string(20000, 'b').c_str());
  CHECK(tokenizer(parts).encode("a<s>a<s>a").size() == 60002);
  CHECK_THROWS_AS(tokenizer(parts).encode("a<s>a<s>a<s>a"), std::length_error);
}

TEST_CASE("a regular expression that goes back over and over ends, and those of real files do") {
  json file = file_with({{"a", 0}, {"b", 1}, {" ", 2}, {"\n", 3}, {"=", 4}, {"1", 5}});
  file["pre_tokenizer"] = split_by({{"Regex", "(a+)+[bc]"}}, "Isolated");
  CHECK(tokenizer(file).encode("aab") == Ids{0, 0, 1});
  CHECK_THROWS_WITH_AS(tokenizer(file).encode(std::string(64, 'a')),
                       "a regular expression failed: match limit exceeded", std::runtime_error);
  for (
      const char* pattern :
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}) {
    file["pre_tokenizer"] = split_by({{"Regex", pattern}}, "Isolated");
    const llm::Tokenizer real = tokenizer(file);
    for (const char c : {'a', ' ', '\n', '=', '1'}) {
      const std::string run(200'000, c);
      for (const std::string& text : {run, run + "a", "a " + run, run + " =\n"}) {
        CHECK(real.encode(text).size() == text.size());
      }
    }
  }
}

TEST_CASE("a small file that puts any number of tokens around a text") {
  json file = file_with({{"a", 0}});
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", many(40, {{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}})},
                            {"special_tokens", {{"x", {{"id", "x"}, {"ids", many(40, 0)}}}}}};
  file["post_processor"]["single"].push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  CHECK_THROWS_WITH_AS(llm::Tokenizer::from_json(file.dump(), "t.json"),
                       "t.json: post_processor: expected at most 1024 tokens around a text",
                       std::runtime_error);
}

TEST_CASE("a file that nests a million deep") {
  CHECK_THROWS_WITH_AS(llm::Tokenizer::from_json(std::string(1'000'000, '['), "t.json"),
                       "t.json: lists and objects nest deeper than 100", std::runtime_error);
}

TEST_CASE("added tokens of which one begins as another does, and very many of them") {
  json file = file_with({{"<", 0}, {"a", 1}, {"b", 2}, {"c", 3}, {"e", 4}});
  int id = 10;
  for (const char* text : {"<abcd", "<a", "<ab", "<b", "bb", "<abcdef"}) {
    file["added_tokens"].push_back(
        {{"id", id++}, {"content", text}, {"normalized", false}, {"special", true}});
  }
  const llm::Tokenizer few = tokenizer(file);
  CHECK(few.encode("<abce") == Ids{12, 3, 4});
  CHECK(few.encode("<abcde<a<b<c") == Ids{10, 4, 11, 13, 0, 3});
  CHECK(few.encode("<abcdef<abcd") == Ids{15, 10});
  CHECK(few.encode("<<bbb<") == Ids{0, 13, 14, 0});

  // Spaces that are tokens themselves, and take along those before them, each once.
  file["added_tokens"].push_back({{"id", 9}, {"content", " "}, {"lstrip", true}, {"normalized", false}});
  CHECK(tokenizer(file).encode(std::string(200'000, ' ')) == Ids(200'000, 9));

  for (; id < 30'000; ++id) {
    file["added_tokens"].push_back(
        {{"id", id}, {"content", "<" + std::to_string(id) + ">"}, {"normalized", false}, {"special", true}});
  }
  const llm::Tokenizer all = tokenizer(file);
  CHECK(all.encode("<29999><20>") == Ids{29999, 20});
  CHECK(all.encode(std::string(200'000, '<')) == Ids(200'000, 0));
}

}  // namespace

}  // namespace shardwise::testing::tokenizer
