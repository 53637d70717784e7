// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tables of pipeline schedules as CSV, and their proof.

#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>

#include "target.hpp"

namespace fuzz {

/// What is read is written, and read again as it is; a proof ends, for any table.
inline Target schedule() {
  using namespace shardwise;
  return {"schedule",
          {to_csv(gpipe(1, 1)), to_csv(gpipe(2, 2)), to_csv(with_messages(interleaved(2, 2, 2))),
           to_csv(with_messages(zb_v(2, 2))), to_csv(dualpipe_v(2, 4)), "0F0,,0B0\r\n,1F0,1B0"},
          [](std::string_view input) {
            PipelineSchedule schedule;
            try {
              schedule = from_csv(input);
            } catch (const std::invalid_argument& error) {
              require(std::string_view(error.what()).starts_with("schedule: "),
                      "the error says what was read");
              return;
            }
            require(from_csv(to_csv(schedule)) == schedule, "a schedule comes back as it was");
            const ScheduleProof proof = prove(schedule);
            require(static_cast<bool>(proof) == text_of(proof.problem).empty(), "a problem has words");
            try {
              const PipelineSchedule lowered = with_messages(schedule);
              require(proof && prove(lowered), "messages are added to what is proved");
            } catch (const std::invalid_argument&) {
              require(!proof, "and only to that");
            }
          }};
}

}  // namespace fuzz
