// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A training log's text, what is left of it when a run is resumed or the disk is full, and what is refused.

#include <sys/resource.h>

#include <csignal>
#include <limits>
#include <sstream>

#include <doctest/doctest.h>
#include <mpi/scratch_folder.hpp>
#include <shardwise/io/json.hpp>
#include <support/comma_locale.hpp>

#include "../../examples/programs/train/training_log.hpp"

namespace {

using tools::TrainingLog;
namespace sw = shardwise;
namespace fs = std::filesystem;

bool writes() { return sw::world().rank() == 0; }

void add_steps(TrainingLog& log, std::int64_t begin, std::int64_t end) {
  for (std::int64_t step = begin; step < end; ++step) {
    log.add({.step = step, .loss = 4.0 / static_cast<double>(step + 1), .tokens = 64, .seconds = 0.5});
  }
}

/// The run lines' `first_step` as "r3", the steps as "3", in the order of the file.
std::string outline(const fs::path& path) {
  std::istringstream file(bytes_of_file(path));
  std::string text, order;
  while (std::getline(file, text)) {
    const sw::Json object = sw::parse_json(text, path.string());
    if (object.contains("run")) order += "r" + std::to_string(object["first_step"].get<int>()) + " ";
    if (object.contains("step")) order += std::to_string(object["step"].get<int>()) + " ";
  }
  return order;
}

/// What rank 0 throws; the others have nothing to complain of.
template <class F>
void check_error(F f, const std::string& expected) {
  const std::string error = error_of(f);
  CHECK(error == (writes() ? expected : "no error"));
}

TEST_CASE("the text of a log is that of training_log.jsonl, which plot_log_test.py reads") {
  const ScratchFolder folder;
  const sw::testing::CommaLocale comma;  // which JSON does not know
  const fs::path path = folder / "log.jsonl";
  {
    const double infinity = std::numeric_limits<double>::infinity();
    TrainingLog log(path, {{"mesh", {{"dp", 2}, {"tp", 4}}}, {"text", "caf\xc3\xa9, caf\xe9"}});
    log.add({0, 10.375, 1e-4, 7.5, 4096, 0.5});
    CHECK((!writes() || outline(path) == "r0 0 "));  // it is there at once
    log.add({1, 8.25, 2e-4, infinity, 4096, 0.25});
    log.add({2, -infinity, 3e-4, std::numeric_limits<double>::quiet_NaN(), 4096, 0});
    log.add({5, 6, 3e-4, 0.1, 8192, 2});
  }
  sw::world().barrier();
  CHECK(bytes_of_file(path) == bytes_of_file(TRAINING_LOG));
}

TEST_CASE("a resumed run leaves each step once") {
  const ScratchFolder folder;
  const fs::path path = folder / "log.jsonl";
  auto run = [&](std::int64_t first, std::int64_t end, const std::string& expected) {
    {
      TrainingLog log(path, {{"ranks", sw::world().size()}}, first);
      add_steps(log, first, end);
    }
    sw::world().barrier();
    CHECK(outline(path) == expected);
    sw::world().barrier();
  };
  run(0, 5, "r0 0 1 2 3 4 ");
  run(3, 6, "r0 0 1 2 r3 3 4 5 ");
  run(6, 7, "r0 0 1 2 r3 3 4 5 r6 6 ");
  run(3, 4, "r0 0 1 2 r3 3 ");  // the run that began there has left nothing
  run(0, 2, "r0 0 1 ");
  run(9, 9, "r0 0 1 r9 ");
  if (writes()) {
    std::ofstream(path, std::ios::app) << "{\"step\":11,\"loss\"";  // torn by a crash
    fs::create_symlink(path, folder / "link");
  }
  sw::world().barrier();
  const TrainingLog log(folder / "link", {}, 12);
  sw::world().barrier();
  CHECK(outline(path) == "r0 0 1 r9 r12 ");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);  // nothing temporary
}

TEST_CASE("a resumed run continues a table") {
  const ScratchFolder folder;
  const sw::testing::CommaLocale comma;
  const fs::path path = folder / "log.csv";
  {
    TrainingLog log(path, {{"ranks", 2}});
    add_steps(log, 0, 3);
    log.add_evaluation(3, std::numeric_limits<double>::infinity());
  }
  sw::world().barrier();
  const std::string head = "step,loss,rate,gradient_norm,tokens,tokens_per_second,seconds,held_out_loss\n",
                    first = "0,4.0,0.0,0.0,64,128.0,0.5,\n", second = "1,2.0,0.0,0.0,64,128.0,0.5,\n",
                    third = "2,1.3333333333333333,0.0,0.0,64,128.0,0.5,\n";
  CHECK(bytes_of_file(path) == head + first + second + third + "3,,,,,,,inf\n");
  sw::world().barrier();
  if (writes()) std::ofstream(path, std::ios::app) << "4,1.5,0.0,0.0,64,128.0,0.5,";  // torn by a crash
  sw::world().barrier();
  {
    TrainingLog log(path, {}, 5);
    sw::world().barrier();
    CHECK(bytes_of_file(path) == head + first + second + third + "3,,,,,,,inf\n");
    sw::world().barrier();  // before the next log cuts the file
  }
  TrainingLog log(path, {}, 1);
  log.add({.step = 1, .loss = 2, .tokens = 64, .seconds = 0.5});
  sw::world().barrier();
  CHECK(bytes_of_file(path) == head + first + second);
}

TEST_CASE("one run at a time writes events into a folder") {
  const ScratchFolder folder;
  if (!writes()) return;
  const fs::path path = folder / "events" / "";
  const auto files = [&] { return std::distance(fs::directory_iterator(path), {}); };
  std::optional<TrainingLog> log(std::in_place, path, TrainingLog::Json());
  CHECK(has(error_of([&] { TrainingLog(folder / "events", {}); }), "events: another run writes it"));
  CHECK(files() == 1);
  log.reset();
  log.emplace(folder / "events", TrainingLog::Json(), 3);
  CHECK(files() == 2);
  CHECK_THROWS_AS(log->add({.step = 2}), std::invalid_argument);
}

TEST_CASE("steps ascend") {
  const ScratchFolder folder;
  TrainingLog log(folder / "log.jsonl", {}, 3);
  const std::string name = (folder / "log.jsonl").string();
  CHECK_THROWS_WITH_AS(log.add({.step = 2}),
                       (name + ": step 2 is logged, but step 3 or a later one was expected").c_str(),
                       std::invalid_argument);
  add_steps(log, 3, 5);
  CHECK_THROWS_AS(log.add({.step = 4}), std::invalid_argument);
  sw::world().barrier();
  CHECK(outline(folder / "log.jsonl") == "r3 3 4 ");
}

TEST_CASE("what is no log, or cannot be written, is named, and stays as it was") {
  const ScratchFolder folder;
  const std::string notes = "{\"run\":{},\"first_step\":0}\nwhat I did\n{\"step\":1}\n";
  const fs::path path = folder.file("notes.txt", notes);
  check_error([&] { TrainingLog(path, {}, 5); }, path.string() + ":2: not a line of a training log");
  sw::world().barrier();
  CHECK(bytes_of_file(path) == notes);
  for (const char* text : {"what I did", "17", "[]\n{}\n", "{\"step\":\"3\"}\n", "{\"step\":1.5}\n"}) {
    const fs::path other = folder.file("other.txt", text);
    check_error([&] { TrainingLog(other, {}); }, other.string() + ":1: not a line of a training log");
    sw::world().barrier();
    CHECK(bytes_of_file(other) == text);
    sw::world().barrier();
  }
  const fs::path table = folder.file("table.csv", "x,y\n1,2\n");
  check_error([&] { TrainingLog(table, {}, 5); },
              table.string() + ":1: not the first line of a training log");
  sw::world().barrier();
  CHECK(bytes_of_file(table) == "x,y\n1,2\n");
  check_error([] { TrainingLog("/dev/null", {}); }, "/dev/null: not a regular file");
  if (writes()) CHECK(has(error_of([&] { TrainingLog(folder / "no" / "log", {}); }), "/no/log.tmp-"));
}

TEST_CASE("a full disk is an error, and leaves whole lines") {
  const ScratchFolder folder;
  const fs::path path = folder / "log.jsonl";
  if (writes()) {  // a limit on the size of files stands for the disk: a part of a line still fits
    TrainingLog log(path, {});
    CHECK(error_of([&] { TrainingLog(path, {}); }) == path.string() + ": another run writes it");
    add_steps(log, 0, 2);
    const fs::path other = folder / "other.jsonl";
    fs::copy_file(path, other);
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{fs::file_size(path) + 40, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string error = error_of([&] { add_steps(log, 2, 3); });
    const std::string again = error_of([&] { TrainingLog(other, {{"text", std::string(1000, 'x')}}, 2); });
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(error == path.string() + ": cannot be written: File too large");
    CHECK(has(again, other.string()));
    CHECK(has(again, "File too large"));
    CHECK(outline(path) == "r0 0 1 ");
    CHECK(outline(other) == "r0 0 1 ");
    add_steps(log, 3, 4);
    CHECK(outline(path) == "r0 0 1 3 ");
  }
}

}  // namespace
