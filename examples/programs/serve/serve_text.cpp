// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "serve_text.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "../common/any_text_model.hpp"
#include "../common/expect_weights.hpp"
#include "../common/host_memory.hpp"
#include "../common/job_hosts.hpp"
#include "../common/text_inputs.hpp"
#include "heartbeat.hpp"

namespace tools {

namespace {

using Clock = std::chrono::steady_clock;

sw::Json json_of(const TextRequest& request) {
  const sw::llm::SamplingOptions& sampling = request.sampling;
  return {request.prompt,      sampling.temperature,       sampling.top_k, sampling.top_p,     sampling.min_p,
          sampling.logit_bias, request.repetition_penalty, request.seed,   request.new_tokens, request.ends,
          request.stops,       request.most_probable};
}
TextRequest request_of(const sw::Json& json) {
  TextRequest request;
  std::size_t i = 0;
  const auto read = [&](auto& value) { json[i++].get_to(value); };
  read(request.prompt);
  read(request.sampling.temperature);
  read(request.sampling.top_k);
  read(request.sampling.top_p);
  read(request.sampling.min_p);
  read(request.sampling.logit_bias);
  read(request.repetition_penalty);
  read(request.seed);
  read(request.new_tokens);
  read(request.ends);
  read(request.stops);
  read(request.most_probable);
  return request;
}

/// Brings the news of rank 0 to the other ranks before a step.
class Exchange {
 public:
  explicit Exchange(sw::Communicator ranks) : ranks_(std::move(ranks)) {}

  void wait_for_first_rank() const { ranks_.wait_for_first_rank(); }
  /// The news of rank 0, on every rank.
  News share(const News& news) const {
    std::string text;
    if (ranks_.rank() == 0 && (!news.added.empty() || !news.cancelled.empty() || news.ends)) {
      sw::Json added = sw::Json::array();
      for (const TextRequest& request : news.added) added.push_back(json_of(request));
      const sw::Json all{{"added", std::move(added)},
                         {"cancelled", news.cancelled},
                         {"ends", news.ends},
                         {"gives_up", news.gives_up}};
      const std::vector<std::uint8_t> bytes = sw::Json::to_cbor(all);
      text.assign(bytes.begin(), bytes.end());
    }
    text = ranks_.broadcast(text);
    if (text.empty()) return {};
    const sw::Json all = sw::Json::from_cbor(text);
    News result{.cancelled = all["cancelled"], .ends = all["ends"], .gives_up = all["gives_up"]};
    for (const sw::Json& each : all["added"]) result.added.push_back(request_of(each));
    return result;
  }

 private:
  sw::Communicator ranks_;
};

/// For rank 0: ends the queue when a signal arrives at any rank, and what is under way after some time.
class Ending {
 public:
  Ending(const Heartbeat& ranks, RequestQueue& queue, int seconds)
      : ranks_(ranks), queue_(queue), seconds_(seconds) {}
  void look() {
    const auto now = Clock::now();
    if (!ranks_.asked()) return;
    if (!queue_.ends()) since_ = now;
    queue_.end(now - since_ >= seconds_);
  }

 private:
  const Heartbeat& ranks_;
  RequestQueue& queue_;
  std::chrono::seconds seconds_;
  Clock::time_point since_;
};

/// Writes the texts of all requests until the end. `queue` is rank 0's.
void write_texts(Generator& generator, const Heartbeat& ranks, RequestQueue& queue, int drain_timeout) {
  const Exchange exchange(sw::world());
  const bool first = sw::world().rank() == 0;
  Ending ending(ranks, queue, drain_timeout);
  for (;;) {
    if (first) ending.look();
    if (!generator.busy()) {
      while (first && !queue.wait(std::chrono::milliseconds(100))) ending.look();
      exchange.wait_for_first_rank();
    }
    const News news = exchange.share(first ? queue.take() : News());
    for (const TextRequest& request : news.added) generator.add(request);
    for (const std::size_t number : news.cancelled) generator.cancel(number);
    if (news.ends && (news.gives_up || !generator.busy())) return;
    for (NewToken& token : generator.step()) {
      if (first) queue.deliver(std::move(token));
    }
  }
}

/// Throws unless all hosts together have memory for the weights, and for the keys and values in float.
void check_memory(const Job& job, const sw::llm::LlamaConfig& config, int bits, sw::Index rows,
                  sw::Index tokens) {
  const double token =
      static_cast<double>(config.layers * config.kv_heads * (config.head_size() + config.value_size())) *
      sizeof(float) * job.size<sw::kvr>();
  const double weights = static_cast<double>(config.parameters()) * bits / 8;
  const double bytes = token * static_cast<double>(rows) * static_cast<double>(tokens) + weights;
  const double all = memory_limit().bytes * sw::world().hosts().count();
  if (sw::world().agree(bytes < all)) return;
  const auto gib = [](double number) { return std::to_string(std::llround(number / (1 << 30))) + " GiB"; };
  throw std::runtime_error("the weights, and the keys and values of " + std::to_string(rows) + " texts of " +
                           std::to_string(tokens) + " tokens, are " + gib(bytes) + ", but the hosts have " +
                           gib(all) + "; give a smaller --context or --rows");
}

}  // namespace

void serve(const ServerOptions& options) {
  const sw::llm::LlamaConfig config = config_of(options.weights);
  expect_weights(options.weights, config);
  const Job job(sw::world(), job_sizes(options.pp, 1, 1, 1, std::max(1, sw::world().size() / options.pp),
                                       config.kv_heads));
  warn_of_torn_groups(job);
  const auto tokenizer = tokenizer_of(options.weights, config.vocabulary);
  std::optional<sw::llm::ChatTemplate> chat;
  std::string no_chat;
  try {
    if (tokenizer) chat = chat_template_of(options.weights);
  } catch (const std::runtime_error& error) {
    no_chat = error.what();
    if (job.rank() == 0) std::fprintf(stderr, "note: no /v1/chat/completions: %s\n", no_chat.c_str());
  }
  const ServedModel served{.name = options.name.empty()
                                       ? std::filesystem::canonical(options.weights).filename().string()
                                       : options.name,
                           .tokenizer = tokenizer ? &*tokenizer : nullptr,
                           .chat = chat ? &*chat : nullptr,
                           .no_chat = no_chat,
                           .vocabulary = config.vocabulary,
                           .known = known_ids(tokenizer, config.vocabulary),
                           .capacity = options.context.value_or(config.context),
                           .ends = ends_of(options.weights, tokenizer)};
  check_memory(job, config, options.weight_bits, options.rows, served.capacity);
  const auto model = make_text_model(job, config, options.weight_bits);
  model->load_from(options.weights);
  Generator generator(model->make_cache(options.rows, served.capacity), served.known,
                      tokenizer
                          ? Decode([&](std::span<const std::int32_t> ids) { return tokenizer->decode(ids); })
                          : Decode());

  const Heartbeat ranks(sw::world());
  RequestQueue queue;
  std::optional<HttpServer> server;
  std::string problem;
  if (job.rank() == 0) {
    HttpOptions http = options.http;
    if (const char* key = std::getenv("SHARDWISE_API_KEY")) http.key = key;
    http.requests = static_cast<int>(options.rows + options.queue);
    try {
      server.emplace(http, served, queue, [&ranks] { return ranks.problem(); });
    } catch (const std::runtime_error& error) {
      problem = error.what();
    }
  }
  problem = sw::world().broadcast(problem);
  if (!problem.empty()) throw std::runtime_error(problem);
  if (server) {
    if (served.capacity > config.context) {
      std::fprintf(stderr, "note: --context %td is more than the %td tokens that the model was made for\n",
                   served.capacity, config.context);
    }
    std::printf("%s: http://%s:%d/v1, %td texts of %td tokens at once\n", served.name.c_str(),
                options.http.host.c_str(), server->port(), options.rows, served.capacity);
    std::fflush(stdout);
  }
  write_texts(generator, ranks, queue, options.drain_timeout);
}

}  // namespace tools
