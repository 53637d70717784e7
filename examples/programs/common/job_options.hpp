// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The options shared by `train` and `plan`: the model, the mesh, and the division of work among ranks.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "step_job.hpp"

namespace CLI {
class App;
}

namespace tools {

/// The options as given; a missing size is the model's.
struct JobOptions {
  std::string model = "small";
  std::filesystem::path config{};
  std::optional<sw::Index> layers{}, features{}, heads{}, kv_heads{}, hidden{}, vocabulary{}, context{},
      batch{}, experts{}, experts_per_token{};
  std::optional<double> balance{};
  bool tied = false;
  int pp = 1, replicas = 1, cp = 1, tp = 1;
  bool are_jobs = false;  ///< replicas, of their own
  std::optional<int> dp{};
  sw::Index bucket_kib = 8 << 10;
  std::vector<std::string> communicate_as{};
  std::string embedding = embedding_names[0];
  std::string optimizer = "adamw", optimizer_state = "float";
  std::uint64_t memory = 0;  ///< bytes of a rank; 0: any number
  StepJob job{};             ///< all other options
};

void add_job_options(CLI::App& app, JobOptions& options);

/// The job, with `any_dp` if --dp is not given. Throws `std::invalid_argument` for an impossible model or mesh,
/// `std::runtime_error` for a config.json that cannot be read.
StepJob job_of(const JobOptions& options, int any_dp);

}  // namespace tools
