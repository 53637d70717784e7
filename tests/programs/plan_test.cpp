// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What the program `plan` says of large models, against formulas.

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "../../examples/programs/common/host_memory.hpp"
#include "refusals.hpp"

namespace {

using Json = nlohmann::json;

/// What the program prints.
std::string printed(const std::string& options) {
  const std::string command = std::string(PLAN) + " " + options;
  CAPTURE(command);
  FILE* output = popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), output))
    text.append(part.data(), count);
  REQUIRE(pclose(output) == 0);
  return text;
}
/// The same as JSON. No plan of the Llama sends more than it must.
Json plan(const std::string& options) {
  Json json = Json::parse(printed("--json " + options));
  for (const Json& rank : json.at("ranks")) CHECK(rank.at("wasted_bytes") == 0);
  return json;
}

/// The collectives of one kind in one phase, on these axes.
struct Traffic {
  std::int64_t calls = 0, bytes = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};
Traffic traffic(const Json& rank, const char* phase, const char* kind, const std::vector<std::string>& axes) {
  for (const Json& each : rank.at("collectives")) {
    if (each.at("phase") != phase || each.at("kind") != kind || each.at("axes") != axes) continue;
    return {each.at("calls").get<std::int64_t>(), each.at("bytes").get<std::int64_t>()};
  }
  return {};
}

std::int64_t flops(const Json& rank, const char* phase) {
  return rank.at("flops").at(phase).get<std::int64_t>();
}
std::int64_t peak(const Json& rank, const char* use) {
  return rank.at("peak_bytes").at(use).get<std::int64_t>();
}

/// Llama 3 of 70 billion parameters on dp 128 x tp 8, which divide all but the norms' weights, that each of the eight
/// has.
constexpr std::int64_t parameters = 70553706496, norms = (2 * 80 + 1) * 8192;
constexpr std::int64_t whole = (parameters - norms) / 8 + norms,
                       part = (parameters - norms) / (8 * 128) + norms / 128;
static_assert((parameters - norms) % (8 * 128) == 0 && norms % 128 == 0);
const std::string large = "--model 70b --dp 128 --tp 8 ";

}  // namespace

TEST_CASE("the presets have the published numbers of parameters") {
  const std::pair<const char*, std::int64_t> published[] = {
      {"1b", 1235814400},   {"3b", 3212749824},          {"7b", 6738415616},  {"8b", 8030261248},
      {"13b", 13015864320}, {"llama2-70b", 68976648192}, {"70b", parameters}, {"405b", 405853388800}};
  for (const auto& preset : published) {
    CAPTURE(preset.first);
    CHECK(plan(std::string("--tp 8 --model ") + preset.first).at("model").at("parameters") == preset.second);
  }
  const std::pair<const char*, std::int64_t> others[] = {
      {"qwen2.5-7b", 7615616512},    {"qwen3-0.6b", 596049920},      {"qwen3-4b", 4022468096},
      {"qwen3-32b", 32762123264},    {"gemma2-2b", 2614341888},      {"gemma3-1b", 999885952},
      {"mixtral-8x7b", 46702792704}, {"qwen3-30b-a3b", 30532122624}, {"deepseek-v3", 671026419200}};
  for (const auto& preset : others) {
    CAPTURE(preset.first);
    CHECK(plan(std::string("--tp 4 --zero 1 --model ") + preset.first).at("model").at("parameters") ==
          preset.second);
  }
}

TEST_CASE("memory of 70 billion parameters is what was to be sharded, by as many as share it") {
  for (const bool bf16 : {false, true}) {
    const std::int64_t element = bf16 ? 2 : 4, state = bf16 ? 12 : 8;
    for (int level = 0; level <= 3; ++level) {
      CAPTURE(bf16);
      CAPTURE(level);
      const Json json = plan(large + "--recompute --zero " + std::to_string(level) + (bf16 ? " --bf16" : ""));
      CHECK(json.at("alike") == true);
      MESSAGE("planned in " << json.at("seconds") << " s");
      REQUIRE(json.at("ranks").size() == 2);
      for (const Json& rank : json.at("ranks")) {
        CHECK(peak(rank, "parameters") == element * (level >= 3 ? part : whole));
        CHECK(peak(rank, "optimizer_state") == state * (level >= 1 ? part : whole));
        if (level == 0) CHECK(peak(rank, "gradients") == element * whole);
        if (level >= 2) CHECK(peak(rank, "gradients") == element * part);
        const std::int64_t kept = peak(rank, "parameters") + peak(rank, "optimizer_state");
        const std::int64_t passing =
            peak(rank, "gradients") + peak(rank, "gathered") + peak(rank, "activations");
        CHECK(peak(rank, "all") > kept + peak(rank, "activations"));
        CHECK(peak(rank, "all") <= kept + passing);
      }
    }
  }
}

TEST_CASE("optimizer state in bfloat16 has half the bytes, beside masters in float") {
  for (const bool bf16 : {false, true}) {
    const Json json = plan(large + "--recompute --optimizer-state bf16" + (bf16 ? " --bf16" : ""));
    for (const Json& rank : json.at("ranks")) CHECK(peak(rank, "optimizer_state") == (bf16 ? 8 : 4) * part);
  }
}

TEST_CASE("as few layers are recomputed as fit into the memory") {
  const std::string eight = "--model 8b --dp 8 --batch 8 --bf16 ";
  const auto with = [&](const std::string& options) { return plan(eight + options).at("ranks").at(0); };
  const std::int64_t kept = peak(with(""), "all"), least = peak(with("--recompute"), "all");
  const std::int64_t all_flops = with("--recompute").at("flops").at("recomputation").get<std::int64_t>();
  std::int64_t before = kept;
  for (int layers = 1; layers <= 32; ++layers) {
    CAPTURE(layers);
    const Json rank = with("--recompute " + std::to_string(layers));
    CHECK(peak(rank, "all") <= before);
    before = peak(rank, "all");
    CHECK(rank.at("flops").at("recomputation") == layers * (all_flops / 32));
    if (layers % 8 != 3) continue;
    CHECK(with("--memory " + std::to_string(before)) == rank);
    CHECK(peak(with("--memory " + std::to_string(before - 1)), "all") < before);
  }
  CHECK(before == least);
  CHECK(with("--memory " + std::to_string(kept)).at("flops").at("recomputation") == 0);
  CHECK(with("--memory " + std::to_string(least)).at("peak_bytes").at("all") == least);
}

TEST_CASE("each rank along pp recomputes what it needs to") {
  const Json json = plan("--model 1b --pp 4 --micro-batches 8 --batch 8 --memory 14GiB");
  const auto layers = json.at("step").at("recompute_layers").get<std::vector<int>>();
  REQUIRE(layers.size() == 4);
  CHECK(layers.front() > layers.back());  // the first rank has most micro-batches in flight
  for (const Json& rank : json.at("ranks")) CHECK(peak(rank, "all") <= std::int64_t{14} << 30);
}

TEST_CASE("fully sharded, each layer is gathered twice and reduced once in a micro-batch") {
  for (const std::int64_t micro : {1, 3}) {
    CAPTURE(micro);
    const Json rank = plan(large + "--micro-batches " + std::to_string(micro)).at("ranks").at(0);
    const Traffic units{82 * micro, 4 * whole * micro};  // 80 layers, the tokens, and the norm with the head
    CHECK(traffic(rank, "forward", "all_gather", {"dp"}) == units);
    constexpr std::int64_t tables = (2 * 128256 / 8 + 1) * 8192;  // and the last norm
    CHECK(traffic(rank, "backward", "all_gather", {"dp"}) ==
          Traffic{80 * micro, 4 * (whole - tables) * micro});
    CHECK(traffic(rank, "backward", "reduce_scatter", {"dp"}) == units);
    // The norm, and whether to stop.
    CHECK(traffic(rank, "optimizer", "all_reduce", {"dp", "tp"}) == Traffic{2, 8 + 4});
  }
}

TEST_CASE("messages carry what they were told to") {
  const Json usual = plan(large).at("ranks").at(0);
  for (const auto& [types, gathered, reduced] :
       {std::tuple{"bfloat16", 2, 2}, {"bfloat16 float", 2, 4}, {"float bfloat16", 4, 2}}) {
    const std::string options = std::string("--communicate-as ") + types;
    CAPTURE(options);
    const Json json = plan(large + options);
    CHECK(json.at("step").at("communicate_as").at(0) == (gathered == 2 ? "bfloat16" : "float32"));
    const Json& rank = json.at("ranks").at(0);
    for (const char* phase : {"forward", "backward"}) {
      const Traffic gathers = traffic(usual, phase, "all_gather", {"dp"});
      CHECK(traffic(rank, phase, "all_gather", {"dp"}) ==
            Traffic{gathers.calls, gathers.bytes / 4 * gathered});
    }
    CHECK(traffic(rank, "backward", "reduce_scatter", {"dp"}) == Traffic{82, reduced * whole});
    CHECK(traffic(rank, "forward", "all_reduce", {"tp"}) == traffic(usual, "forward", "all_reduce", {"tp"}));
  }
}

TEST_CASE("copies of sharded groups reduce their shards once a step") {
  const Json json = plan("--model 70b --dp 64 --replicas 2 --tp 8 --micro-batches 2");
  CHECK(json.at("mesh") == Json{{"pp", 1}, {"replica", 2}, {"dp", 64}, {"cp", 1}, {"tp", 8}, {"kvr", 1}});
  CHECK(json.at("step").at("batch") == 64 * 2 * 2);
  const Json& rank = json.at("ranks").at(0);
  const std::int64_t shards = (parameters - norms) / (8 * 64) + norms / 64;
  CHECK(traffic(rank, "optimizer", "all_reduce", {"replica"}).bytes == 4 * shards);
  CHECK(peak(rank, "parameters") == 4 * shards);
  CHECK(traffic(rank, "backward", "reduce_scatter", {"dp"}) == Traffic{2 * 82, 2 * 4 * whole});
}

TEST_CASE("replicas that train alone exchange what a rank updates, after some steps") {
  const std::string job = "--model 70b --dp 64 --replicas 2 --tp 8 --micro-batches 2 ";
  const Json together = plan(job).at("ranks").at(0), rank = plan(job + "--local-steps 50").at("ranks").at(0);
  const std::int64_t shards = (parameters - norms) / (8 * 64) + norms / 64;
  CHECK(traffic(rank, "optimizer", "all_reduce", {"replica"}) == Traffic{1, 16});  // loss and norm
  CHECK(traffic(rank, "backward", "reduce_scatter", {"dp"}) ==
        traffic(together, "backward", "reduce_scatter", {"dp"}));
  CHECK(peak(rank, "optimizer_state") == 2 * peak(together, "optimizer_state"));
  CHECK(rank.at("exchange").at("bytes") == 4 * shards);
  CHECK(rank.at("exchange").at("peak_bytes") >= rank.at("peak_bytes").at("all"));
}

TEST_CASE("recomputation repeats the layers' forward pass, and keeps less") {
  const Json kept = plan(large).at("ranks").at(0), again = plan(large + "--recompute").at("ranks").at(0);
  CHECK(flops(kept, "recomputation") == 0);
  const std::int64_t added = flops(again, "recomputation");
  CHECK(flops(again, "forward") == flops(kept, "forward"));
  CHECK(flops(again, "backward") == flops(kept, "backward") + added);
  CHECK(added < flops(kept, "forward"));  // the head is not computed again
  CHECK(static_cast<double>(added) > 0.95 * static_cast<double>(flops(kept, "forward")));
  CHECK(peak(again, "activations") < peak(kept, "activations") / 2);
}

TEST_CASE("a matrix product of a step takes 2 operations forward and 4 backward, a parameter and a token") {
  // The head's gradients are computed with the loss, in the forward pass.
  // One sequence for each of 128 groups of 8 ranks. Attention and all that is no matrix product comes on top.
  const Json rank = plan(large + "--context 128").at("ranks").at(0);
  const std::int64_t table = 128256 * std::int64_t{8192};  // is looked up
  const auto products = static_cast<double>((parameters - norms - table) / 8 * 128);
  const auto head = static_cast<double>(table / 8 * 128);
  CHECK(static_cast<double>(flops(rank, "forward")) ==
        doctest::Approx(2 * products + 4 * head).epsilon(0.01));
  CHECK(static_cast<double>(flops(rank, "backward")) == doctest::Approx(4 * (products - head)).epsilon(0.01));
}

TEST_CASE("key and value heads that are fewer than the ranks are on kvr") {
  const Json json = plan("--model 405b --dp 4 --tp 16 --sp");
  CHECK(json.at("mesh") == Json{{"pp", 1}, {"replica", 1}, {"dp", 4}, {"cp", 1}, {"tp", 8}, {"kvr", 2}});
  CHECK(traffic(json.at("ranks").at(0), "optimizer", "all_reduce", {"kvr"}).calls > 0);
}

TEST_CASE("along cp, keys and values are gathered, and the later positions have more work") {
  const std::string options =
      "--layers 3 --features 32 --heads 4 --kv-heads 2 --hidden 48 --vocabulary 64 --context 16 --batch 2 ";
  const Json whole = plan(options + "--zero 0").at("ranks").at(0);
  const Json json = plan(options + "--zero 0 --cp 4");
  CHECK(json.at("mesh").at("cp") == 4);
  const Json &first = json.at("ranks").at(0), &last = json.at("ranks").at(1);
  CHECK(last.at("coordinates").at("cp") == 3);
  const std::int64_t keys = 2 * 16 * 2 * 8 * 4;  // bytes, as many as the values
  CHECK(traffic(first, "forward", "all_gather", {"cp"}) == Traffic{2 * 3, 2 * 3 * keys});
  CHECK(traffic(first, "backward", "reduce_scatter", {"cp"}) == Traffic{2 * 3, 2 * 3 * keys});
  CHECK(flops(first, "forward") < flops(last, "forward"));
  CHECK(3 * peak(first, "activations") < peak(whole, "activations"));
  CHECK(peak(first, "parameters") == peak(whole, "parameters"));
  const Json sharded = plan(options + "--zero 3 --cp 4 --dp 2").at("ranks").at(0);
  CHECK(8 * peak(sharded, "parameters") == peak(whole, "parameters"));
}

TEST_CASE("uneven blocks: the first rank has the most, the last the least, any can be asked for") {
  const std::string uneven =
      "--layers 3 --features 24 --heads 3 --kv-heads 3 --hidden 35 --vocabulary 41 --context 10 "
      "--dp 2 --tp 2 --batch 3 ";
  const Json json = plan(uneven);
  CHECK(json.at("alike") == false);
  const Json &first = json.at("ranks").at(0), &last = json.at("ranks").at(1);
  CHECK(first.at("rank") == 0);
  CHECK(last.at("rank") == 3);
  for (const char* use : {"parameters", "gradients", "optimizer_state", "activations", "gathered", "all"}) {
    CAPTURE(use);
    CHECK(peak(first, use) > peak(last, use));
  }
  const std::int64_t wq = 24 * 24, mlp = 3 * 24 * 35, table = 41 * 24, vectors = 7 * 24;
  std::int64_t sum = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const Json one = plan(uneven + "--rank " + std::to_string(rank)).at("ranks");
    REQUIRE(one.size() == 1);
    CHECK(one.at(0).at("rank") == rank);
    sum += peak(one.at(0), "parameters");
  }
  // Key and value projections and the norms are whole on both ranks of kvr.
  CHECK(sum == 4 * (3 * (2 * wq + mlp) + 2 * table + 2 * (3 * 2 * wq + vectors)));
  CHECK(plan(uneven + "--rank 3").at("ranks") == plan(uneven + "--coordinates 0 0 1 0 0 1").at("ranks"));
}

TEST_CASE("a configuration in Hugging Face's form") {
  const Json json = plan("--model-config tests/reference/uneven/config.json --tp 2");
  const Json& model = json.at("model");
  CHECK(model.at("heads").get<int>() % 2 == 1);
  CHECK(model.at("parameters").get<std::int64_t>() > 0);
}

/// The name of a file with these speeds; memory takes next to no time.
std::string speeds_file(double flops, double within, double across) {
  const std::string name = "plan_test_speeds.json";
  Json json{{"within", within}, {"across", across}, {"latency_within", 3e-6}, {"latency_across", 3e-6}};
  for (const std::string element : {"float32", "bfloat16"}) {
    json["flops_" + element] = json["attention_" + element] = flops;
    json["memory_" + element] = 1e15;
  }
  std::ofstream(name) << json;
  return name;
}

TEST_CASE("seconds of a step over a link, beside measured ones") {
  // Two hosts with one rank each, on a Xeon; a rank computes for 0.298 s. Measured without overlap.
  const std::string model =
      "--vocabulary 32000 --features 256 --layers 2 --heads 16 --kv-heads 16 --hidden 768 --context 256 ";
  const Json alone = plan(model + "--batch 4").at("ranks").at(0);
  const auto work =
      static_cast<double>(flops(alone, "forward") + flops(alone, "backward") + flops(alone, "optimizer"));
  struct Case {
    int zero;
    double bits, seconds;
  };
  for (const Case& measured :
       {Case{0, 3e8, 1.434}, Case{0, 1e9, 0.642}, Case{3, 3e8, 1.480}, Case{3, 1e9, 0.654}}) {
    const std::string file = speeds_file(work / 0.298, 1e12, measured.bits / 8);
    const Json rank = plan(model + "--batch 8 --dp 2 --ranks-per-host 1 --in-background 0 --zero " +
                           std::to_string(measured.zero) + " --speeds " + file)
                          .at("ranks")
                          .at(0);
    std::remove(file.c_str());
    CAPTURE(measured.zero);
    CAPTURE(measured.bits);
    CHECK(rank.at("seconds_of_step").get<double>() == doctest::Approx(measured.seconds).epsilon(0.05));
  }
}

/// The plan of a token.
Json token(const std::string& options) { return Json::parse(printed("--decode --json " + options)); }

TEST_CASE("--decode: what a token reads and sends, by hand") {
  const std::string model =
      "--vocabulary 64 --features 64 --layers 2 --heads 2 --kv-heads 1 --hidden 128 --context 10 ";
  // q, k and v, o; gate, up and down; norms; head and a row of the table.
  const std::int64_t attention = 4096 + 2 * 2048 + 4096, mlp = 3 * 128 * 64, norms = 5 * 64;
  const std::int64_t blocks = 2 * (attention + mlp) + 4096 + 64;
  const Json alone = token(model);
  CHECK(alone.at("weight_bytes") == 4 * (blocks + norms));
  CHECK(alone.at("cache_bytes") == 2 * 2 * 10 * 32 * 4);
  CHECK(alone.at("calls") == 0);
  CHECK(token(model + "--weight-bits 16").at("weight_bytes") == blocks * 2 + 4 * norms);
  CHECK(token(model + "--weight-bits 8").at("weight_bytes") == blocks / 32 * 34 + 4 * norms);
  CHECK(token(model + "--weight-bits 4").at("weight_bytes") == blocks / 32 * 18 + 4 * norms);
  CHECK(token(model + "--tied").at("weight_bytes") == 4 * (blocks - 64 + norms));
  // Two ranks share the key/value head, which both have.
  const std::int64_t half = 2 * (2048 + 4096 + 2048 + mlp / 2) + 2048 + 64;
  for (const int bits : {32, 8, 4}) {
    const Json split = token(model + "--tp 2 --weight-bits " + std::to_string(bits));
    const std::int64_t bytes = bits == 32 ? 4 * half : half / 32 * (bits == 8 ? 34 : 18);
    CHECK(split.at("weight_bytes") == bytes + 4 * norms);
    CHECK(split.at("cache_bytes") == alone.at("cache_bytes"));
    // An all-reduce after the table; the inputs and the results of wo and down are gathered, and the logits.
    CHECK(split.at("calls") == 1 + 2 * 4 + 1);
    CHECK(split.at("bytes") == (64 + 2 * (64 + 64 + 128 + 64) + 64) * 4);
  }
  // A token reads two of four experts, which may be both of a rank.
  const std::string experts = model + "--experts 4 --experts-per-token 2 ";
  CHECK(token(experts).at("weight_bytes") == 4 * (2 * (attention + 2 * mlp + 4 * 64) + 4096 + 64 + norms));
  CHECK(token(experts + "--tp 2").at("weight_bytes") ==
        4 * (2 * (2048 + 4096 + 2048 + 2 * mlp + 4 * 64) + 2048 + 64 + norms));
}

TEST_CASE("--decode: seconds of a token") {
  const std::string name = "plan_test_decode.json";
  const auto seconds = [&](const std::string& options, double operation, double latency) {
    Json json{
        {"within", 1e15}, {"weights_8bit", 1e10}, {"latency_within", latency}, {"operation", operation}};
    for (const std::string element : {"float32", "bfloat16"})
      json["flops_" + element] = json["attention_" + element] = json["memory_" + element] = 1e15;
    std::ofstream(name) << json;
    const Json found = token("--model 1b --weight-bits 8 --context 64 --speeds " + name + " " + options);
    std::remove(name.c_str());
    return std::pair(found.at("seconds_of_token").get<double>(), found);
  };
  const double least = 1e-30;
  const auto [alone, plan] = seconds("", least, least);
  CHECK(alone == doctest::Approx(plan.at("weight_bytes").get<double>() / 1e10).epsilon(0.01));
  const auto [half, split] = seconds("--tp 2", least, least);
  CHECK(half == doctest::Approx(alone / 2).epsilon(0.01));
  CHECK(seconds("--tp 2", least, 1e-3).first ==
        doctest::Approx(half + split.at("calls").get<double>() * 1e-3).epsilon(1e-6));
  const double operations = (seconds("", 1e-3, least).first - alone) / 1e-3;
  CHECK(operations == doctest::Approx(std::round(operations)).epsilon(1e-6));
  CHECK(operations > 16 * 5);  // 16 layers
  // Stages compute one after another.
  const auto [stages, largest] = seconds("--pp 2", least, least);
  CHECK(stages == doctest::Approx(alone).epsilon(0.01));
  CHECK(largest.at("weight_bytes") < plan.at("weight_bytes"));
}

TEST_CASE("--by-module: the communication of modules adds up to that of the plan") {
  const std::string options = "--model 8b --dp 8 --tp 2 --sp --bf16 --by-module ";
  const Json json = plan(options + "2").at("ranks").at(0);
  std::vector<std::string> names;
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    Traffic all, sum;
    for (const Json& each : json.at("collectives")) {
      if (each.at("phase") != phase) continue;
      all.calls += each.at("calls").get<std::int64_t>();
      all.bytes += each.at("bytes").get<std::int64_t>();
    }
    names.clear();
    for (const Json& row : json.at("modules")) {
      names.push_back(row.at("name"));
      const Json& cell = row.at(phase);
      if (names.back() == "all") {
        CHECK(all == Traffic{cell.at("calls"), cell.at("bytes")});
      } else {
        sum.bytes += cell.at("bytes").get<std::int64_t>();
      }
    }
    CHECK(sum.bytes == all.bytes);
  }
  CHECK(names == std::vector<std::string>{"(model)", "tokens", "layers.*", "norm", "head", "(none)", "all"});
  const std::string text = printed(options);
  CHECK(text.find("\n  layers.*.attention.wo ") != std::string::npos);
  CHECK(text.find("communication of rank 0 by module") != std::string::npos);
  CHECK(text.find("communication of rank 15") == std::string::npos);
  CHECK(text.find("\n  (the same for rank 15)\n") != std::string::npos);
}

TEST_CASE("--draw: a rank's step, or a pipeline's schedule, as a page or a trace") {
  const auto drawn = [](const std::string& options, const std::string& name) {
    printed(options + " --draw " + name);
    std::ifstream file(name);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::remove(name.c_str());
    return text;
  };
  const std::string file = speeds_file(5e13, 2e11, 1e10);
  const std::string options = "--model 8b --dp 8 --tp 2 --ranks-per-host 2 --speeds " + file;
  const std::string step = drawn(options, "plan_test.json"), page = drawn(options, "plan_test.html");
  std::remove(file.c_str());
  const Json trace = Json::parse(step);
  std::set<std::string> axes;
  for (const Json& entry : trace.at("traceEvents")) {
    if (entry.at("args").contains("axes")) axes.insert(entry.at("args").at("axes"));
  }
  CHECK(axes == std::set<std::string>{"dp", "tp", "dp+tp"});
  CHECK(step.find("\"rank 0 (modelled: 50.00 TFLOP/s; memory 1000.00 TB/s; within a host 200.00 GB/s; across "
                  "hosts 10.00 GB/s; 3.00 µs a call, 3.00 µs across hosts)\"") != std::string::npos);
  const Json about = trace.at("otherData").at("about");
  CHECK(about.at(0) == "A Llama of 8.03 billion parameters, pp 1 x replica 1 x dp 8 x tp 2 x kvr 1");
  CHECK(matches(about.at(1),
                "^8 sequences of 8192 tokens a step, in 1 micro-batch, in float32; ZeRO level 3, tensor "
                "parallel; activations are kept$"));
  CHECK(matches(about.at(2), "^[0-9.e+]+ s a step, [0-9]+ tokens a second$"));
  CHECK(matches(about.at(3), "^shardwise-plan --model 8b --dp 8 .*--draw plan_test.json$"));
  CHECK(matches(about.at(4), "^Times are modelled: 50.00 TFLOP/s; .*"));
  CHECK(matches(about.at(5), "^Shardwise [0-9.]+"));
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find(step.substr(step.find("\"traceEvents\""))) != std::string::npos);
  CHECK(step.find(R"("modules":{"layers.31.attention.wo":)") != std::string::npos);
  CHECK(page.find("layers.*.attention.wo.weight: f32 [4096 x 32 x 128] as") != std::string::npos);
  const Json schedule =
      Json::parse(drawn("--model 8b --pp 4 --schedule zb-v --batch 8 --micro-batches 8", "plan_test.json"));
  std::set<std::string> stages;
  for (const Json& entry : schedule.at("traceEvents")) stages.insert(entry.at("args").value("unit", ""));
  CHECK(stages.size() == 1 + 8);  // names of ranks have none
  CHECK(schedule.at("otherData").at("times") == "seconds");
  CHECK(std::string(schedule.at("otherData").at("about").at(0)).starts_with("zb-v: A Llama of 8.03 billion"));
}

TEST_CASE("the documentation shows what the program prints") {
  std::ifstream file("docs/learn/planning.md");
  REQUIRE(file.good());
  const std::string page((std::istreambuf_iterator<char>(file)), {});

  const std::string before = "```\n$ shardwise-plan ";
  const std::size_t begin = page.find(before) + before.size();
  REQUIRE(begin > before.size());
  const std::size_t options_end = page.find('\n', begin), end = page.find("planned in", begin);
  const std::string text = printed(page.substr(begin, options_end - begin));
  CHECK(page.substr(options_end + 1, end - options_end - 1) == text.substr(0, text.find("planned in")));

  std::ifstream pipelines("docs/learn/pipelines.md");
  const std::string of_stages((std::istreambuf_iterator<char>(pipelines)), {});
  const std::string job_of_stages =
      "--model 8b --pp 4 --schedule interleaved --chunks 2 --micro-batches 8 --tp 2 --zero 1";
  CHECK(of_stages.find("shardwise-plan " + job_of_stages + "\n") != std::string::npos);
  const std::string said = printed(job_of_stages);
  const std::size_t first = said.find("interleaved: "), last = said.find("  per rank");
  CHECK(of_stages.find(said.substr(first, last - first)) != std::string::npos);

  const std::string options = "--model 8b --dp 64 --batch 256 --micro-batches 4 --bf16";
  CHECK(page.find("`shardwise-plan " + options + "`") != std::string::npos);
  for (int level = 0; level <= 3; ++level) {
    for (const bool recompute : {false, true}) {
      const std::string job =
          options + " --zero " + std::to_string(level) + (recompute ? " --recompute" : "");
      const Json rank = plan(job).at("ranks").at(0);
      auto gib = [&](const char* use) { return std::ldexp(static_cast<double>(peak(rank, use)), -30); };
      std::int64_t bytes = 0;
      for (const Json& each : rank.at("collectives")) bytes += each.at("bytes").get<std::int64_t>();
      const auto all_flops = flops(rank, "forward") + flops(rank, "backward") + flops(rank, "optimizer");
      std::array<char, 200> row;
      std::snprintf(row.data(), row.size(),
                    "| %d | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f | %.2f |\n", level,
                    recompute ? "recomputed" : "kept", gib("parameters"), gib("gradients"),
                    gib("optimizer_state"), gib("gathered"), gib("activations"), gib("all"),
                    std::ldexp(static_cast<double>(bytes), -30), static_cast<double>(all_flops) * 1e-15);
      CAPTURE(std::string(row.data()));
      CHECK(page.find(row.data()) != std::string::npos);
    }
  }
  for (const int limit : {30, 28, 24, 20, 16, 12, 9}) {
    const Json json = plan(options + " --memory " + std::to_string(limit) + "GiB");
    const Json rank = json.at("ranks").at(0);
    const auto gib = [&](const char* use) { return std::ldexp(static_cast<double>(peak(rank, use)), -30); };
    const auto more = static_cast<double>(flops(rank, "recomputation"));
    const auto all_flops =
        static_cast<double>(flops(rank, "forward") + flops(rank, "backward") + flops(rank, "optimizer"));
    std::array<char, 200> row;
    std::snprintf(row.data(), row.size(), "| %dGiB | %d | %.2f | %.2f | %.1f %% |\n", limit,
                  json.at("step").at("recompute_layers").at(0).get<int>(), gib("activations"), gib("all"),
                  100 * more / (all_flops - more));
    CAPTURE(std::string(row.data()));
    CHECK(page.find(row.data()) != std::string::npos);
  }
}

TEST_CASE("what goes to other hosts is what is reduced along dp, if a host has the ranks of tp") {
  const std::string options = "--model small --dp 2 --tp 2 --zero 0 --batch 2";
  const auto across = [&](const std::string& hosts) {
    const Json planned = plan(options + hosts).at("ranks").at(0);
    std::int64_t bytes = 0;
    for (const Json& each : planned.at("bytes_to_other_hosts")) bytes += each.get<std::int64_t>();
    return bytes;
  };
  std::int64_t sent = 0;  // an all-reduce sends half of it twice, others half
  const Json rank = plan(options).at("ranks").at(0);
  for (const Json& each : rank.at("collectives")) {
    if (each.at("axes") != std::vector<std::string>{"dp"}) continue;
    sent += each.at("bytes").get<std::int64_t>() / (each.at("kind") == "all_reduce" ? 1 : 2);
  }
  CHECK(sent > 0);
  CHECK(across("") == 0);
  CHECK(across(" --ranks-per-host 4") == 0);
  CHECK(across(" --ranks-per-host 2") >= sent);
  CHECK(across(" --ranks-per-host 2") <= sent + 100);  // a few numbers go along both axes
  CHECK(across(" --ranks-per-host 1") > across(" --ranks-per-host 2"));
}

TEST_CASE("a control group's limit of memory counts, of both versions, and of the groups around it") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("shardwise-groups-" + std::to_string(::getpid()));
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  const auto limit = [&](const std::string& groups) {
    write("groups", groups);
    return tools::memory_limit(root / "groups", root / "tree");
  };
  const tools::MemoryLimit host = tools::memory_limit(root / "none", root / "none");
  CHECK(host.bytes > 1e8);
  CHECK(host.control_group.empty());
  // Version 2
  write("tree/job/task/memory.max", "max\n");
  CHECK(limit("0::/job/task\n").bytes == host.bytes);
  write("tree/job/memory.max", "5000000\n");
  CHECK(limit("0::/job/task\n").bytes == 5e6);
  CHECK(limit("0::/job/task\n").control_group == (root / "tree/job").string());
  write("tree/job/task/memory.max", "4000000\n");
  CHECK(limit("0::/job/task\n").bytes == 4e6);
  CHECK(limit("0::/other\n").bytes == host.bytes);
  // Version 1, alone and beside version 2
  write("tree/memory/job/memory.limit_in_bytes", "3000000\n");
  write("tree/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(limit("5:cpu,cpuacct:/\n4:memory:/job\n1:name=systemd:/a:b\n").bytes == 3e6);
  CHECK(limit("4:hugetlb,memory:/job/deeper\n0::/job/task\n").bytes == 3e6);
  CHECK(limit("4:memory:/\n0::/\n").bytes == host.bytes);
  // A container that sees its own group as the root, but is told the name that it has outside
  write("tree/memory.max", "2000000\n");
  CHECK(limit("0::/docker/0123\n").bytes == 2e6);
  CHECK(limit("nonsense\n").bytes == host.bytes);
  fs::remove_all(root);
}

TEST_CASE("a save in the background copies what a rank writes to a checkpoint") {
  const std::string small =
      "--features 16 --heads 2 --kv-heads 2 --hidden 24 --layers 2 --vocabulary 32 --context 8 ";
  const auto saved = [&](const std::string& options) {
    return plan(small + options).at("ranks")[0].at("saved_bytes").get<std::int64_t>();
  };
  const std::int64_t count = plan(small).at("model").at("parameters").get<std::int64_t>();
  CHECK(saved("--zero 0") == 12 * count);         // and two moments
  CHECK(saved("--zero 0 --bf16") == 14 * count);  // in float, as is a master
  for (const char* zero : {"0", "1", "2", "3"})
    CHECK(saved(std::string("--dp 2 --zero ") + zero) == 6 * count);  // each rank a half
  const std::string text = printed(small + "--save --zero 3 --dp 2");
  CHECK(text.find("rank 0 with the copy of a save in the background: ") != std::string::npos);
  CHECK(printed(small).find("with the copy") == std::string::npos);
}
