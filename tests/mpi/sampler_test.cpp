// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The data of a training run on many ranks: every mesh gets the same batches, every rank reads its own rows, and
/// corpora are opened, or refused, by all ranks together.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <shardwise/llm/data/json_lines.hpp>
#include <shardwise/llm/data/load_batch.hpp>
#include <shardwise/llm/data/open_token_corpus.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/ops.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>

#include "scratch_folder.hpp"

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::Replicate;
using sw::Shard;
using sw::tp;
using sw::llm::BatchOptions;
using sw::llm::BatchSampler;
using sw::llm::LastBatch;

namespace {

/// A second axis of data parallelism.
struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};

/// Position i is token i mod 50; remembers from where it was read.
struct Counting {
  Index count;
  std::multiset<Index>* read = nullptr;

  constexpr Index size() const { return count; }
  void copy(Index begin, std::span<std::int32_t> to) const {
    REQUIRE(begin + static_cast<Index>(to.size()) <= count);
    if (read) read->insert(begin);
    for (auto& token : to) token = static_cast<std::int32_t>(begin++ % 50);
  }
};

/// A corpus whose tokens do not matter.
struct Imagined {
  Index count;
  constexpr Index size() const { return count; }
  constexpr void copy(Index, std::span<std::int32_t>) const {}
};

// ---- On a dry mesh, in the compiler ----

template <class MeshType>
constexpr bool as_on_a_real_mesh(const typename MeshType::SizesOf& sizes,
                                 const typename MeshType::SizesOf& coordinates, Index rows) {
  bool same = false;
  const BatchSampler sampler(
      1000, {.length = 8, .batch = 14, .micro_batches = 2, .seed = 1, .last = LastBatch::pad});
  sw::trace<MeshType>(
      sizes,
      [&](const MeshType& mesh) {
        const auto batch = sw::llm::load_batch(mesh, Imagined{1000}, sampler, 8, 1);
        same = batch.inputs.shape() == sw::Shape<2>{7, 8} &&
               batch.targets.local_shape() == sw::Shape<2>{rows, 8} && batch.counted == sampler.counted(8);
      },
      coordinates);
  return same;
}
static_assert(as_on_a_real_mesh<sw::Mesh<dp, tp>>({2, 2}, {0, 1}, 4));
static_assert(as_on_a_real_mesh<sw::Mesh<dp, tp>>({2, 2}, {1, 0}, 3));
static_assert(as_on_a_real_mesh<sw::Mesh<tp>>({2}, {1}, 7));
static_assert(as_on_a_real_mesh<sw::Mesh<replica, tp, dp>>({2, 1, 2}, {1, 0, 1}, 1));

static_assert(std::same_as<sw::llm::TokenIds<sw::Mesh<dp, sw::cp>>,
                           sw::Tensor<std::int32_t, 2, sw::Mesh<dp, sw::cp>, Shard<0>, Shard<1>>>);
static_assert(std::same_as<sw::llm::DocumentNumbers<sw::Mesh<dp, sw::cp>>,
                           sw::Tensor<std::int32_t, 2, sw::Mesh<dp, sw::cp>, Shard<0>, Replicate>>);
static_assert(
    std::same_as<sw::llm::TokenIds<sw::Mesh<replica, tp, dp>>,
                 sw::Tensor<std::int32_t, 2, sw::Mesh<replica, tp, dp>, Shard<0>, Replicate, Shard<0>>>);

// ---- Batches ----

using Ids = Eigen::Matrix<std::int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
struct Whole {
  Ids inputs, targets;
};

/// A micro-batch, from the definition: no tensor, no mesh.
Whole expected(const BatchSampler& sampler, Index step, Index micro) {
  const auto& options = sampler.options();
  Whole whole{
      Ids::Zero(sampler.micro_batch(), options.length),
      Ids::Constant(sampler.micro_batch(), options.length, static_cast<std::int32_t>(options.ignore_index))};
  Index row = 0;
  for (const auto sequence : sampler.sequences(step, micro)) {
    for (Index i = 0; sequence && i < options.length; ++i) {
      const Index position = *sequence * options.length + i;
      if (position + 1 >= sampler.tokens()) break;
      whole.inputs(row, i) = static_cast<std::int32_t>(position % 50);
      whole.targets(row, i) = static_cast<std::int32_t>((position + 1) % 50);
    }
    ++row;
  }
  return whole;
}

template <class MeshType>
void same_batches_on(const MeshType& mesh, const BatchSampler& sampler) {
  std::multiset<Index> read;
  const Counting corpus{sampler.tokens(), &read};
  for (Index step = 0; step < sampler.steps_per_epoch() + 2; ++step) {
    Index counted = 0;
    for (Index micro = 0; micro < sampler.options().micro_batches; ++micro) {
      read.clear();
      const auto batch = sw::llm::load_batch(mesh, corpus, sampler, step, micro);
      const Whole whole = expected(sampler, step, micro);
      const sw::Range own = batch.inputs.box().range(0);
      CHECK(batch.inputs.shape() == sw::Shape<2>{sampler.micro_batch(), sampler.options().length});
      const sw::Range positions = batch.inputs.box().range(1);
      const auto mine = [&](const Ids& all) {
        return Ids(all.block(own.begin, positions.begin, own.size, positions.size));
      };
      CHECK(batch.inputs.local() == mine(whole.inputs));
      CHECK(batch.targets.local() == mine(whole.targets));
      CHECK(sw::full_tensor(batch.inputs) == whole.inputs);  // so groups have all rows, and each row once
      CHECK(sw::full_tensor(batch.targets) == whole.targets);

      std::multiset<Index> own_begins;  // nothing else was read
      Index row = 0;
      for (const auto sequence : sampler.sequences(step, micro)) {
        if (sequence && row >= own.begin && row < own.end()) {
          own_begins.insert(*sequence * sampler.options().length);
        }
        ++row;
      }
      CHECK(read == own_begins);
      CHECK(batch.counted == sampler.counted(step));
      counted += (whole.targets.array() != static_cast<std::int32_t>(sampler.options().ignore_index)).count();
    }
    CHECK(counted == sampler.counted(step));
  }
}

template <class F>
void on_each_mesh(F f) {
  const int ranks = sw::world().size();
  for (int groups = 1; groups <= ranks; ++groups) {
    if (ranks % groups != 0) continue;
    f(sw::Mesh<dp, tp>(sw::world(), {groups, sw::any}));
    f(sw::Mesh<tp, dp>(sw::world(), {sw::any, groups}));
    f(sw::Mesh<replica, dp>(sw::world(), {groups, sw::any}));
    f(sw::Mesh<dp, sw::cp>(sw::world(), {groups, sw::any}));
    f(sw::Mesh<replica, tp, dp>(sw::world(), {groups, 1, sw::any}));
  }
  f(sw::Mesh<dp>(sw::world(), {sw::any}));
  f(sw::Mesh<tp>(sw::world(), {sw::any}));
}

}  // namespace

TEST_CASE("the same batches on every mesh, each rank its own rows") {
  for (const auto& options : {
           BatchOptions{.length = 6, .batch = 8, .micro_batches = 2, .seed = 1},
           BatchOptions{.length = 6, .batch = 8, .micro_batches = 2, .seed = 1, .last = LastBatch::pad},
           // 3 rows for up to 4 groups, and a mark of the caller's own
           BatchOptions{.length = 5,
           .batch = 9,
           .micro_batches = 3,
           .seed = 2,
           .last = LastBatch::pad,
           .ignore_index = -1},
       }) {
    on_each_mesh([&](const auto& mesh) { same_batches_on(mesh, BatchSampler(167, options)); });
  }
}

TEST_CASE("what the next step reads is asked for ahead") {
  struct Ahead : Counting {
    std::multiset<Index>* asked;
    void read_ahead(Index begin, Index tokens) const {
      CHECK(begin + tokens <= size());
      asked->insert(begin);
    }
  };
  const sw::Mesh<dp> mesh(sw::world(), {sw::any});
  std::multiset<Index> read, asked, before;
  const Ahead corpus{{100, &read}, &asked};
  const BatchSampler sampler(100, {.length = 6, .batch = 8, .micro_batches = 2, .last = LastBatch::pad});
  for (Index step = 0; step < 4; ++step) {
    read.clear();
    asked.clear();
    sw::llm::load_batch(mesh, corpus, sampler, step, 1);
    if (step > 0) CHECK(read == before);
    before = asked;
  }
}

TEST_CASE("a step's batch does not depend on the steps before") {
  const sw::Mesh<dp> mesh(sw::world(), {sw::any});
  const Counting corpus{1000};
  const BatchOptions options{.length = 4, .batch = 8, .seed = 6};
  std::vector<Ids> all;
  for (Index step = 0; step < 70; ++step) {
    all.push_back(
        sw::full_tensor(sw::llm::load_batch(mesh, corpus, BatchSampler(1000, options), step).inputs));
  }
  const BatchSampler again(1000, options);
  for (Index step = 40; step < 70; ++step) {
    CHECK(sw::full_tensor(sw::llm::load_batch(mesh, corpus, again, step).inputs) ==
          all[static_cast<std::size_t>(step)]);
  }
  CHECK(all[0] != all[1]);
  CHECK(all[0] != all[static_cast<std::size_t>(again.steps_per_epoch())]);  // the next epoch's first
}

TEST_CASE("sums of micro-batches over `counted` are the mean of the step") {
  const sw::Mesh<dp, tp> mesh(sw::world(), {sw::any, 1});
  constexpr Index tokens = 75, vocabulary = 50;
  const Counting corpus{tokens};
  BatchOptions options{.length = 5, .batch = 8, .seed = 3, .last = LastBatch::pad};
  const auto table = sw::randn<double, sw::Reduced, Replicate>(mesh, {vocabulary, vocabulary}, 1);
  const sw::CrossEntropyLoss mean, sum({.reduction = sw::Reduction::sum});
  auto loss = [&](const auto& criterion, const auto& batch) {
    return sw::item(criterion(sw::embedding(batch.inputs, table), batch.targets));
  };
  const BatchSampler whole(tokens, options);
  options.micro_batches = 4;
  const BatchSampler cut(tokens, options);
  bool ragged = false;
  for (Index step = 0; step < 2 * whole.steps_per_epoch(); ++step) {
    double accumulated = 0;
    for (Index micro = 0; micro < 4; ++micro) {
      const auto batch = sw::llm::load_batch(mesh, corpus, cut, step, micro);
      accumulated += loss(sum, batch) / static_cast<double>(batch.counted);
      ragged = ragged || batch.counted % 5 != 0;
    }
    const double direct = loss(mean, sw::llm::load_batch(mesh, corpus, whole, step));
    CHECK(std::abs(accumulated - direct) < 1e-12);
  }
  CHECK(ragged);
}

namespace {

/// Documents of different lengths, of which between one token and half is learned.
std::vector<sw::llm::TrainingDocument> dialogues(Index count) {
  std::vector<sw::llm::TrainingDocument> documents;
  for (Index i = 0; i < count; ++i) {
    const Index size = 3 + i * i % 11, learned = 1 + i % (size / 2);
    sw::llm::TrainingDocument document{{}, {{size - learned, learned}}};
    for (Index at = 0; at < size; ++at)
      document.tokens.push_back(static_cast<std::int32_t>((i * 7 + at * at) % 31));
    documents.push_back(std::move(document));
  }
  return documents;
}

/// The losses of the first steps of a run.
template <class MeshType>
std::vector<double> losses(const MeshType& mesh, const sw::llm::DocumentRows& rows,
                           const BatchOptions& options) {
  const BatchSampler sampler = rows.sampler(options);
  const sw::llm::LlamaConfig config{.vocabulary = 31,
                                    .features = 8,
                                    .layers = 1,
                                    .heads = 4,
                                    .kv_heads = 4,
                                    .hidden = 12,
                                    .context = 12,
                                    .deviation = 0.2};
  sw::llm::Llama<MeshType, sw::llm::LlamaTensorParallel<>, double> model(mesh, config);
  sw::initialize(model, 1);
  sw::AdamW adamw({.rate = 1e-2});
  const sw::LinearCrossEntropyLoss sum({.reduction = sw::Reduction::sum});
  std::vector<double> curve;
  for (Index step = 0; step < sampler.steps_per_epoch() + 2; ++step) {
    double loss = 0;
    for (Index micro = 0; micro < options.micro_batches; ++micro) {
      const auto batch = sw::llm::load_batch(mesh, rows, sampler, step, micro);
      sw::Tape tape;
      const auto part = sw::scale(model(tape.constant(batch.inputs), batch.targets, sum),
                                  1 / static_cast<double>(batch.counted));
      sw::backward_and_reduce(part, model, {.last = micro + 1 == options.micro_batches});
      loss += sw::item(part.value());
    }
    sw::clip_gradients(model, 1.0);
    adamw.step(model);
    curve.push_back(loss);
  }
  return curve;
}

}  // namespace

TEST_CASE("rows of documents are the same on every mesh") {
  const sw::llm::DocumentRows rows(dialogues(23), {.length = 12, .packed = true});
  const BatchSampler sampler = rows.sampler({.batch = 4, .micro_batches = 2, .last = LastBatch::pad});
  on_each_mesh([&](const auto& mesh) {
    Index epoch = 0;
    for (Index step = 0; step < sampler.steps_per_epoch(); ++step) {
      Index counted = 0;
      for (Index micro = 0; micro < 2; ++micro) {
        const auto batch = sw::llm::load_batch(mesh, rows, sampler, step, micro);
        Ids inputs(2, 12), targets(2, 12), documents(2, 12);
        Index row = 0;
        for (const auto number : sampler.sequences(step, micro)) {
          rows.copy(number, &inputs(row, 0), &targets(row, 0), &documents(row, 0));
          ++row;
        }
        CHECK(sw::full_tensor(batch.inputs) == inputs);
        CHECK(sw::full_tensor(batch.targets) == targets);
        CHECK(sw::full_tensor(*batch.documents) == documents);
        CHECK(batch.counted == rows.counted(sampler, step));
        counted += (targets.array() != -100).count();
      }
      CHECK(counted == rows.counted(sampler, step));
      epoch += counted;
    }
    Index all = 0;
    for (const auto& document : dialogues(23)) all += document.answers[0].size;
    CHECK(epoch == all);  // each answer once
  });
  const sw::Mesh<dp> mesh(sw::world(), {sw::any});
  CHECK_THROWS_WITH_AS(sw::llm::load_batch(mesh, rows, BatchSampler(100, {.length = 12, .batch = 2}), 0),
                       doctest::Contains("the sampler was made for 8 of 12"), std::invalid_argument);
}

TEST_CASE("a mix gives the same batches on every mesh") {
  const BatchOptions options{.length = 12, .batch = 6, .micro_batches = 2, .seed = 5};
  sw::llm::DocumentRows rows(dialogues(23), {.length = 12, .packed = true});
  rows.add(dialogues(5));
  const BatchSampler of_rows = rows.sampler(options, {1, 2}),
                     of_tokens({{200, 1}, {30, 2}, {61, 1}}, options);
  on_each_mesh([&](const auto& mesh) {
    for (Index step = 0; step < of_rows.steps_per_epoch() + 2; ++step) {
      for (Index micro = 0; micro < 2; ++micro) {
        const auto batch = sw::llm::load_batch(mesh, rows, of_rows, step, micro);
        const auto text = sw::llm::load_batch(mesh, Counting{291}, of_tokens, step, micro);
        Ids inputs(3, 12), targets(3, 12), documents(3, 12), first(3, 1);
        Index row = 0;
        for (const auto number : of_rows.sequences(step, micro)) {
          rows.copy(number, &inputs(row, 0), &targets(row, 0), &documents(row, 0));
          ++row;
        }
        CHECK(sw::full_tensor(batch.inputs) == inputs);
        CHECK(sw::full_tensor(batch.targets) == targets);
        CHECK(sw::full_tensor(*batch.documents) == documents);
        CHECK(batch.counted == rows.counted(of_rows, step));
        row = 0;
        for (const auto number : of_tokens.sequences(step, micro))
          first(row++, 0) = static_cast<std::int32_t>(of_tokens.inputs_of(*number).begin % 50);
        CHECK(sw::full_tensor(text.inputs).col(0) == first);
        CHECK(text.counted == 6 * 12);
      }
    }
  });
}

TEST_CASE("no division of the work changes the loss of answers") {
  for (const bool packed : {false, true}) {
    const sw::llm::DocumentRows rows(dialogues(29), {.length = 12, .packed = packed});
    const BatchOptions options{.batch = 12, .seed = 3, .last = LastBatch::pad};
    const auto expected = losses(sw::Mesh<dp, tp>(sw::self(), {1, 1}), rows, options);
    CHECK(expected.back() < expected.front());
    const int ranks = sw::world().size();
    for (const Index micro_batches : {1, 2, 3, 6}) {
      for (int groups = 1; groups <= ranks; ++groups) {
        if (ranks % groups != 0) continue;
        BatchOptions cut = options;
        cut.micro_batches = micro_batches;
        const auto curve = losses(sw::Mesh<dp, tp>(sw::world(), {groups, ranks / groups}), rows, cut);
        CAPTURE(micro_batches);
        CAPTURE(groups);
        REQUIRE(curve.size() == expected.size());
        for (std::size_t step = 0; step < curve.size(); ++step)
          CHECK(std::abs(curve[step] - expected[step]) < 1e-9);
      }
    }
  }
}

TEST_CASE("what cannot be loaded") {
  const sw::Mesh<dp> mesh(sw::world(), {sw::any});
  const BatchSampler sampler(100, {.length = 4, .batch = 6, .micro_batches = 2});
  CHECK_THROWS_WITH_AS(sw::llm::load_batch(mesh, Counting{99}, sampler, 0),
                       "load_batch: the corpus has 99 tokens, but the sampler was made for 100",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(sw::llm::load_batch(mesh, Counting{100}, sampler, -1),
                       "BatchSampler: step -1 is negative", std::invalid_argument);
  CHECK_THROWS_WITH_AS(sw::llm::load_batch(mesh, Counting{100}, sampler, 0, 2),
                       "BatchSampler: micro-batch 2 of 2", std::invalid_argument);
}

// ---- Corpora ----

namespace {

/// Bytes; counts the documents.
struct CountingBytes : sw::llm::ByteTokenizer {
  std::uint64_t number = 1;
  mutable int calls = 0;
  std::vector<std::int32_t> encode(std::string_view text) const {
    ++calls;
    if (text == "bad") throw std::invalid_argument("no such character");
    return sw::llm::ByteTokenizer::encode(text);
  }
  std::uint64_t fingerprint() const { return number; }
};

std::string text_of(const sw::llm::TokenCorpus& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, tokens);
  return sw::llm::ByteTokenizer{}.decode(tokens);
}

}  // namespace

TEST_CASE("one rank tokenises, all open") {
  const ScratchFolder folder;
  const auto a = folder.file("a", "first "), b = folder.file("b", "second");
  const auto cache = folder / "cache";
  const int rank = sw::world().rank();
  CountingBytes tokenizer;
  const auto made = sw::llm::open_token_corpus(sw::world(), {a, b}, tokenizer, cache);
  CHECK(text_of(made) == "first second");
  CHECK(tokenizer.calls == (rank == 0 ? 2 : 0));

  const sw::Mesh<dp, tp> mesh(sw::world(), {1, sw::any});
  const auto opened = sw::llm::open_token_corpus(mesh, {a, b}, tokenizer, cache);
  CHECK(text_of(opened) == "first second");
  CHECK(tokenizer.calls == (rank == 0 ? 2 : 0));
  CHECK(opened.fingerprint() == made.fingerprint());

  const auto memory = sw::llm::open_token_corpus(mesh, {a, b}, tokenizer);
  CHECK(text_of(memory) == "first second");
  CHECK(tokenizer.calls == (rank == 0 ? 4 : 2));
  CHECK(memory.fingerprint() == made.fingerprint());

  folder.file("b", "edited");
  CHECK(text_of(sw::llm::open_token_corpus(mesh, {a, b}, tokenizer, cache)) == "first edited");
  CHECK(tokenizer.calls == (rank == 0 ? 6 : 2));

  const BatchSampler sampler(opened.size(), {.length = 3, .batch = 2});
  const auto batch = sw::llm::load_batch(mesh, opened, sampler, 0);
  const sw::Range inputs = sampler.inputs_of(**sampler.sequences(0).begin());
  CHECK(batch.inputs.local()(0, 0) == opened[inputs.begin]);
  CHECK(batch.targets.local()(0, 2) == opened[inputs.begin + 3]);
}

TEST_CASE("what one rank cannot open, none opens, and all say why") {
  const ScratchFolder folder;
  const auto good = folder.file("good", "good"), bad = folder.file("bad", "bad");
  const int ranks = sw::world().size(), rank = sw::world().rank();
  const std::string last = " (rank " + std::to_string(ranks - 1) + ")";
  const bool is_last = rank == ranks - 1;
  const std::string task = "open_token_corpus: ";
  auto error = [&](const std::vector<std::filesystem::path>& paths, const CountingBytes& tokenizer,
                   const std::filesystem::path& cache) {
    return error_of([&] { sw::llm::open_token_corpus(sw::world(), paths, tokenizer, cache); });
  };
  const CountingBytes bytes;
  const std::string why = bad.string() + ": cannot be tokenised: no such character";
  CHECK(error({good, bad}, bytes, folder / "cache") == task + why + " (rank 0)");
  CHECK(error({good, bad}, bytes, {}) == task + why + (ranks == 1 ? " (rank 0)" : " (all ranks)"));
  CHECK(!std::filesystem::exists(folder / "cache"));

  // Nobody can write below a file, not even root.
  const std::string below_a_file = error({good}, bytes, bad / "cache");
  CHECK(has(below_a_file, "Not a directory"));
  CHECK(below_a_file.ends_with(" (rank 0)"));
  CHECK(has(error({good}, bytes, folder / "none" / "cache"),
            "cannot be created: No such file or directory (rank 0)"));
  const auto foreign = folder.file("foreign", "a letter");
  CHECK(error({good}, bytes, foreign) == task + foreign.string() + ": not a file of tokens (rank 0)");

  if (ranks == 1) return;
  // A host that does not see the file of rank 0, or sees another under its name.
  const auto elsewhere = is_last ? folder / "elsewhere" : folder / "cache";
  CHECK(error({good}, bytes, elsewhere) ==
        task + (folder / "elsewhere").string() + ": cannot be opened: No such file or directory" + last);
  if (is_last) sw::llm::open_token_corpus({bad, good}, sw::llm::ByteTokenizer{}, folder / "elsewhere");
  sw::world().barrier();
  CHECK(error({good}, bytes, elsewhere) ==
        task + (folder / "elsewhere").string() +
            ": not the file of rank 0; it must lie on a file system that all ranks share" + last);
  // Arguments that differ.
  CountingBytes mine;
  mine.number = is_last ? 2 : 1;
  CHECK(error({good}, mine, folder / "cache") == task + "another tokenizer than on rank 0" + last);
  CHECK(error({is_last ? folder.path() / "good" : good}, bytes, {}) == "no error");
  const auto other = folder.file("other", "other");
  CHECK(error({is_last ? other : good}, bytes, {}) ==
        task + "other tokens than on rank 0: the text differs" + last);
  CHECK(error({is_last ? folder / "none" : good}, bytes, {}) ==
        task + (folder / "none").string() + ": no such file or folder" + last);
  CHECK(error({good}, bytes, is_last ? std::filesystem::path() : folder / "cache") == "no error");
}

TEST_CASE("documents that one rank cannot read, none reads") {
  const ScratchFolder folder;
  const int ranks = sw::world().size();
  const bool is_last = sw::world().rank() == ranks - 1;
  const auto lines = folder.file("lines", "{\"text\": \"abc\"}\n"), bad = folder.file("bad", "{}"),
             other = folder.file("other", "{\"text\": \"abd\"}\n");
  const sw::Mesh<dp> mesh(sw::world(), {sw::any});
  auto error = [&](const std::filesystem::path& path) {
    return error_of([&] { sw::llm::read_json_lines(mesh, {path}, sw::llm::ByteTokenizer()); });
  };
  CHECK(error(lines) == "no error");
  const std::string last = " (rank " + std::to_string(ranks - 1) + ")";
  CHECK(error(is_last ? bad : lines) ==
        "read_json_lines: " + bad.string() +
            ":1: it is {}, expected an object with \"text\", with \"prompt\" and "
            "\"completion\", with \"messages\", with \"conversations\", or with \"instruction\" and "
            "\"output\"" +
            last);
  if (ranks > 1) {
    CHECK(error(is_last ? other : lines) ==
          "read_json_lines: other tokens than on rank 0: the text differs" + last);
  }
}
