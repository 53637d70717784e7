// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A transport whose ranks compare each collective before they start it: mismatches that would hang or give wrong
/// numbers become errors on all ranks. Each collective costs one or two additional small ones.

#include <shardwise/comm/host.hpp>
#include <shardwise/comm/place_in_program.hpp>
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
  Operation* begin(const Call& call) override {
    check(call);
    return checked_->begin(call);
  }
  /// Not checked here: the receiver of a message checks its label.
  Operation* begin(std::shared_ptr<MessageList> messages, DataType type) override {
    return checked_->begin(std::move(messages), type);
  }

 private:
  /// Gathers a list from each rank, all of the same length.
  template <class T>
  std::vector<T> all(const std::vector<T>& mine) {
    const std::vector<Index> counts(static_cast<std::size_t>(size()),
                                    static_cast<Index>(mine.size() * sizeof(T)));
    std::vector<T> said(mine.size() * counts.size());
    checked_->run({.kind = Collective::all_gather,
                   .in = mine.data(),
                   .out = said.data(),
                   .counts = counts,
                   .offsets = offsets_of(counts)});
    return said;
  }

  void check(const Call& call) {
    const auto ranks = static_cast<std::size_t>(size());
    const auto mine = signature(call);
    const std::vector<Index> said = all(std::vector<Index>(mine.begin(), mine.end()));
    const auto of = [&](std::size_t rank) {
      return std::span(said).subspan(rank * (said.size() / ranks), said.size() / ranks);
    };
    ++calls_;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      if (!std::ranges::equal(of(0), of(rank))) refuse(call, 0, rank, "ranks differ in their collective");
    }
    if (call.kind != Collective::all_to_all) return;
    std::vector<Index> sizes(call.counts.begin(), call.counts.end());
    sizes.insert(sizes.end(), call.arriving.begin(), call.arriving.end());
    const std::vector<Index> all_sizes = all(sizes);
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::size_t to = 0; to < ranks; ++to) {
        const Index sent = all_sizes[2 * ranks * from + to];
        const Index expected = all_sizes[2 * ranks * to + ranks + from];
        if (sent != expected)
          refuse(call, from, to,
                 text({sent, " elements are sent where ", expected, " are expected in the collective"}));
      }
    }
  }

  /// Throws an error that states the calls of two ranks. Collective.
  [[noreturn]] void refuse(const Call& call, std::size_t one, std::size_t other, std::string_view what) {
    const std::string where = PlaceInProgram::here().text();
    std::string mine = text_of(call) + (where.empty() ? "" : " at " + where);
    constexpr std::size_t bytes = 1000;  // per rank, with a terminating zero
    mine.resize(bytes - 1);
    mine.push_back('\0');
    const std::vector<char> said = all(std::vector<char>(mine.begin(), mine.end()));
    const auto words = [&](std::size_t rank) { return std::string(said.data() + rank * bytes); };
    fail<std::runtime_error>({what, " ", calls_, ": rank ", other, " of these calls ", words(other),
                              ", but rank ", one, " ", words(one)});
  }

  std::shared_ptr<Transport> checked_;
  Index calls_ = 0;
};

}  // namespace shardwise::detail
