// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pipeline schedules as text in PyTorch's format (torch.distributed.pipelining: `_dump_csv`, `_load_csv`): one
/// line per rank with comma-separated actions: "0F0", "1SEND_B3", "(0F7;7B3)OVERLAP_F_B". An empty cell is a step
/// in which the rank is idle.

#include <algorithm>
#include <cstdint>

#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

/// One line per rank, without empty cells.
inline std::string to_csv(const PipelineSchedule& schedule) {
  std::string csv;
  for (const std::vector<Action>& actions : schedule.actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) csv += ',';
      if (actions[i].overlaps_next && i + 1 < actions.size()) {
        csv += "(" + text_of(actions[i]) + ";" + text_of(actions[i + 1]) + ")OVERLAP_F_B";
        ++i;
      } else {
        csv += text_of(actions[i]);
      }
    }
    csv += '\n';
  }
  return csv;
}

namespace detail {

/// Reads cells; errors state line, cell and text, both counted from 1.
class CsvReader {
 public:
  constexpr explicit CsvReader(std::string_view csv) : rest_(csv) {
    // A complete table has more actions than stages or micro-batches, so larger numbers are errors.
    for (char each : csv) largest_ += each == ',' || each == ';' || each == '\n';
  }

  constexpr PipelineSchedule read() {
    while (!rest_.empty()) {
      ++line_;
      std::string_view line = take_part(rest_, '\n');
      schedule_.actions.emplace_back();
      for (cell_ = 1; !line.empty(); ++cell_) read_cell(strip(take_part(line, ',')));
    }
    // Stages without a forward stay on rank 0, where `prove` reports them as missing.
    if (count_ < schedule_.stages() * static_cast<std::int64_t>(schedule_.micro_batches)) {
      fail({"schedule: ", schedule_.stages(), " stages and ", schedule_.micro_batches, " micro-batches, but ",
            count_, " actions only"});
    }
    return std::move(schedule_);
  }

 private:
  static constexpr std::string_view strip(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    return text.substr(0, text.find_last_not_of(" \t\r") + 1);
  }

  constexpr void read_cell(std::string_view text) {
    constexpr std::string_view overlap = ")OVERLAP_F_B";
    text_ = text;
    if (text.empty()) return;
    if (text.front() != '(') return read_action(text, false);
    if (!text.ends_with(overlap)) refuse();
    text.remove_prefix(1);
    text.remove_suffix(overlap.size());
    if (std::count(text.begin(), text.end(), ';') != 1) refuse();
    read_action(strip(take_part(text, ';')), true);
    read_action(strip(text), false);
  }

  constexpr void read_action(std::string_view text, bool overlaps_next) {
    const int stage = read_number(text);
    int number = 0;  // the number of a `Work`; no name is a prefix of another
    while (number < 8 && !text.starts_with(name_of(static_cast<Work>(number)))) ++number;
    if (number == 8) refuse();
    const Work work = static_cast<Work>(number);
    text.remove_prefix(std::string_view(name_of(work)).size());
    const int micro_batch = read_number(text);
    if (!text.empty()) refuse();

    const Action action{work, stage, micro_batch, overlaps_next};
    schedule_.actions.back().push_back(action);
    schedule_.micro_batches = std::max(schedule_.micro_batches, micro_batch + 1);
    while (schedule_.stages() <= stage) schedule_.rank_of_stage.push_back(0);
    if (action.work == Work::forward) at(schedule_.rank_of_stage, stage) = schedule_.ranks() - 1;
    ++count_;
  }

  constexpr int read_number(std::string_view& text) {
    std::size_t length = 0;
    int number = 0;
    for (; length < text.size() && text[length] >= '0' && text[length] <= '9'; ++length) {
      number = 10 * number + (text[length] - '0');
      if (number > largest_) refuse("a complete table with so many stages or micro-batches would be larger");
    }
    if (length == 0) refuse();
    text.remove_prefix(length);
    return number;
  }

  [[noreturn]] void refuse(const char* why = expected) const {
    fail({"schedule: line ", line_, ", cell ", cell_, ": \"", text_, "\": ", why});
  }
  static constexpr const char* expected =
      "expected a stage, one of F, B, I, W, SEND_F, RECV_F, SEND_B and RECV_B, and a micro-batch, as in "
      "0F3, or (0F7;7B3)OVERLAP_F_B";

  std::string_view rest_, text_{};
  PipelineSchedule schedule_{};
  int line_ = 0, cell_ = 0, largest_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace detail

/// The schedule with these lines, which may be any readable table: see `prove`. A stage is on the rank that has its
/// forwards. Empty cells are dropped. Throws `std::invalid_argument`, with line, cell and text, if it cannot be read.
constexpr PipelineSchedule from_csv(std::string_view csv) { return detail::CsvReader(csv).read(); }

}  // namespace shardwise
