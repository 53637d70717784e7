// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "evaluate_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <vector>

#include <shardwise/guard/agreement.hpp>
#include <shardwise/models/llama/files.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/text/tokenizer.hpp>

#include "expect_weights.hpp"
#include "job_hosts.hpp"
#include "text_model.hpp"

namespace tools {

namespace {

using Tokens = std::vector<std::int32_t>;

struct Question {
  std::string prompt;
  std::vector<std::string> choices;
  std::size_t answer;
};

Question question_of(const sw::Json& line) {
  const auto expect = [](bool good, const char* what) {
    if (!good) throw std::runtime_error(what);
  };
  expect(line.is_object(), "expected an object with \"prompt\", \"choices\" and \"answer\"");
  const auto member = [&](const char* key) -> const sw::Json& {
    const auto found = line.find(key);
    if (found == line.end()) throw std::runtime_error("there is no \"" + std::string(key) + "\"");
    return *found;
  };
  Question question;
  expect(member("prompt").is_string(), "\"prompt\" is not a text");
  question.prompt = member("prompt").get<std::string>();
  expect(member("choices").is_array() && member("choices").size() > 1,
         "\"choices\" is not a list of two or more texts");
  for (const sw::Json& choice : member("choices")) {
    expect(choice.is_string() && !choice.get<std::string>().empty(), "a choice is not a text, or is empty");
    question.choices.push_back(choice.get<std::string>());
  }
  const sw::Json& answer = member("answer");
  expect(answer.is_number_unsigned() && answer.get<std::uint64_t>() < question.choices.size(),
         "\"answer\" is not the number of a choice, from 0");
  question.answer = answer.get<std::size_t>();
  return question;
}

std::vector<Question> read_questions(const std::filesystem::path& path) {
  std::vector<Question> questions;
  std::istringstream file(sw::detail::read_text(path));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string place = path.string() + ":" + std::to_string(number);
    const sw::Json json = sw::parse_json(line, place);
    questions.push_back(sw::detail::naming(place, [&] { return question_of(json); }));
  }
  if (questions.empty()) throw std::runtime_error(path.string() + ": there is no question in it");
  return questions;
}

/// Σ log p(ids[i] | all before it) over i ≥ `first` ≥ 1, on every rank.
double log_likelihood(auto& model, std::span<const std::int32_t> ids, std::size_t first) {
  Tokens targets(ids.begin() + 1, ids.end());
  std::fill_n(targets.begin(), first - 1, -100);
  const auto inputs = batch_of(model.mesh(), ids.first(ids.size() - 1));
  return model.each(inputs, [&](const auto& logits) {
    const sw::CrossEntropyLoss loss({.reduction = sw::Reduction::sum});
    return -static_cast<double>(sw::item(loss(logits, batch_of(model.mesh(), targets))));
  });
}

/// Throws unless the model knows all ids.
const Tokens& checked(const Tokens& ids, sw::Index vocabulary) {
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (largest != ids.end() && *largest >= vocabulary) {
    throw std::runtime_error("the tokenizer gives token " + std::to_string(*largest) +
                             ", but the model has " + std::to_string(vocabulary));
  }
  return ids;
}

void print_perplexity(auto& model, const sw::Tokenizer& tokenizer, const std::filesystem::path& path,
                      std::size_t window, sw::Index vocabulary) {
  const std::string text = sw::detail::read_text(path);
  const Tokens ids = checked(tokenizer.encode(text), vocabulary);
  if (ids.size() < 2) throw std::runtime_error(path.string() + ": expected two tokens or more");
  double sum = 0;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += window) {
    const std::size_t end = std::min(begin + window + 1, ids.size());
    sum += log_likelihood(model, std::span(ids).subspan(begin, end - begin), 1);
  }
  if (sw::world().rank() != 0) return;
  const double loss = -sum / static_cast<double>(ids.size() - 1);
  std::printf("%s: %zu tokens in windows of %zu: loss %.5f, perplexity %.4f, %.4f bits a byte\n",
              path.c_str(), ids.size(), window, loss, std::exp(loss),
              -sum / std::log(2) / static_cast<double>(text.size()));
}

void print_accuracy(auto& model, const sw::Tokenizer& tokenizer, const std::filesystem::path& path,
                    const std::vector<Question>& questions, sw::Index vocabulary) {
  int right = 0, right_by_length = 0;
  for (const Question& question : questions) {
    const Tokens prompt = tokenizer.encode(question.prompt);
    std::vector<double> likely, by_length;
    for (const std::string& choice : question.choices) {
      // A token may span the border, so both are encoded together.
      const Tokens ids = checked(tokenizer.encode(question.prompt + choice), vocabulary);
      const auto common =
          std::mismatch(prompt.begin(), prompt.end(), ids.begin(), ids.end()).first - prompt.begin();
      const std::size_t first = std::clamp<std::size_t>(static_cast<std::size_t>(common), 1, ids.size() - 1);
      likely.push_back(log_likelihood(model, ids, first));
      by_length.push_back(likely.back() / static_cast<double>(choice.size()));
    }
    const auto is_right = [&](const std::vector<double>& score) {
      return static_cast<std::size_t>(std::max_element(score.begin(), score.end()) - score.begin()) ==
             question.answer;
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

template <class Block>
void evaluate_with(const EvaluationOptions& options, const std::vector<Question>& questions) {
  const sw::LlamaConfig config = sw::read_llama_config(options.weights / "config.json");
  expect_weights(options.weights, config);
  if (config.vocabulary != sw::ByteTokenizer::vocabulary() &&
      !std::filesystem::exists(options.weights / "tokenizer.json"))
    throw std::runtime_error(options.weights.string() +
                             ": there is no tokenizer.json, and the model's tokens are not bytes");
  const auto tokenizer = sw::Tokenizer::from_folder(options.weights);
  const Job job(sw::world(), job_sizes(options.pp, 1, 1, 1, std::max(1, sw::world().size() / options.pp),
                                       config.kv_heads));
  warn_of_torn_groups(job);
  TextModel<Block> model(job, config);
  sw::load_llama(job, model.stages(), options.weights);
  const sw::Index window = options.context.value_or(config.context);
  if (!options.text.empty())
    print_perplexity(model, tokenizer, options.text, static_cast<std::size_t>(window), config.vocabulary);
  if (!questions.empty()) print_accuracy(model, tokenizer, options.questions, questions, config.vocabulary);
}

}  // namespace

void evaluate(const EvaluationOptions& options) {
  if (options.text.empty() && options.questions.empty())
    throw std::runtime_error("nothing to measure: give --text or --questions");
  std::vector<Question> questions;
  if (!options.questions.empty()) questions = read_questions(options.questions);
  with_weight_bits(options.weight_bits,
                   [&]<class Block>(Block*) { evaluate_with<Block>(options, questions); });
}

}  // namespace tools
