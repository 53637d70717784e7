// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plan and the price of one more token of a text.

#include "../common/speeds_file.hpp"
#include "../common/step_job.hpp"

namespace tools {

/// Prints the work of the rank that reads most, for the last token of a text that fills the model's context, and, if
/// `speeds` is not null, the tokens per second. The job has only stages (pp) and tensor parallelism (tp, kvr). Weights
/// have `bits` bits. Throws `std::invalid_argument` if a speed was not measured.
void print_token(const StepJob& job, int bits, const MeasuredSpeeds* speeds, bool json);

}  // namespace tools
