// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What the program `plan` refuses.

#include <array>
#include <cstdio>
#include <cstdlib>

#include "refusals.hpp"

namespace {

const std::string small_plan =
    "--features 16 --heads 2 --kv-heads 2 --hidden 24 --layers 2 --vocabulary 32 --context 8 --tp 2 ";
const std::string search =
    "--search --ranks 4 --features 16 --heads 2 --kv-heads 2 --hidden 24 --layers 2 --vocabulary 32 "
    "--context 8 ";

/// The program fails, and says all that is expected.
void check_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.options);
    CAPTURE(refusal.expected);
    FILE* output = popen((PLAN " " + refusal.options + " 2>&1").c_str(), "r");
    REQUIRE(output != nullptr);
    std::string text;
    std::array<char, 4096> part;
    while (const std::size_t count = std::fread(part.data(), 1, part.size(), output))
      text.append(part.data(), count);
    const int status = pclose(output);
    CAPTURE(text);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != 0);
    CHECK(matches(text, refusal.expected));
  }
}

}  // namespace

TEST_CASE("plan refuses values that no option has") {
  check_refused({
      {small_plan + "--recompute some", "some is neither .all. nor a number of layers"},
      {small_plan + "--embedding rows",
       "--embedding is rows, expected one of vocabulary, features, replicated"},
      {small_plan + "--zero 0 --lora-rank -1", "--lora-rank is -1, expected a whole number from 0 to 65536"},
      {"--pp 65536", "--pp is 65536, expected a whole number from 1 to 512"},
      {"--model 71b",
       "--model is 71b, expected one of small, 1b, 3b, 7b, 8b, 13b, llama2-70b, 70b, 405b, qwen2.5-7b, "
       "qwen3-0.6b, qwen3-4b, qwen3-32b, mixtral-8x7b, qwen3-30b-a3b, deepseek-v3, gemma2-2b, gemma3-1b"},
      {"--model mixtral-8x7b --balance nan",
       "--balance: nan is not a number, expected a number from 0 to 1e"},
      {"--memory 1.5MiB", "--memory: 1.5MiB: expected a whole number of bytes, or of a unit"},
      {"--communicate-as bfloat16 half", "--communicate-as is half, expected one of float, bfloat16"},
      {"--zero 4", "--zero is 4, expected a whole number from 0 to 3"},
  });
}

TEST_CASE("plan refuses options that do not go together") {
  check_refused({
      {small_plan + "--memory 1GiB --recompute", "--recompute does not go with --memory"},
      {small_plan + "--zero 0 --optimizer muon --lora-rank 8",
       "--optimizer muon does not go with --lora-rank"},
      {small_plan + "--zero 0 --embedding features --sp",
       "--embedding features goes with --zero 0, and without --sp"},
      {small_plan + "--zero 2 --embedding replicated", "--embedding replicated goes with --zero 0 or 1"},
      {small_plan + "--zero 0 --embedding features --tied",
       "--embedding features: a tied head needs --embedding vocabulary"},
      {small_plan + "--zero 2 --lora-rank 8", "--lora-rank goes with --zero 0 or 1"},
      {small_plan + "--lora-layers 1", "--lora-layers are those with adapters: --lora-rank"},
      {small_plan + "--lora-rank 8 --lora-layers 3", "--lora-layers 3: the model has 2 layers"},
      {small_plan + "--freeze-layers 3", "--freeze-layers 3: the model has 2 layers"},
      {small_plan + "--freeze-layers 1 --zero 3 --tied",
       "--freeze-layers does not go with --zero 3 if the head is tied"},
      {small_plan + "--freeze-layers 1 --optimizer muon --tied",
       "--freeze-layers does not go with --optimizer muon if the head is tied"},
      {small_plan + "--freeze-layers 2 --optimizer muon",
       "--freeze-layers does not go with --optimizer muon if all layers are frozen"},
      {small_plan + "--freeze-layers 1 --lora-rank 8",
       "--freeze-layers does not go with --lora-rank, which freezes all layers: see --lora-layers"},
      {"--model mixtral-8x7b --zero 3", "--zero 2 and 3 do not go with a model that has experts"},
      {"--model mixtral-8x7b --zero 1 --lora-rank 4",
       "--lora-rank for a model with experts goes with --zero 0"},
      {"--model mixtral-8x7b --zero 0 --token-dispatcher alltoall",
       "--token-dispatcher alltoall goes with --zero 1"},
      {"--model small --zero 1 --token-dispatcher alltoall",
       "--token-dispatcher is for a model with experts"},
      {"--model small --zero 1 --bias-rate 0.001", "this model has no experts"},
      {"--experts-per-token 2", "are for a model with experts: --experts"},
      {"--decode --layers 2 --features 64 --heads 2 --hidden 96 --vocabulary 64 --context 8 --dp 2",
       "--dp does not go with --decode"},
      {"--weight-bits 8", "--weight-bits needs --decode"},
      {small_plan + "--speeds nowhere",
       "--speeds: nowhere is neither a file nor one of epyc-10g, epyc-100g, xeon, laptop"},
      {search + "--batch 4 --speeds xeon --ranks-per-host 2", "--speeds: .* no speed across hosts"},
  });
}

TEST_CASE("plan refuses models and meshes that cannot be") {
  check_refused({
      {small_plan + "--memory 1KiB",
       "--memory: the limit is 1.00 KiB, but whatever layers are recomputed, a step needs [0-9.]+ KiB, which "
       "are [0-9]+ bytes, on a rank\n"},
      {"--micro-batches 16777216",
       "1 stages and 16777216 micro-batches are 16777216 passes in a step, of at most 65536"},
      {"--model-config nowhere/config.json", "shardwise-plan: nowhere/config.json: cannot be opened"},
      {"--model small --zero 0 --experts 1",
       "a layer has --experts 1, expected at least as many as each token uses: --experts-per-token 2"},
      {"--model small --zero 0 --experts 4 --experts-per-token 1",
       "so the weight of one is always 1 and the router learns nothing; expected 2 or more"},
      {"--model gemma2-2b --experts 4", "no family of Hugging Face's models has these"},
      {"--heads 2 --kv-heads 1 --tp 4", "2 heads cannot be shared by the 4 ranks of axis tp x kvr"},
      {"--heads 7 --kv-heads 7", "--features 4096 is not a multiple of --heads 7"},
      {"--features 12 --heads 4", "--features 12 is not a multiple of two times --heads 4"},
      {"--heads 32 --kv-heads 3", "--heads 32 is not a multiple of --kv-heads 3"},
      {"--batch 10 --micro-batches 3", "--batch 10 is not a multiple of --micro-batches 3"},
      {"--dp 4 --rank 4", "--rank 4: the mesh has 4 ranks"},
      {"--dp 4 --coordinates 0 0 4 0 0 0",
       "--coordinates: there is no dp 4, the mesh is pp 1 x replica 1 x dp 4 x tp 1 x kvr 1"},
      {"--dp 65536 --replicas 65536", "the mesh has more than 2147483647 ranks"},
      {"--model 405b --batch 16777216", "FLOP on a rank: too many to count"},
      {"--dp 2 --draw nowhere/step.html",
       "shardwise-plan: nowhere/step.html.tmp-sw[0-9]+: cannot be created"},
  });
}

TEST_CASE("plan refuses files of speeds that lack what it needs, or have what it does not know") {
  const TestFiles files;
  const std::string one_host = files.write("one_host.json", speeds_text(R"(, "within": 5e9)")),
                    alone = files.write("alone.json", speeds_text(""));
  check_refused({
      {small_plan + "--dp 2 --ranks-per-host 2 --speeds " + one_host,
       "--speeds: the file has no speed across hosts: measure on several hosts"},
      {small_plan + "--speeds " + alone,
       "--speeds: the file has no speed within a host: measure with several ranks on it"},
      {small_plan + "--speeds " + files.write("missing.json", R"({"flops_float32": 1e11})"),
       "missing.json: flops_bfloat16: it is missing, expected a positive number"},
      {small_plan + "--speeds " + files.write("zero.json", speeds_text(R"(, "across": 0)")),
       "zero.json: across: it is 0, expected a positive number"},
      {small_plan + "--speeds " + files.write("overlap.json", speeds_text(R"(, "overlap": 1.5)")),
       "overlap.json: overlap: it is 1.5, expected at most 1"},
      {small_plan + "--speeds " + files.write("unknown.json", speeds_text(R"(, "acros": 1e9)")),
       "unknown.json: .*acros.*: there is no such speed"},
      {"--decode --layers 2 --features 64 --heads 2 --hidden 96 --vocabulary 64 --context 8 --weight-bits 4 "
       "--speeds " +
           one_host,
       "--speeds: the file has no speed of weights in 4 bits: measure again"},
  });
}

TEST_CASE("plan finds no plan") {
  const TestFiles files;
  const std::string speeds = " --speeds " + files.write("one_host.json", speeds_text(R"(, "within": 5e9)"));
  check_refused({
      {search + "--batch 4 --memory 1KiB" + speeds, "52 plans need more than 1.00 KiB. the smallest one:"},
      {search + "--batch 4 --memory 1KiB" + speeds, "--search: no plan is possible"},
      {search + "--batch 2 --memory 1KiB" + speeds,
       "28 not possible: a batch of 2 sequences cannot be divided into 4 parts"},
      {search + speeds, "--search needs --batch, the sequences of a step"},
      {search + "--batch 4" + speeds + " --tp 2", "--tp does not go with --search"},
  });
}
