// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Texts for many prompts at once, in examples/programs/common/generator.hpp: each gets the tokens that it gets alone,
/// on one stage or two; and how texts end.

#include <doctest/doctest.h>

#include <map>

#include "../../examples/programs/common/generator.hpp"
#include "outcome.hpp"

namespace tools {
namespace {

constexpr sw::llm::LlamaConfig config{.vocabulary = 61,
                                      .features = 36,
                                      .layers = 2,
                                      .heads = 6,
                                      .kv_heads = 6,
                                      .head_dim = 6,
                                      .hidden = 30,
                                      .deviation = 0.4};
constexpr sw::Index capacity = 40;
constexpr int requests = 11;

/// The meshes of this job: one stage or two, and the ranks of a stage split its layers.
std::vector<JobSizes> all_sizes() {
  std::vector<JobSizes> sizes;
  for (const int pp : {1, 2}) {
    if (sw::world().size() % pp == 0)
      sizes.push_back(job_sizes(pp, 1, 1, 1, sw::world().size() / pp, config.kv_heads));
  }
  return sizes;
}

auto cached(TextModel<>& model, sw::Index rows, sw::Index most = capacity) {
  return std::make_unique<CachedModelOf<TextModel<>>>(model, rows, most);
}

/// Numbers and full stops: token 7 is "7.".
std::string decode(std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) text += std::to_string(id) + ".";
  return text;
}

TextRequest request_of(int number) {
  TextRequest request;
  request.sampling = {.temperature = number % 3 * 0.7, .top_k = number % 2 * 20, .min_p = 0.01 * number};
  request.seed = static_cast<std::uint64_t>(number / 2);
  request.new_tokens = 3 + number * 5 % 9;
  for (int i = 0; i < 1 + number * 7 % 10; ++i) request.prompt.push_back((number * 13 + i * i) % 61);
  if (number % 4 == 0) request.repetition_penalty = 1.5;
  if (number % 5 == 0) request.most_probable = number % 3;
  return request;
}

struct Written {
  std::vector<std::int32_t> ids;
  std::vector<double> numbers;  // log-probabilities of the tokens and of the most probable ones
  std::string text;
  TextEnd end = TextEnd::none;
  bool operator==(const Written&) const = default;
};

void take(std::map<std::size_t, Written>& all, const std::vector<NewToken>& tokens) {
  for (const NewToken& token : tokens) {
    Written& one = all[token.request];
    CHECK(one.end == TextEnd::none);
    one.ids.push_back(token.id);
    one.numbers.push_back(token.log_probability);
    for (const auto& [id, logarithm] : token.most_probable)
      one.numbers.insert(one.numbers.end(), {double(id), logarithm});
    one.text += token.text;
    one.end = token.end;
  }
}

std::map<std::size_t, Written> write(Generator& generator, std::map<std::size_t, Written> result = {}) {
  while (generator.busy()) take(result, generator.step());
  return result;
}

/// Calls f(model) on each mesh.
void on_each_mesh(auto f) {
  for (const JobSizes& sizes : all_sizes()) {
    CAPTURE(sizes[0]);
    const Job job(sw::world(), sizes);
    TextModel<> model(job, config);
    sw::initialize(model.stages(), 5);
    f(model);
  }
}

TEST_CASE("many requests get the tokens that each gets alone, in any number of rows") {
  std::vector<std::vector<std::int32_t>> on_one_stage;
  on_each_mesh([&](TextModel<>& model) {
    std::vector<Written> alone;
    for (int i = 0; i < requests; ++i) {
      Generator generator(cached(model, 1), {61}, decode);
      generator.add(request_of(i));
      alone.push_back(write(generator).at(0));
      CHECK(std::ssize(alone.back().ids) == request_of(i).new_tokens);
      CHECK(alone.back().end == TextEnd::length);
      CHECK(alone.back().text == decode(alone.back().ids));
    }
    for (const sw::Index rows : {1, 3, 8, 10}) {
      CAPTURE(rows);
      Generator generator(cached(model, rows), {61}, decode);
      std::map<std::size_t, Written> together;
      for (int i = requests - 1; i >= 0; --i) {  // some while others are being written
        generator.add(request_of(i));
        if (i % 4 == 0) take(together, generator.step());
      }
      together = write(generator, together);
      for (int i = 0; i < requests; ++i)
        CHECK(together.at(static_cast<std::size_t>(requests - 1 - i)) == alone[static_cast<std::size_t>(i)]);
    }
    for (std::size_t i = 0; i < alone.size(); ++i) {
      if (on_one_stage.size() < alone.size()) on_one_stage.push_back(alone[i].ids);
      CHECK(alone[i].ids == on_one_stage[i]);
    }
  });
}

TEST_CASE("log-probabilities are those of the model, before the options") {
  on_each_mesh([](TextModel<>& model) {
    Generator generator(cached(model, 1), {61});
    generator.add({{.prompt = {3, 4}, .sampling = {.temperature = 0}, .new_tokens = 1, .most_probable = 61}});
    const auto tokens = generator.step();
    REQUIRE(tokens.size() == 1);
    REQUIRE(tokens[0].most_probable.size() == 61);
    CHECK(tokens[0].most_probable[0].id == tokens[0].id);
    CHECK(tokens[0].most_probable[0].logarithm == tokens[0].log_probability);
    double sum = 0, before = 0;
    for (const auto& [id, logarithm] : tokens[0].most_probable) {
      CHECK(logarithm <= before);
      before = logarithm;
      sum += std::exp(logarithm);
    }
    CHECK(std::abs(sum - 1) <= 1e-12);
  });
}

TEST_CASE("ids without a text are neither drawn nor in prompts") {
  on_each_mesh([](TextModel<>& model) {
    const KnownIds known{60, {3, 17, 59}};
    Generator generator(cached(model, 1), known);
    generator.add({{.prompt = {4}, .sampling = {.temperature = 3}, .new_tokens = 39, .most_probable = 61}});
    while (generator.busy()) {
      for (const NewToken& token : generator.step()) {
        CHECK(known.contains(token.id));
        REQUIRE(token.most_probable.size() == 57);
        for (const auto& other : token.most_probable) CHECK(known.contains(other.id));
      }
    }
    for (const std::int32_t id : {17, 60})
      CHECK_THROWS_WITH_AS(generator.add({{.prompt = {4, id}}}), doctest::Contains("has no text"),
                           std::invalid_argument);
  });
}

TEST_CASE("texts end with a token, before a text, or are cancelled") {
  on_each_mesh([](TextModel<>& model) {
    const TextRequest whole{{.prompt = {9, 2, 5}, .sampling = {.temperature = 0.9}, .new_tokens = 12}};
    Generator generator(cached(model, 2), {61}, decode);
    generator.add(whole);
    const Written expected = write(generator).at(0);
    const std::vector<std::int32_t>& ids = expected.ids;

    TextRequest by_token = whole;
    by_token.ends = {60, ids[5]};
    const auto first = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), ids[5]) - ids.begin());
    generator.add(by_token);
    TextRequest by_text = whole;  // from the last character of a token to the next token
    by_text.stops = {
        "never",
        decode(std::span(ids).subspan(6, 2)).substr(decode(std::span(ids).subspan(6, 1)).size() - 2)};
    generator.add(by_text);
    const auto cancelled = generator.add(whole), waiting = generator.add(whole);
    auto found = [&] {
      std::map<std::size_t, Written> result;
      generator.cancel(waiting);
      for (int i = 0; generator.busy(); ++i) {
        take(result, generator.step());
        if (i == 12) generator.cancel(cancelled);
      }
      return result;
    }();
    CHECK(found.at(1).end == TextEnd::token);
    CHECK(found.at(1).ids == std::vector(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first) + 1));
    CHECK(found.at(1).text == decode(std::span(ids).first(first)));
    CHECK(found.at(2).end == TextEnd::text);
    CHECK(found.at(2).text == expected.text.substr(0, expected.text.find(by_text.stops[1])));
    CHECK(found.at(3).end == TextEnd::none);
    CHECK_FALSE(found.contains(4));
    generator.add(whole);  // rows are free again
    CHECK(write(generator).begin()->second == expected);
  });
}

TEST_CASE("a dialogue computes only new tokens") {
  on_each_mesh([](TextModel<>& model) {
    Generator generator(cached(model, 1), {61}, {}, true);
    TextRequest request{{.prompt = {9, 2, 5, 7}, .sampling = {.temperature = 0}, .new_tokens = 6}};
    generator.add(request);
    const Written first = write(generator).at(0);
    CHECK(generator.computed() == 4 + 5);
    request.prompt.insert(request.prompt.end(), first.ids.begin(), first.ids.end());
    request.prompt.push_back(33);
    generator.add(request);
    const Written second = write(generator).at(1);
    CHECK(generator.computed() == 4 + 5 + 2 + 5);  // the last new token, and 33
    Generator other(cached(model, 1), {61});
    other.add(request);
    CHECK(write(other).at(0).ids == second.ids);
    request.prompt = {9, 2, 5};  // shorter than what the row has
    generator.add(request);
    const Written third = write(generator).at(2);
    other.add(request);
    CHECK(write(other).at(1).ids == third.ids);
  });
}

TEST_CASE("requests that are refused, and change nothing") {
  const JobSizes sizes = all_sizes().back();
  const Job job(sw::world(), sizes);
  TextModel<> model(job, config);
  Generator generator(cached(model, 2, 8), {61});
  const auto refusal = [&](TextRequest request) {
    try {
      generator.add(std::move(request));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refusal(TextRequest()) == "the prompt is empty, expected one token or more");
  CHECK(refusal({{.prompt = {1, 61}}}) == "the prompt has token 61, but those of the model are 0 to 60");
  CHECK(refusal({{.prompt = {1}, .new_tokens = 0}}) == "0 new tokens: expected 1 or more");
  CHECK(refusal({{.prompt = {1, 2}, .new_tokens = 7}}) ==
        "2 tokens of the prompt and 7 new ones are more than the 8 for which a row has room");
  CHECK(refusal({{.prompt = {1}, .new_tokens = 1}, {""}}) == "a text that ends texts is empty");
  CHECK(refusal({{.prompt = {1}, .new_tokens = 1}, {"x"}}) ==
        "without a tokenizer, no text ends a text: \"x\"");
  CHECK(refusal({{.prompt = {1}, .sampling = {.top_p = 2}, .new_tokens = 1}}) ==
        "top_p 2: expected more than 0 and at most 1");
  CHECK(refusal({{.prompt = {1}, .repetition_penalty = 0, .new_tokens = 1}}) ==
        "repetition penalty 0: expected a finite number above 0");
  CHECK_FALSE(generator.busy());
  CHECK(generator.step().empty());
}

TEST_CASE("a text stops before a text, also within tokens, and never in the middle of a character") {
  const std::vector<std::string> words{"One",  " two", ". Th", "ree",    "\xc3",
                                       "\xa9", " <e",  "nd",   "> four", "\xe2\x82"};
  const auto text_of = [&](std::span<const std::int32_t> ids) {
    std::string text;
    for (const std::int32_t id : ids) text += words[static_cast<std::size_t>(id)];
    return text;
  };
  const auto pieces = [&](std::vector<std::string> stops, std::vector<std::int32_t> ids) {
    TextStream stream(text_of, std::vector<std::int32_t>{3}, std::move(stops));
    std::vector<std::string> result;
    for (const std::int32_t id : ids) {
      if (!stream.stopped()) result.push_back(stream.add(id));
    }
    result.push_back(stream.rest());
    return result;
  };
  using Pieces = std::vector<std::string>;
  CHECK(pieces({}, {0, 1, 4, 5, 9}) == Pieces{"One", " two", "", "\xc3\xa9", "", "\xe2\x82"});
  CHECK(pieces({"<end>"}, {0, 6, 7, 8}) == Pieces{"One", " ", "", "", ""});
  CHECK(pieces({"<end>", " <e"}, {0, 6, 7}) == Pieces{"One", "", ""});
  CHECK(pieces({"<end>"}, {0, 6, 7}) == Pieces{"One", " ", "", "<end"});
  CHECK(pieces({"<end?"}, {6, 7, 8, 0}) == Pieces{" ", "", "<end> four", "One", ""});
  CHECK(pieces({"o. T"}, {1, 2, 3}) == Pieces{" tw", "", ""});
}

}  // namespace
}  // namespace tools
