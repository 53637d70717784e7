// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Draws tokens with a cache of keys and values that is sharded like the heads: for one prompt, for many at once, or in
/// a dialogue.

#include "generate_text.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include <shardwise/inspect/names.hpp>
#include <shardwise/llm/text/chat_template.hpp>
#include <shardwise/mesh/mesh.hpp>

#include "../common/any_text_model.hpp"
#include "../common/expect_weights.hpp"
#include "../common/job_hosts.hpp"
#include "../common/text_inputs.hpp"
#include "../common/token_plan.hpp"
#include "printable.hpp"
#include "prompts_file.hpp"

namespace tools {

namespace {

/// The token ids in a file, separated by white space.
std::vector<std::int32_t> read_tokens(const std::filesystem::path& path, sw::Index vocabulary) {
  std::istringstream file(sw::read_text(path));
  std::vector<std::int32_t> ids;
  for (std::string word; file >> word;) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocabulary) {
      throw std::runtime_error(path.string() + ": \"" + word + "\" is not a token id from 0 to " +
                               std::to_string(vocabulary - 1));
    }
    ids.push_back(id);
  }
  return ids;
}

/// Prints the plan of one token, on the first rank of a mesh of these sizes.
void print_plan_of_token(int bits, const JobSizes& sizes, const sw::llm::LlamaConfig& config, std::FILE* to) {
  const TokenPlan token = plan_token(bits, sizes, config);
  const sw::Index sums = token.plan.count(sw::Collective::all_reduce);
  std::fprintf(to, "a token: %lld all-gathers and %lld all-reduce%s",
               static_cast<long long>(token.plan.count(sw::Collective::all_gather)),
               static_cast<long long>(sums), sums == 1 ? "" : "s");
  if (sizes[0] > 1) {
    std::fprintf(to, " and %lld send, in the first of %d stages,",
                 static_cast<long long>(token.plan.count(sw::Collective::send)), sizes[0]);
  }
  std::fprintf(to, " of %lld bytes in all; this rank reads %s of weights\n",
               static_cast<long long>(token.plan.bytes()), sw::bytes_text(token.weights).c_str());
}

/// The ids of the prompt. Throws `std::runtime_error` if there are none, or if one is out of the model's range.
std::vector<std::int32_t> prompt_of(const TextOptions& options,
                                    const std::optional<sw::llm::Tokenizer>& tokenizer,
                                    sw::Index vocabulary) {
  if (options.tokens.empty() && !tokenizer) {
    throw std::runtime_error(options.weights.string() + ": " + no_tokenizer + "; give --tokens");
  }
  auto ids =
      options.tokens.empty() ? tokenizer->encode(options.prompt) : read_tokens(options.tokens, vocabulary);
  if (ids.empty())
    throw std::runtime_error(options.tokens.empty() ? "--prompt is empty: there is no token to begin with"
                                                    : options.tokens.string() + ": there is no token in it");
  check_tokens(ids, vocabulary, options.weights);
  return ids;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The options, the tokenizer and the tokens that end texts.
struct Writer {
  const TextOptions& options;
  const sw::llm::LlamaConfig& config;
  const std::optional<sw::llm::Tokenizer>& tokenizer;
  std::vector<std::int32_t> ends;
  bool prints;
  KnownIds known = known_ids(tokenizer, config.vocabulary);

  Decode decode() const {
    if (!tokenizer) return {};
    return [this](std::span<const std::int32_t> ids) { return tokenizer->decode(ids); };
  }
  /// By the options; without a prompt.
  TextRequest request() const {
    TextRequest result;
    result.sampling = options.sampling;
    result.repetition_penalty = options.repetition_penalty;
    result.seed = options.seed;
    result.new_tokens = options.new_tokens;
    result.ends = ends;
    result.most_probable = -1;
    result.stops = options.stops;
    return result;
  }
};

/// Makes a cache of some rows and some tokens for the model.
using MakeCache = std::function<std::unique_ptr<sw::llm::DecodingModel>(sw::Index rows, sw::Index capacity)>;

void continue_one(const Writer& writer, const MakeCache& make_cache,
                  const std::vector<std::int32_t>& prompt) {
  const TextOptions& options = writer.options;
  const auto begin = Clock::now();
  TextRequest request = writer.request();
  request.prompt = prompt;
  Generator generator(make_cache(1, std::ssize(prompt) + options.new_tokens), writer.known, writer.decode());
  generator.add(request);
  std::vector<std::int32_t> written;
  std::string text;
  TextEnd end = TextEnd::none;
  double until_first = 0;
  while (generator.busy()) {
    for (const NewToken& token : generator.step()) {
      if (token.end == TextEnd::failed) throw std::runtime_error(token.text);
      if (written.empty()) until_first = seconds_since(begin);
      written.push_back(token.id);
      text += token.text;
      end = token.end;
    }
  }
  const double after_first = seconds_since(begin) - until_first;
  if (!writer.prints) return;
  if (writer.tokenizer) {
    text = end == TextEnd::text ? options.prompt + text
                                : continued(*writer.tokenizer, options.prompt, prompt, written);
    std::printf("---- text written by the model ----\n%s\n----\n", printable(text).c_str());
  } else {
    std::printf("---- tokens written by the model ----\n");
    for (std::int32_t id : written) std::printf("%d ", id);
    std::printf("\n----\n");
  }
  std::printf("%zu tokens, the first %.2f s after a prompt of %zu", written.size(), until_first,
              prompt.size());
  if (written.size() > 1)
    std::printf(", the others %.0f per second", static_cast<double>(written.size() - 1) / after_first);
  std::printf("\n");
}

/// A file, or the standard output.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : path_(path) {
    if (!path.empty()) file_.reset(std::fopen(path.c_str(), "w"));
    if (!path.empty() && !file_) fail();
  }
  void write(const std::string& line) {
    std::FILE* const to = file_ ? file_.get() : stdout;
    if (std::fprintf(to, "%s\n", line.c_str()) < 0 || std::fflush(to) != 0) fail();
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void fail() const {
    throw std::runtime_error((path_.empty() ? "the standard output" : path_.string()) +
                             ": cannot be written");
  }
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// The prompts of the file, the same on every rank. Collective.
struct Prompts {
  explicit Prompts(const Writer& writer) {
    const std::filesystem::path& path = writer.options.prompts;
    const std::string text = read_same(path, "--prompts");
    sw::Index beyond = 0;
    for_each_line(text, path.string(), [&](std::string_view line, const std::string& place) {
      requests.push_back(request_of_line(line, place, writer.request(), writer.tokenizer));
      sw::prefix_errors(place, [&] {
        requests.back().check(writer.config.vocabulary, writer.known, writer.tokenizer.has_value());
      });
      places.push_back(place);
      const sw::Index tokens = std::ssize(requests.back().prompt) + requests.back().new_tokens;
      most_tokens = std::max(most_tokens, tokens);
      beyond += tokens > writer.config.context;
    });
    if (requests.empty()) throw std::runtime_error(path.string() + ": it has no prompts");
    if (!writer.prints || beyond == 0) return;
    std::fprintf(
        stderr,
        "note: %td prompts with their new tokens have more than the %td that the model was made for\n",
        beyond, writer.config.context);
  }

  std::vector<TextRequest> requests;
  std::vector<std::string> places;  ///< of each request, "FILE:NUMBER"
  sw::Index most_tokens = 0;        ///< of a prompt with its new tokens
};

/// Writes a line for each prompt, in their order. Returns whether all have a text: one that fails has an error instead.
bool continue_all(const Writer& writer, const MakeCache& make_cache, const Prompts& prompts) {
  const TextOptions& options = writer.options;
  const std::vector<TextRequest>& requests = prompts.requests;
  const sw::Index rows = std::min(options.rows, std::ssize(requests));
  Generator generator(make_cache(rows, prompts.most_tokens), writer.known, writer.decode());
  for (const TextRequest& request : requests) generator.add(request);
  std::optional<Lines> lines;
  if (writer.prints) lines.emplace(options.to);
  const auto begin = Clock::now();
  struct Written {
    std::vector<std::int32_t> ids;
    std::string text;
    TextEnd end = TextEnd::none;
  };
  std::vector<Written> all(requests.size());
  std::size_t printed = 0, count = 0, failed = 0;
  while (generator.busy()) {
    for (const NewToken& token : generator.step()) {
      Written& one = all[token.request];
      one.end = token.end;
      if (token.end == TextEnd::failed) {
        ++failed;
        one.text = token.text;
        continue;
      }
      one.ids.push_back(token.id);
      one.text += token.text;
      ++count;
    }
    for (; printed < all.size() && all[printed].end != TextEnd::none; ++printed) {
      const Written& one = all[printed];
      if (!lines) continue;
      nlohmann::ordered_json json;
      if (one.end == TextEnd::failed) {
        json["error"] = one.text;
        std::fprintf(stderr, "%s: %s\n", prompts.places[printed].c_str(), one.text.c_str());
      } else {
        if (writer.tokenizer) json["text"] = one.text;
        json["tokens"] = one.ids;
        json["finish_reason"] = one.end == TextEnd::length ? "length" : "stop";
      }
      json["prompt_tokens"] = requests[printed].prompt.size();
      lines->write(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    }
  }
  if (lines) {
    std::fprintf(stderr, "%zu texts of %zu tokens, %.0f per second\n", all.size() - failed, count,
                 static_cast<double>(count) / seconds_since(begin));
  }
  return failed == 0;
}

/// The chat template of a folder. Throws `std::runtime_error` if it or the tokenizer is missing.
sw::llm::ChatTemplate template_of(const std::filesystem::path& folder,
                                  const std::optional<sw::llm::Tokenizer>& tokenizer) {
  if (!tokenizer) throw std::runtime_error(folder.string() + ": --chat needs a tokenizer.json");
  auto chat = chat_template_of(folder);
  if (chat) return *std::move(chat);
  throw std::runtime_error(folder.string() +
                           ": --chat needs a chat template: chat_template.jinja, or \"chat_template\" in "
                           "tokenizer_config.json");
}

/// A line that a person writes on the terminal of the first rank; nothing at its end.
std::optional<std::string> line_of_terminal(const Writer& writer) {
  std::string mine;
  if (writer.prints) {
    std::printf("> ");
    std::fflush(stdout);
    if (std::getline(std::cin, mine)) mine.insert(0, "+");
  }
  const std::string line = sw::world().broadcast(mine);
  if (line.empty()) return std::nullopt;
  return line.substr(1);
}

/// Answers lines until their end, or until the dialogue is as long as the model's context.
void talk(const Writer& writer, const MakeCache& make_cache, const sw::llm::ChatTemplate& chat) {
  Generator generator(make_cache(1, writer.config.context), writer.known, writer.decode(), true);
  sw::Json messages = sw::Json::array();
  while (const auto line = line_of_terminal(writer)) {
    messages.push_back({{"role", "user"}, {"content", *line}});
    TextRequest request = writer.request();
    request.prompt = writer.tokenizer->encode(chat.render(messages, true), {.add_special_tokens = false});
    const sw::Index room = writer.config.context - std::ssize(request.prompt);
    if (room < 1) {
      if (writer.prints)
        std::printf("the dialogue is longer than the model's context of %td tokens\n", writer.config.context);
      return;
    }
    request.new_tokens = std::clamp<sw::Index>(request.new_tokens, 1, room);
    generator.add(request);
    std::string answer;
    while (generator.busy()) {
      for (const NewToken& token : generator.step()) {
        if (token.end == TextEnd::failed) throw std::runtime_error(token.text);
        answer += token.text;
        if (!writer.prints) continue;
        std::printf("%s", printable(token.text).c_str());
        std::fflush(stdout);
      }
    }
    if (writer.prints) std::printf("\n");
    messages.push_back({{"role", "assistant"}, {"content", answer}});
  }
  if (writer.prints) std::printf("\n");
}

}  // namespace

bool write_text(const TextOptions& options) {
  const sw::llm::LlamaConfig config = config_of(options.weights);
  expect_weights(options.weights, config);
  const JobSizes sizes =
      job_sizes(options.pp, 1, 1, 1, std::max(1, sw::world().size() / options.pp), config.kv_heads);
  const Job job(sw::world(), sizes);
  warn_of_torn_groups(job);
  const bool one = options.prompts.empty() && !options.chat;
  // With --tokens, neither the text nor a valid tokenizer.json is needed.
  const auto tokenizer =
      options.tokens.empty() ? tokenizer_of(options.weights, config.vocabulary) : std::nullopt;
  const bool prints = job.rank() == 0;
  const Writer writer{options, config, tokenizer, ends_of(options.weights, tokenizer), prints};
  std::vector<std::int32_t> prompt;
  std::optional<Prompts> prompts;
  std::optional<sw::llm::ChatTemplate> chat;
  if (one) prompt = prompt_of(options, tokenizer, config.vocabulary);
  if (options.chat) chat = template_of(options.weights, tokenizer);
  if (!options.prompts.empty()) prompts.emplace(writer);
  std::FILE* const notes =
      options.prompts.empty() ? stdout : stderr;  // the texts may go to the standard output
  if (prints && static_cast<sw::Index>(prompt.size()) + options.new_tokens > config.context && one) {
    std::printf("note: %zu + %td tokens are more than the %td that the model was made for\n", prompt.size(),
                options.new_tokens, config.context);
  }

  const auto model = make_text_model(job, config, options.weight_bits);
  const auto start = Clock::now();
  const sw::Index bytes = model->load_from(options.weights);
  if (prints) {
    std::fprintf(notes, "%.2f million parameters on %stp %d x kvr %d; this rank read %.2f MB in %.2f s\n",
                 static_cast<double>(config.parameters()) * 1e-6,
                 options.pp > 1 ? ("pp " + std::to_string(options.pp) + " x ").c_str() : "",
                 job.size<sw::tp>(), job.size<sw::kvr>(), static_cast<double>(bytes) * 1e-6,
                 seconds_since(start));
    if (const sw::Hosts& hosts = sw::world().hosts(); hosts.count() > 1)
      std::fprintf(notes, "%s\n", axes_on_hosts(sizes, [&](int rank) { return hosts.of(rank); }).c_str());
    print_plan_of_token(options.weight_bits, sizes, config, notes);
  }
  if (!options.dump_logits.empty()) {
    model->write_logits(options.dump_logits, prompt);
    if (prints) std::printf("logits written to %s\n", options.dump_logits.c_str());
  }
  const MakeCache make_cache = [&](sw::Index rows, sw::Index capacity) {
    return model->make_cache(rows, capacity);
  };
  if (chat) talk(writer, make_cache, *chat);
  if (prompts) return continue_all(writer, make_cache, *prompts);
  if (one && options.new_tokens > 0) continue_one(writer, make_cache, prompt);
  return true;
}

}  // namespace tools
