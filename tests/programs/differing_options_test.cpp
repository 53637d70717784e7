// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Options that differ between ranks, which are simulated: each program finds them at the start, whichever they are, and
/// names the first such rank and the option.

#include <cctype>

#include "refusals.hpp"
#include "simulated_program.hpp"

namespace {

struct Option {
  std::string name;
  bool takes_value = false;
};

/// Those of --help, such as "  -h,--help  print", "  --seed N  of the weights" and "  --format {a,b}  of the files".
std::vector<Option> options_of(Program& program) {
  std::istringstream help(ends_of(program, "--help", 1).printed);
  std::vector<Option> options;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  -")) continue;
    std::istringstream words(line);
    std::string names, value;
    words >> names >> value;
    if (names[1] != '-') names.erase(0, names.find(',') + 1);
    const std::string name = names.substr(0, names.find(','));
    if (name == "--help" || name == "--version" || name == "--config" || name == "--print-config") continue;
    std::size_t capitals = 0;
    while (capitals < value.size() && std::isupper(static_cast<unsigned char>(value[capitals]))) ++capitals;
    const bool whole = capitals == value.size() || !std::isalnum(static_cast<unsigned char>(value[capitals]));
    options.push_back({name, value.starts_with('{') || (capitals > 0 && whole)});
  }
  return options;
}

/// Rank 1 has other options than the others: every rank says so.
void check_differing(Program& program, int ranks, const std::string& common, const std::string& of_rank_1) {
  std::vector<std::string> options(static_cast<std::size_t>(ranks), common);
  options[1] = of_rank_1;
  CAPTURE(common);
  CAPTURE(of_rank_1);
  const Ends ends = ends_of(program, options);
  const auto said = [](const std::string& own, const std::string& other) {
    return own.empty() ? "no " + other.substr(0, other.find(' ')) : own;
  };
  const std::string expected =
      "programs differ: rank 1: " + said(of_rank_1, common) + ", rank 0: " + said(common, of_rank_1);
  for (const End& end : ends.of_ranks) {
    CHECK(end.code != 0);
    CHECK(end.error == expected);
  }
  CHECK(ends.printed == "");
}

void check_all_differing(Program& program, std::size_t least) {
  const std::vector<Option> options = options_of(program);
  CHECK(options.size() >= least);
  for (const int ranks : {2, 3})
    check_differing(program, ranks, "", "--wat");  // what rank 1 alone would refuse
  for (const auto& [name, takes_value] : options) {
    if (takes_value) {
      check_differing(program, 2, name + " 1", name + " 2");
      check_differing(program, 3, "", name + " 2");
    } else {
      check_differing(program, 2, "", name);
      check_differing(program, 3, name, "");
    }
  }
}

const std::string model =
    "--text include/shardwise/layout --layers 1 --features 16 --hidden 24 --context 32 --batch 4 "
    "--rate-schedule constant --warmup 2 ";
const std::string with_heads = model + "--heads 2 ";

}  // namespace

TEST_CASE("options that differ between ranks of train are found") {
  check_all_differing(tools::train_program, 70);
}
TEST_CASE("options that differ between ranks of generate are found") {
  check_all_differing(tools::generate_program, 18);
}
TEST_CASE("options that differ between ranks of evaluate are found") {
  check_all_differing(tools::evaluate_program, 7);
}

TEST_CASE("options in another order or notation are the same") {
  const std::pair<std::string, std::string> same[] = {
      {"--steps 1 --seed 3", "--seed 3 --steps 1"},
      {"--steps 1 --zero 1", "--steps 1 --zero=1"},
      {"--steps 1 --rate 1e-3 --clip 2", "--rate 0.001 --steps=1 --clip 2.0"},
      {"--steps 1 --sp --betas 0.9 0.95", "--betas 9e-1 .95 --sequence-parallel --steps 1"},
  };
  for (const auto& each : same) {
    succeeds(tools::train_program, {with_heads + each.first, with_heads + each.second});
  }
}

TEST_CASE("values that are nearly the same are not, nor are those of names") {
  struct Differing {
    std::string first, second, expected;
  };
  const Differing differing[] = {
      {"--steps 1 --seed 3", "--seed 4 --steps 1", "--seed 4, rank 0: --seed 3"},
      {"--steps 1 --rate 1e-3", "--rate 1e-4 --steps 1", "--rate 0?.?0*1(e-0?4)?, rank 0: --rate 0.001"},
      {"--seed 18446744073709551614 --steps 1", "--steps 1 --seed 18446744073709551615",
       "--seed 18446744073709551615, rank 0"},
      {"--seed 9007199254740993 --steps 1", "--steps 1 --seed 9007199254740992",
       "--seed 9007199254740992, rank 0"},
      {"--steps 1 --save 1.0", "--save 1 --steps 1", "--save 1, rank 0: --save 1.0"},
      {"--steps 1 --pad --seed 3", "--seed 3 --steps 1", "no --pad, rank 0: --pad"},
      {"--seed 3 --steps 1", "--wat --steps 1 --seed 3", "--wat, rank 0: no --wat"},
  };
  for (const Differing& each : differing) {
    CAPTURE(each.expected);
    for (const End& end :
         ends_of(tools::train_program, {with_heads + each.first, with_heads + each.second}).of_ranks) {
      CAPTURE(end.error);
      CHECK(end.code != 0);
      CHECK(matches(end.error, "programs differ: rank 1: " + each.expected));
    }
  }
}

TEST_CASE("an unknown option: the nearest one by its letters, or nothing") {
  for (const auto& [wrong, meant] :
       {std::pair{"--bathc", "batch"}, {"--weight_decay", "weight-decay"}, {"--tpp", "tp"}}) {
    const Ends ends = ends_of(tools::train_program, with_heads + wrong + " 1", 2);
    CHECK(ends.of_ranks[0].code != 0);
    CHECK(ends.printed.find(std::string("did you mean --") + meant + "?") != std::string::npos);
  }
  for (const std::string wrong : {"--xy", "--foo", "--no-such-thing"}) {
    const Ends ends = ends_of(tools::train_program, with_heads + wrong + " 1", 2);
    CHECK(ends.of_ranks[0].code != 0);
    CHECK(ends.printed.find(wrong) != std::string::npos);
    CHECK(ends.printed.find("did you mean") == std::string::npos);
  }
}

TEST_CASE("heads without their key/value heads") {
  for (const char* heads : {"1", "4", "8"})
    succeeds(tools::train_program, {model + "--steps 1 --heads " + heads});
}
