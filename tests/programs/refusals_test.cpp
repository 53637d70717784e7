// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What the programs `train`, `generate` and `evaluate` refuse: all ranks are simulated, and each of them refuses it. (How a job
/// ends then is the same for all, and tested with MPI.)

#include "refusals.hpp"

#include <functional>
#include <optional>

#include "../../examples/programs/common/trained_model.hpp"
#include "simulated_program.hpp"

namespace {

namespace fs = std::filesystem;

/// Every rank refuses, and says what is expected; errors of the command line are printed, once.
void check_refused(Program& program, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.options);
    CAPTURE(refusal.expected);
    const Ends ends = ends_of(program, refusal.options, refusal.ranks);
    for (const End& end : ends.of_ranks) {
      const std::string& text = end.error.empty() ? ends.printed : end.error;
      CAPTURE(text);
      CHECK(end.code != 0);
      CHECK(matches(text, refusal.expected));
    }
    const std::string hint = "Run with --help";
    CHECK(ends.printed.find(hint) == ends.printed.rfind(hint));
  }
}
void train_refuses(const std::vector<Refusal>& refusals) { check_refused(tools::train_program, refusals); }
void generate_refuses(const std::vector<Refusal>& refusals) {
  check_refused(tools::generate_program, refusals);
}

void evaluate_refuses(const std::vector<Refusal>& refusals) {
  check_refused(tools::evaluate_program, refusals);
}

void train(const std::string& options, int ranks = 2) {
  succeeds(tools::train_program, std::vector(static_cast<std::size_t>(ranks), options));
}

const std::string headless_model =
    "--text include/shardwise/layout --batch 4 --context 16 --layers 2 --features 32 ";
const std::string small_model = headless_model + "--heads 4 ";
const std::string small_train = small_model + "--hidden 48 --steps 3 ";
const std::string documents_train = "--layers 1 --features 32 --heads 4 --hidden 48 --steps 3 --batch ";

/// Three documents of 6, 2 and 2 tokens.
std::string lines_in(const TestFiles& files) {
  return files.write("lines.jsonl",
                     "{\"text\": \"abcdef\"}\n{\"text\": \"ab\"}\n"
                     "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
}
/// A mix of these with two others.
std::string mix_train(const TestFiles& files) {
  return "--layers 1 --features 32 --heads 4 --hidden 48 --batch 4 --context 8 --data " + lines_in(files) +
         " " + files.write("second:3.jsonl", "{\"text\": \"ghijkl\"}\n{\"text\": \"mn\"}\n") + " ";
}

/// For each line, options that name a file in which it is the third.
std::vector<Refusal> third_lines(const TestFiles& files, const std::string& options, const std::string& first,
                                 const std::vector<std::pair<std::string, std::string>>& lines) {
  std::vector<Refusal> refusals;
  for (const auto& line : lines) {
    const std::string path =
        files.write(std::to_string(refusals.size()) + "bad.jsonl", first + "\n\n" + line.first + "\n");
    refusals.push_back({options + path, "bad.jsonl:3: .*" + line.second});
  }
  return refusals;
}

/// A model whose tokens are bytes.
std::string bytes_model(const TestFiles& files) {
  const std::string folder = files.path("bytes");
  train(small_model + "--hidden 48 --steps 1 --export " + folder, 1);
  return folder;
}

/// A folder whose config.json has more layers than its weights.
std::string unlike(const TestFiles& files) {
  const fs::path folder = files.path("unlike");
  fs::create_directories(folder);
  fs::copy_file("tests/reference/uneven/model.safetensors", folder / "model.safetensors");
  std::ostringstream config;
  config << std::ifstream("tests/reference/uneven/config.json").rdbuf();
  std::string text = config.str();
  const std::string layers = "\"num_hidden_layers\": 2";
  REQUIRE(text.find(layers) != text.npos);
  text.replace(text.find(layers), layers.size(), "\"num_hidden_layers\": 60000");
  files.write("unlike/config.json", text);
  return folder;
}
const std::string differ =
    "config.json and the weights differ: .*model.layers.59999.self_attn.o_proj.weight.: there is no such "
    "tensor";

}  // namespace

// ---- train -------------------------------------------------------------------------------------------------------
TEST_CASE("train refuses options and values that it does not have") {
  const TestFiles files;
  const std::string mix = mix_train(files), weight =
                                                "--mix: the weight .*: expected a number from 0.000001 to "
                                                "1e9, with at most 6 decimals";
  train_refuses({
      {small_train + "--seed 18446744073709551616",
       "--seed: 18446744073709551616 is not a number from 0 to 18446744073709551615"},
      {small_train + "--seed 010", "--seed: 010 is not a number"},
      {small_train + "--modle small", "shardwise-train: --modle is not an option; did you mean --model\\?"},
      {small_train + "--zero 4", "--zero is 4, expected a whole number from 0 to 3"},
      {small_train + "--save " + files.path("none") + " --keep 1",
       "--keep is 1, expected a whole number from 2 to"},
      {small_train + "--steps 4", "--steps has the values 3 4, expected one N"},
      {small_train + "--steps", "--steps has no value, expected one N"},
      {small_train + "--clip -1", "--clip is -1, expected a number above 0"},
      {small_train + "more", "more: belongs to no option"},
      {mix + "--rate nan", "--rate: nan is not a number"},
      {mix + "--mix 1 nan", "--mix: nan is not a number"},
      {mix + "--mix 1 0", weight},
      {mix + "--mix 1 -2", weight},
      {mix + "--mix 1 1e10", weight},
      {mix + "--mix 1 0.0000001", weight},
      {mix + "--mix 1 1e308", weight},
      {mix + "--mix 1 1e-308", weight},
      {mix + "--mix 1e9 0.000001",
       "--mix: the weights as whole numbers .* have the sum 1000000000000001, expected at most 2147483647"},
      {mix + "--mix 1 2 --cache " + files.path(""), "--cache .*: a folder, expected the name of a file"},
  });
}

TEST_CASE("train refuses options that do not go together, or lack another one") {
  const TestFiles files;
  const std::string one_host = files.write("one_host.json", speeds_text(R"(, "within": 5e9)")),
                    no_template = files.write("no_template.jinja", "{% call f(x) %}{% endcall %}");
  const std::string lora = "--text include/shardwise/layout --from tests/reference/tied --lora-rank 8 ";
  train_refuses({
      {"--layers 1 --steps 3", "shardwise-train: nothing to learn from: give --text FILE, or --data FILE"},
      {small_train + "--plan best --tp 2 --speeds " + one_host, "--tp does not go with --plan"},
      {small_train +
           "--stream --local-steps 1 --replicas 2 --replica 0 --quorum a:1 --token none --interface lo",
       "--stream does not go with --quorum: a replica that takes the others' step"},
      {"--from nowhere --layers 3", "--layers does not go with --from"},
      {small_train + "--evaluate-every 2", "--evaluate-every needs --held-out or --validation"},
      {small_train + "--lora-rank 8", "--lora-rank adapts a model that is given: --from"},
      {small_train + "--freeze-layers 1", "--freeze-layers are those of a model that is given: --from"},
      {lora + "--merge", "--merge is for what is exported: --export or --export-best"},
      {small_train + "--merge", "--merge is for adapters: --lora-rank"},
      {small_train + "--format pytorch", "--format is for what is exported: --export or --export-best"},
      {small_train + "--export-best " + files.path("nowhere"),
       "--export-best needs --held-out or --validation"},
      {small_train + "--held-out 0.1 --export examples/none --export-best ./examples/none/.",
       "--export-best and --export are one folder, ./examples/none/."},
      {small_train + "--chat-template " + no_template, "--chat-template is for dialogues: give --data"},
      {small_train + "--packed", "--packed is for documents: give --data"},
      {mix_train(files) + "--mix 1", "--mix has 1 weights, but --data has 2 paths: expected one for each"},
      {small_model + "--hidden 48 --experts 5 --balance 0.1 --bias-rate 0.1",
       "--bias-rate is for experts with biases, as DeepSeek V3 has: this model has experts without"},
      {small_train + "--local-steps 3", "--local-steps are those of several replicas: --replicas"},
      {small_train + "--replicas 3 --local-steps 3",
       "--local-steps: --batch 4 is not a multiple of --replicas times --micro-batches, 3", 3},
      {small_train + "--replicas 2 --local-steps 2",
       "--steps 3 is not a multiple of --local-steps 2, after which replicas have one model"},
      {small_train + "--replicas 2 --local-steps 3 --held-out 0.1 --evaluate-every 2",
       "--evaluate-every 2 is not a multiple of --local-steps 3"},
  });
}

TEST_CASE("train refuses meshes, schedules and models that cannot be") {
  const TestFiles files;
  const std::string alone = files.write("alone.json", speeds_text(""));
  train_refuses({
      {small_train + "--dp 2", "--pp 1 --replicas 1 --dp 2 --tp 1 are 2 ranks, but the job has 3", 3},
      {small_train + "--tp 2", "--pp 1 --replicas 1 --tp 2 need a multiple of 2 ranks, but the job has 3", 3},
      {small_train + "--cp 2",
       "--pp 1 --replicas 1 --cp 2 --tp 1 need a multiple of 2 ranks, but the job has 3", 3},
      {headless_model + "--hidden 48 --steps 3 --tp 2 --heads 3",
       "--features 32 is not a multiple of --heads 3"},
      {headless_model + "--hidden 48 --steps 3 --tp 4 --heads 2 --kv-heads 1",
       "2 heads cannot be shared by the 4 ranks of axis tp x kvr", 4},
      {small_train + "--micro-batches 3", "--batch 4 is not a multiple of --micro-batches 3"},
      {small_train + "--pp 2 --schedule zb-h2",
       "there is no pipeline schedule \"zb-h2\". expected one of gpipe, 1f1b, interleaved, zb-h1"},
      {small_train + "--pp 2 --schedule zb-v --chunks 3",
       "schedule zb-v: it has 2 chunks on each rank, not 3"},
      {small_train + "--plan best --speeds " + alone,
       "--speeds: the file has no speed within a host: measure with several ranks on it"},
      {"--text include/shardwise/layout --batch 4 --context 64 --layers 4 --features 128 --heads 4 --hidden "
       "384 "
       "--steps 2 --pp 2 --micro-batches 2 --memory 1MiB",
       "--memory: the limit is 1.00 MiB, but whatever layers are recomputed, a step needs [0-9.]+ MiB, which "
       "are [0-9]+ bytes, on a rank at pp 0"},
      {"--text include/shardwise/layout --features 16384 --heads 128 --hidden 1048576 --layers 64 --context "
       "16",
       "a step takes [0-9.]+ [TP]iB on the ranks of this host, which has "},
  });
}

TEST_CASE("train refuses texts and documents that it cannot learn from") {
  const TestFiles files;
  const std::string lines = lines_in(files);
  const std::string no_lines = files.write("no_lines.jsonl", "{\"text\": \"a\"}\n{\"messages\": []}\n");
  const std::string no_template = files.write("no_template.jinja", "{% call f(x) %}{% endcall %}");
  train_refuses({
      {small_train + "--text nowhere.txt", "nowhere.txt: no such file or folder"},
      {"--text " + files.write("empty.txt", ""), "there is no text in .*empty.txt"},
      {"--text " + files.write("binary.txt", "text\1"), "binary.txt: not UTF-8 text: byte 0x01 at offset 4"},
      {"--text " + files.write("short.txt", "short"),
       "5 tokens make 0 sequences of 128 and a target, but a step needs 32"},
      {documents_train + "2 --data " + lines + " --context 4",
       "lines.jsonl:1: the document has 6 tokens, but a row of 4 takes 5"},
      {documents_train + "4 --data " + lines + " --context 8",
       "there are 3 rows, but a step needs 4, unless the last batch is padded"},
      {documents_train + "2 --data " + no_lines,
       "no_lines.jsonl:2: messages: a dialogue needs a chat template, and there is none"},
      {documents_train + "2 --data " + no_lines + " --chat-template " + no_template,
       "no_template.jinja.*\"call f.x.\" is not supported"},
      {"--data " + lines + " nowhere.jsonl --mix 3 1", "nowhere.jsonl: cannot be opened"},
  });
}

TEST_CASE("train refuses initial models that it cannot read") {
  const TestFiles files;
  const std::string from = "--text include/shardwise/layout --from ";
  train_refuses({
      {from + "nowhere", "nowhere/config.json: cannot be opened"},
      {from + "tests/reference/tied",
       "the model has 31 tokens, but without a tokenizer.json they are the 256 bytes"},
      {from + unlike(files), differ},  // before any memory is taken for layers that only config.json has
  });
}

TEST_CASE("train refuses folders and files that it cannot write") {
  const TestFiles files;
  const std::string file = files.write("short.txt", "short");
  train_refuses({
      {small_train + "--save /proc/none", "the folder of checkpoints /proc/none: .*rank 0"},
      {small_train + "--save " + file + "/below", "the folder of checkpoints .*short.txt/below: "},
      {small_train + "--export " + file, "this run: .*short.txt"},
      {small_train + "--trace " + fs::path(files.path("")).parent_path().string(),
       "shardwise-refusals-[0-9]+: not a regular file"},
  });
}

TEST_CASE("train refuses a step that makes no numbers") {
  train_refuses({
      {small_train + "--rate 1e30", "step [12]: .*NaN.* gradients in [0-9]+ of 21 parameters: "},
  });
}

TEST_CASE("train refuses to mix a run's checkpoints with those of another") {
  const TestFiles files;
  const std::string save = "--save " + files.path("checkpoints");
  train(small_train + save + " --zero 1");
  const std::string other = "step-00000003: of another run: ";
  train_refuses({
      {small_train + save, "step-00000003 is there already: give --resume"},
      {small_train + "--text include/shardwise/mesh --resume " + save,
       other + "\"text_files\" was .*/layout.*, and is .*include/shardwise/mesh"},
      {small_train + "--validation " + files.write("short.txt", "short") + " --resume " + save,
       other + "\"validation_files\" was null, and is .*/short.txt"},
      {small_model + "--hidden 40 --resume " + save,
       "tensor \"model.layers.0.mlp.gate.weight\": expected the shape .40 x 32., found .48 x 32."},
      {small_model + "--hidden 48 --steps 5 --pad --resume " + save,
       other + "\"pad\" was false, and is true"},
  });
}

TEST_CASE("train refuses checkpoints of another model with tensors of the same shapes") {
  const TestFiles files;
  const std::string keys =
      R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 1,)"
      R"( "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 48,)"
      R"( "max_position_embeddings": 16, "rope_theta": )";
  const std::string run = "--text include/shardwise/layout --batch 4 --steps 1 --save " +
                          files.path("saved") + " --resume --model-config ";
  train(run + files.write("first.json", keys + "10000.0}"));
  train_refuses({
      {run + files.write("other.json", keys + "500.0}"),
       "of another model: \"rope_theta\" was 10000.0, and is 500.0"},
  });
}

TEST_CASE("train refuses checkpoints of an optimizer whose state has another type") {
  const TestFiles files;
  const std::string run = small_model + "--hidden 48 --tied --resume --save " + files.path("saved");
  train(run + " --steps 1 --optimizer-state bf16");
  train_refuses({
      {run + " --steps 3", "tensor .optimizer.*first.: expected the type F32, found BF16", 3},
  });
}

TEST_CASE("train refuses checkpoints of another mix") {
  const TestFiles files;
  const std::string run = mix_train(files) + "--resume --save " + files.path("saved");
  train(run + " --steps 1 --mix 3 1", 1);
  train_refuses({
      {run + " --steps 6 --mix 3 2", "of another run: .mix. was .3,1., and is .3,2."},
  });
}

// ---- generate ----------------------------------------------------------------------------------------------------
TEST_CASE("generate refuses options that it does not have, or that do not go together") {
  const TestFiles files;
  const std::string tied = "--weights tests/reference/tied ";
  generate_refuses({
      {"--weights a --prompt b --dump-logits out.st",
       "--dump-logits: out.st, expected a name that ends in .safetensors"},
      {"", "--weights is missing: a folder with config.json"},
      {tied + "--wings", "--wings"},
      {tied + "--prompt a --tokens " + files.write("tokens.txt", "1 2\n3 30\n"),
       "--prompt does not go with --tokens"},
  });
}

TEST_CASE("generate refuses models and prompts that it cannot read") {
  const TestFiles files;
  const std::string tied = "--weights tests/reference/tied ",
                    tokens = files.write("tokens.txt", "1 2\n3 30\n");
  generate_refuses({
      {"--weights nowhere --prompt a", "nowhere/config.json: cannot be opened"},
      {"--weights " + unlike(files) + " --prompt a", differ},
      {tied + "--prompt a", "tokenizer.json is missing, and the model.s tokens are not bytes; give --tokens"},
      {tied + "--tokens " + files.write("no_tokens.txt", "1 31\n"),
       "no_tokens.txt: \"31\" is not a token id from 0 to 30"},
      {tied + "--tokens " + files.write("empty.txt", ""), "empty.txt: there is no token in it"},
      {tied + "--pp 2 --tokens " + tokens, "is 2 ranks, but the job has 3", 3},
      {tied + "--weight-bits 8 --tokens " + tokens, "is not a multiple of the 32 numbers of a block"},
  });
}

TEST_CASE("generate refuses a dialogue without a template") {
  const TestFiles files;
  generate_refuses({{"--weights " + bytes_model(files) + " --chat", "--chat needs a chat template"}});
}

TEST_CASE("generate refuses files of prompts") {
  const TestFiles files;
  const std::string model = "--weights " + bytes_model(files),
                    tied = "--weights tests/reference/tied --prompts ",
                    both = "expected either \"prompt\" or \"tokens\"";
  generate_refuses(
      third_lines(files, model + " --prompts ", R"({"prompt": "a"})",
                  {
                      {"{", "not JSON"},
                      {"[]", "expected an object"},
                      {"{}", both},
                      {R"({"prompt": "a", "tokens": [1]})", both},
                      {R"({"prompt": ""})", "the prompt is empty"},
                      {R"({"tokens": [1, 256]})", "token 256, but those of the model are 0 to 255"},
                      {R"({"tokens": [-1]})", "it is -1, expected"},
                      {R"({"prompt": 3})", "it is 3, expected a string"},
                      {R"({"prompt": "a", "max_tokens": 0})", "it is 0, expected an integer from 1"},
                      {R"({"prompt": "a", "temperature": -1})", "it is -1, expected a number, 0 or more"},
                      {R"({"prompt": "a", "seed": 1.5})", "it is 1.5, expected an integer"},
                      {R"({"prompt": "a", "stop": [3]})", "it is 3, expected a string"},
                      {R"({"prompt": "a", "stop": ""})", "a text that ends texts is empty"},
                      {R"({"prompt": "a", "max_token": 3})", "the key \"max_token\" is not supported"},
                  }));
  const std::string prompts = files.write("prompts.jsonl", "{\"tokens\": [1, 2, 3]}\n{\"prompt\": \"a\"}\n");
  generate_refuses({
      {model + " --prompts " + files.write("none.jsonl", "\n"), "it has no prompts"},
      {model + " --prompts " + files.path("nowhere"), "cannot be opened"},
      {tied + prompts, "prompts.jsonl:2: tokenizer.json is missing"},
      {tied + prompts + " --prompt a", "does not go with"},
  });
}

// ---- evaluate ----------------------------------------------------------------------------------------------------
TEST_CASE("evaluate refuses files of questions") {
  const TestFiles files;
  const std::string model = "--weights " + bytes_model(files) + " ";
  evaluate_refuses(third_lines(
      files, model + "--questions ", R"({"prompt": "a", "choices": ["b", "c"], "answer": 0})",
      {
          {"{", "not JSON"},
          {"[]", "expected an object"},
          {R"({"prompt": 3, "choices": ["b", "c"], "answer": 0})", "prompt: it is 3, expected a string"},
          {R"({"prompt": "a", "choices": "b", "answer": 0})", "choices: it is \"b\", expected a list"},
          {R"({"prompt": "a", "choices": ["b"], "answer": 0})", "expected two or more choices"},
          {R"({"prompt": "a", "choices": ["b", ""], "answer": 0})",
           "choices.1.: it is \"\", expected a text that is not empty"},
          {R"({"prompt": "", "choices": ["bc", "d"], "answer": 0})",
           "choices.1.: together with the prompt, it is a single token"},
          {R"({"prompt": "a", "choices": ["b", "c"], "answer": 2})",
           "answer: it is 2, expected an integer from 0 to 1"},
          {R"({"prompt": "a", "choices": ["b", "c"], "answer": "b"})",
           "answer: it is \"b\", expected an integer from 0 to 1"},
          {R"({"prompt": "a", "choices": ["b", "c"], "answer": 0, "label": 1})",
           "the key \"label\" is not supported"},
          {R"({"prompt": "a", "choices": ["b", "c"]})", "answer: it is missing"},
      }));
  evaluate_refuses({{model + "--questions " + files.write("none.jsonl", "\n"), "it has no questions"}});
}

TEST_CASE("evaluate refuses models and texts") {
  const TestFiles files;
  const std::string model = "--weights " + bytes_model(files) + " ", text = files.write("text.txt", "\n");
  evaluate_refuses({
      {model, "nothing to measure: give --text or --questions"},
      {model + "--text " + text, "there are 1 tokens in it, expected two or more"},
      {model + "--text nowhere.txt", "nowhere.txt: cannot be opened"},
      {model + "--text " + text + " --context 0", "--context"},
      {model + "--text README.md --pp 2", "is 2 ranks, but the job has 3", 3},
      {"--weights nowhere --text " + text, "nowhere/config.json: cannot be opened"},
      {"--weights tests/reference/tied --text " + text,
       "tokenizer.json is missing, and the model's tokens are not bytes"},
  });
}

// ---- Models ------------------------------------------------------------------------------------------------------
// Nearly all is refused before there is a model. So this program has the plain one only; the others take minutes to
// compile.
namespace tools {

template <class T, PlanSet Set>
std::unique_ptr<TrainedModel> make_trained_model(const Job&, const StepJob&, const TrainSettings&) {
  throw std::invalid_argument("this test has no such model");
}
#define NO_MODEL(TYPE, SET)                                                                                 \
  template std::unique_ptr<TrainedModel> make_trained_model<TYPE, PlanSet::SET>(const Job&, const StepJob&, \
                                                                                const TrainSettings&)
NO_MODEL(float, adapted);
NO_MODEL(float, frozen);
NO_MODEL(float, experts);
NO_MODEL(Eigen::bfloat16, dense);
NO_MODEL(Eigen::bfloat16, adapted);
NO_MODEL(Eigen::bfloat16, frozen);
NO_MODEL(Eigen::bfloat16, experts);

}  // namespace tools
