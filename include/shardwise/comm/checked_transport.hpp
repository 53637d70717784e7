// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A transport whose ranks compare each collective before they start it: mismatches that would hang or give wrong
/// numbers become errors on all ranks. Each collective costs one or two additional small ones.

#include <shardwise/base/bodies.hpp>
#include <shardwise/comm/host.hpp>
#include <shardwise/comm/transport.hpp>

namespace shardwise::detail {

inline bool checks_wanted() {
  static const bool wanted = environment_says("SHARDWISE_CHECK", "1", "0");
  return wanted;
}

class CheckedTransport final : public Transport {
 public:
  explicit CheckedTransport(std::shared_ptr<Transport> checked)
      : Transport(checked->rank(), checked->hosts()), checked_(std::move(checked)) {}

  const char* name() const noexcept override { return checked_->name(); }
  MPI_Comm native() const noexcept override { return checked_->native(); }
  bool checks() const noexcept override { return true; }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks, Hosts on) override {
    return std::make_shared<CheckedTransport>(checked_->subgroup(ranks, std::move(on)));
  }

  /// Both throw a `std::runtime_error` on all ranks if their calls differ.
  void run(const Call& call) override {
    check(call);
    checked_->run(call);
  }
  RequestState* begin(const Call& call) override {
    check(call);
    return checked_->begin(call);
  }
  /// Not checked here: the receiver of a message checks its label.
  RequestState* begin(std::shared_ptr<MessageList> messages, DataType type) override {
    return checked_->begin(std::move(messages), type);
  }

 private:
  void check(const Call& call);

  std::shared_ptr<Transport> checked_;
  Index calls_ = 0;
};

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/place_in_program.hpp>

namespace shardwise::detail {

SHARDWISE_INLINE void CheckedTransport::check(const Call& call) {
  const Communicator ranks(checked_);
  const auto refuse = [&](std::size_t one, std::size_t other, std::string_view what) {
    const std::string where = PlaceInProgram::here().text();
    const auto calls = ranks.all_gather(text_of(call) + (where.empty() ? "" : " at " + where));
    fail<std::runtime_error>({what, " ", calls_, ": rank ", other, " of these calls ", calls[other],
                              ", but rank ", one, " ", calls[one]});
  };
  ++calls_;
  if (!ranks.have_same(number_of(call))) {
    const Index number[]{std::bit_cast<Index>(number_of(call))};
    const std::vector<Index> numbers = ranks.all_gather(number);
    const auto unlike = std::ranges::adjacent_find(numbers, std::ranges::not_equal_to());
    refuse(0, static_cast<std::size_t>(unlike - numbers.begin()) + 1, "ranks differ in their collective");
  }
  if (call.kind != Collective::all_to_all) return;
  std::vector<Index> sizes(call.counts.begin(), call.counts.end());
  sizes.insert(sizes.end(), call.arriving.begin(), call.arriving.end());
  const std::vector<Index> all = ranks.all_gather(sizes);
  const auto count = static_cast<std::size_t>(size());
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      const Index sent = all[2 * count * from + to], expected = all[2 * count * to + count + from];
      if (sent == expected) continue;
      refuse(from, to,
             text({sent, " elements are sent where ", expected, " are expected in the collective"}));
    }
  }
}

}  // namespace shardwise::detail
#endif
