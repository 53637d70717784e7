// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// speeds.json: the speeds that `shardwise-measure` finds and `shardwise-plan --speeds` reads; and speeds with names,
/// for those who have measured nothing.

#include <cmath>

#include <shardwise/inspect/speeds.hpp>
#include <shardwise/io/json.hpp>

namespace tools {

namespace sw = shardwise;

/// The speeds of machines; of computations for each element type.
struct MeasuredSpeeds {
  sw::Speeds float32{}, bfloat16{};  ///< of computations only
  sw::Speeds links{};  ///< `within` or `across` is infinite if no two ranks were on one host, or on two
  /// Bytes a second of weights in 32, 16, 8 and 4 bits, in products of one row; infinite if they were not measured.
  double weights_32bit = HUGE_VAL, weights_16bit = HUGE_VAL, weights_8bit = HUGE_VAL, weights_4bit = HUGE_VAL;
  double operation = 0;  ///< seconds of another operation on one token

  double weights(int bits) const {
    return bits == 4 ? weights_4bit : bits == 8 ? weights_8bit : bits == 16 ? weights_16bit : weights_32bit;
  }

  sw::Speeds of(bool bf16) const {
    const sw::Speeds& computing = bf16 ? bfloat16 : float32;
    sw::Speeds speeds = links;
    speeds.flops = computing.flops;
    speeds.attention = computing.attention;
    speeds.memory = computing.memory;
    return speeds;
  }
};

/// Calls f(name, value, required) for each speed.
template <class Speeds, class F>
void each_speed(Speeds& speeds, F f) {
  f("flops_float32", speeds.float32.flops, true);
  f("flops_bfloat16", speeds.bfloat16.flops, true);
  f("attention_float32", speeds.float32.attention, true);
  f("attention_bfloat16", speeds.bfloat16.attention, true);
  f("memory_float32", speeds.float32.memory, true);
  f("memory_bfloat16", speeds.bfloat16.memory, true);
  f("within", speeds.links.within, false);
  f("across", speeds.links.across, false);
  f("latency_within", speeds.links.latency, false);
  f("latency_across", speeds.links.latency_across, false);
  f("overlap", speeds.links.overlap, false);
  f("weights_32bit", speeds.weights_32bit, false);
  f("weights_16bit", speeds.weights_16bit, false);
  f("weights_8bit", speeds.weights_8bit, false);
  f("weights_4bit", speeds.weights_4bit, false);
  f("operation", speeds.operation, false);
}

/// Throws `std::runtime_error` that names the file and the entry, if a required one is missing, or one is unknown or
/// not a positive number, except an overlap of 0, or the
/// overlap is above 1.
inline MeasuredSpeeds read_speeds(const std::filesystem::path& file) {
  const sw::Json json = sw::read_json(file);
  const sw::JsonPart all(json, file.string() + ": ");
  MeasuredSpeeds speeds;
  std::vector<std::string> known;
  each_speed(speeds, [&](const char* name, double& value, bool required) {
    known.emplace_back(name);
    const sw::JsonPart entry = all[name];
    const bool may_be_zero = &value == &speeds.links.overlap;
    if (may_be_zero && entry.json() == 0) {
      value = 0;
    } else if (required || !entry.null()) {
      value = entry.positive_number();
    }
  });
  all.for_each_member([&](const std::string& name, const sw::JsonPart& entry) {
    if (std::find(known.begin(), known.end(), name) == known.end()) entry.fail("there is no such speed");
  });
  if (speeds.links.overlap > 1) all["overlap"].expected("at most 1");
  return speeds;
}

inline std::string speeds_json(const MeasuredSpeeds& speeds) {
  nlohmann::ordered_json json;
  each_speed(speeds, [&](const char* name, const double& value, bool) {
    if (std::isfinite(value) && value > 0) json[name] = value;
  });
  return json.dump(2) + "\n";
}

/// Speeds with a name, and their origin.
struct NamedSpeeds {
  std::string name, origin;
  MeasuredSpeeds speeds;
  double link = HUGE_VAL;  ///< bytes a second of a host's link, which its ranks share
};
/// Of a rank on one core, while all others compute too. Peaks of data sheets are never reached: steps take longer. An
/// AMD EPYC 7763 has 64 cores of 2.45 GHz, two units of 8 float32 each, and 8 channels of DDR4-3200; a Ryzen 7 7840U has
/// 8 cores of 3.3 GHz, the same units, and 2 channels of DDR5-5600.
inline std::vector<NamedSpeeds> known_speeds() {
  const auto data_sheet = [](const char* name, const std::string& machine, double hertz, double memory,
                             double link = HUGE_VAL, double latency_across = 0) {
    const double flops = hertz * 32;
    const MeasuredSpeeds speeds{
        .float32 = {.flops = flops, .attention = flops, .memory = memory},
        .bfloat16 = {.flops = flops, .attention = flops, .memory = memory},
        .links = {.within = memory / 2, .latency = 1e-5, .latency_across = latency_across},
        .weights_32bit = memory,
        .weights_16bit = memory,
        .weights_8bit = memory,
        .weights_4bit = memory};
    return NamedSpeeds{name, "data sheet of " + machine + "; a step takes longer", speeds, link};
  };
  const std::string epyc =
      "hosts with two AMD EPYC 7763, 128 ranks each unless --ranks-per-host is given, and links of ";
  return {
      data_sheet("epyc-10g", epyc + "10 Gbit/s", 2.45e9, 8 * 25.6e9 / 64, 1.25e9, 3e-5),
      data_sheet("epyc-100g", epyc + "100 Gbit/s", 2.45e9, 8 * 25.6e9 / 64, 12.5e9, 3e-6),
      {"xeon",
       "measured by shardwise-measure on 2 cores of an Intel Xeon with AMX, while other programs used them",
       {.float32 = {.flops = 33e9, .attention = 22e9, .memory = 4.5e9},
        .bfloat16 = {.flops = 124e9, .attention = 22e9, .memory = 2.9e9},
        .links = {.within = 0.63e9, .latency = 3.3e-6},
        .weights_32bit = 3.5e9,
        .weights_16bit = 3.4e9,
        .weights_8bit = 2.9e9,
        .weights_4bit = 2.6e9,
        .operation = 8.5e-6}},
      data_sheet("laptop", "an AMD Ryzen 7 7840U, 8 ranks", 3.3e9, 2 * 44.8e9 / 8)};
}

/// The speeds of this name, or those in this file. The ranks of a host share its link. Throws `std::runtime_error` as
/// `read_speeds` does.
inline NamedSpeeds speeds_of(const std::string& name, int ranks_per_host) {
  for (NamedSpeeds each : known_speeds()) {
    if (each.name != name) continue;
    if (each.link < HUGE_VAL)
      each.speeds.links.across = each.link / (ranks_per_host > 0 ? ranks_per_host : 128);
    return each;
  }
  return {name, "", read_speeds(name)};
}
/// For `CLI::Option::check`: an error, unless it is a name or a file.
inline std::string check_speeds(const std::string& name) {
  std::string names;
  for (const NamedSpeeds& each : known_speeds()) {
    if (each.name == name) return "";
    names += (names.empty() ? "" : ", ") + each.name;
  }
  return std::filesystem::exists(name) ? "" : name + " is neither a file nor one of " + names;
}

}  // namespace tools
