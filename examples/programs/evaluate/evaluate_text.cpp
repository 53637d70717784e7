// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "evaluate_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "../common/any_text_model.hpp"
#include "../common/expect_weights.hpp"
#include "../common/job_hosts.hpp"
#include "../common/text_inputs.hpp"

namespace tools {

namespace {

using Tokens = std::vector<std::int32_t>;

/// The tokens of a prompt with one of its choices, and how many of them belong to the prompt.
struct Choice {
  Tokens ids;
  std::size_t known;
  std::size_t bytes;  ///< of the choice's text
};
struct Question {
  std::vector<Choice> choices;
  std::size_t answer;
};

/// What is measured, the same on every rank.
struct Inputs {
  std::string text;
  Tokens ids;  ///< of the text
  std::vector<Question> questions;
};

Question question_of(std::string_view line, const std::string& place, const auto& encoded) {
  const sw::Json json = sw::parse_json(line, place);
  const sw::JsonPart part(json, place + ": ");
  part.only({"prompt", "choices", "answer"});
  const auto prompt = part.get<std::string>("prompt");
  const Tokens before = encoded(prompt);
  Question question;
  part["choices"].for_each([&](const auto& each) {
    const auto text = each.template get<std::string>();
    if (text.empty()) each.expected("a text that is not empty");
    // A token may span the border, so both are encoded together.
    Choice choice{encoded(prompt + text), 0, text.size()};
    if (choice.ids.size() < 2)
      each.fail("together with the prompt, it is a single token: nothing is predicted");
    const auto common = std::ranges::mismatch(before, choice.ids).in1 - before.begin();
    choice.known = std::clamp<std::size_t>(static_cast<std::size_t>(common), 1, choice.ids.size() - 1);
    question.choices.push_back(std::move(choice));
  });
  if (question.choices.size() < 2) part["choices"].expected("two or more choices");
  question.answer = static_cast<std::size_t>(part["answer"].integer(0, std::ssize(question.choices) - 1));
  return question;
}

Inputs read_inputs(const EvaluationOptions& options, const sw::llm::LlamaConfig& config) {
  const auto tokenizer = tokenizer_of(options.weights, config.vocabulary);
  if (!tokenizer) throw std::runtime_error(options.weights.string() + ": " + no_tokenizer);
  const auto encoded = [&](const std::string& text) {
    Tokens ids = tokenizer->encode(text);
    check_tokens(ids, config.vocabulary, options.weights);
    return ids;
  };
  Inputs inputs;
  if (!options.text.empty()) {
    inputs.text = read_same(options.text, "--text");
    inputs.ids = sw::prefix_errors(options.text.string(), [&] { return encoded(inputs.text); });
    if (inputs.ids.size() < 2)
      throw std::runtime_error(options.text.string() + ": there are " + std::to_string(inputs.ids.size()) +
                               " tokens in it, expected two or more");
  }
  if (options.questions.empty()) return inputs;
  std::size_t longest = 0;
  for_each_line(read_same(options.questions, "--questions"), options.questions.string(),
                [&](std::string_view line, const std::string& place) {
                  inputs.questions.push_back(question_of(line, place, [&](const std::string& text) {
                    return sw::prefix_errors(place, [&] { return encoded(text); });
                  }));
                  for (const Choice& choice : inputs.questions.back().choices)
                    longest = std::max(longest, choice.ids.size());
                });
  if (inputs.questions.empty())
    throw std::runtime_error(options.questions.string() + ": it has no questions");
  if (sw::world().rank() == 0 && std::cmp_greater(longest, config.context)) {
    std::fprintf(stderr,
                 "note: questions have up to %zu tokens, more than the %td that the model was made for\n",
                 longest, config.context);
  }
  return inputs;
}

void print_perplexity(AnyTextModel& model, const Inputs& inputs, const std::filesystem::path& path,
                      std::size_t window) {
  const Tokens& ids = inputs.ids;
  double sum = 0;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += window) {
    const std::size_t end = std::min(begin + window + 1, ids.size());
    sum += model.log_likelihood(std::span(ids).subspan(begin, end - begin), 1);
  }
  if (sw::world().rank() != 0) return;
  const double loss = -sum / static_cast<double>(ids.size() - 1);
  std::printf("%s: %zu tokens in windows of %zu: loss %.5f, perplexity %.4f, %.4f bits a byte\n",
              path.c_str(), ids.size(), window, loss, std::exp(loss),
              -sum / std::log(2) / static_cast<double>(inputs.text.size()));
}

void print_accuracy(AnyTextModel& model, const std::vector<Question>& questions,
                    const std::filesystem::path& path) {
  int right = 0, right_by_length = 0;
  for (const Question& question : questions) {
    std::vector<double> likely, by_length;
    for (const Choice& choice : question.choices) {
      likely.push_back(model.log_likelihood(choice.ids, choice.known));
      by_length.push_back(likely.back() / static_cast<double>(choice.bytes));
    }
    const auto is_right = [&](const std::vector<double>& score) {
      return std::cmp_equal(std::ranges::max_element(score) - score.begin(), question.answer);
    };
    right += is_right(likely);
    right_by_length += is_right(by_length);
  }
  if (sw::world().rank() != 0) return;
  const auto count = static_cast<double>(questions.size());
  const auto text = [&](int number) {
    const double share = number / count;
    std::array<char, 64> line{};
    std::snprintf(line.data(), line.size(), "%.2f %% (± %.2f)", 100 * share,
                  100 * std::sqrt(share * (1 - share) / count));
    return std::string(line.data());
  };
  std::printf("%s: %zu questions: %s answered correctly, %s by the likelihood a byte\n", path.c_str(),
              questions.size(), text(right).c_str(), text(right_by_length).c_str());
}

}  // namespace

void evaluate(const EvaluationOptions& options) {
  if (options.text.empty() && options.questions.empty())
    throw std::runtime_error("nothing to measure: give --text or --questions");
  const sw::llm::LlamaConfig config = config_of(options.weights);
  expect_weights(options.weights, config);
  const Inputs inputs = read_inputs(options, config);
  const sw::Index window = options.context.value_or(std::min<sw::Index>(config.context, 2048));
  if (sw::world().rank() == 0 && !inputs.ids.empty() && window > config.context) {
    std::fprintf(stderr, "note: --context %td is more than the %td tokens that the model was made for\n",
                 window, config.context);
  }
  const Job job(sw::world(), job_sizes(options.pp, 1, 1, 1, std::max(1, sw::world().size() / options.pp),
                                       config.kv_heads));
  warn_of_torn_groups(job);
  const auto model = make_text_model(job, config, options.weight_bits);
  model->load_from(options.weights);
  if (!inputs.ids.empty()) print_perplexity(*model, inputs, options.text, static_cast<std::size_t>(window));
  if (!inputs.questions.empty()) print_accuracy(*model, inputs.questions, options.questions);
}

}  // namespace tools
