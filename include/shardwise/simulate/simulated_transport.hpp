// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The transport of ranks that are threads and take turns: it moves their data, and detects mismatches.

#include <shardwise/comm/communicator.hpp>
#include <shardwise/simulate/group.hpp>
#include <shardwise/simulate/scheduler.hpp>

namespace shardwise {

/// A fault injected into a simulation, at a rank's nth communication call, counted from 0.
struct SimulatedFault {
  int rank;
  Index call;
  bool dies = false;  ///< the rank ends silently; else its call throws an `MpiError`
};

namespace detail::simulated {

class SimulatedOperation;

/// The state shared by all ranks of a simulation.
struct Simulation {
  Simulation(int size, std::uint64_t seed, std::function<void(int)> resumed,
             std::vector<SimulatedFault> to_come)
      : scheduler(size, seed, std::move(resumed)),
        faults(std::move(to_come)),
        ranks(static_cast<std::size_t>(size)) {}

  struct Rank {
    Index calls = 0;
    std::map<std::vector<int>, int> made;            ///< number of groups created of the same ranks
    std::map<Index, SimulatedOperation*> under_way;  ///< in the order in which they began
    std::string death;                               ///< its message, if it has died
  };
  Scheduler scheduler;
  std::vector<SimulatedFault> faults;
  std::vector<Rank> ranks;
  /// By ranks, and how many groups of these there were.
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<Group>> groups;
  Index begun = 0;
  bool over = false;

  Rank& of(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  /// The next group that a rank creates of these members.
  std::shared_ptr<Group> group(int rank, const std::vector<int>& members) {
    const int number = of(rank).made[members]++;
    std::shared_ptr<Group>& found = groups[{members, number}];
    if (!found) found = std::make_shared<Group>(members);
    return found;
  }
};

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(std::shared_ptr<Simulation> simulation, std::shared_ptr<Group> group, int rank,
                     Hosts hosts)
      : Transport(rank, std::move(hosts)), simulation_(std::move(simulation)), group_(std::move(group)) {}

  const char* name() const noexcept override { return "simulation"; }

  void run(const Call& call) override {
    const bool unwinding = std::uncaught_exceptions() > 0;  // a destructor is calling, which must not throw
    try {
      const std::size_t number = this->call(call);
      const auto complete = [&] { return group_->collective(number).complete(); };
      if (!scheduler().wait(me(), complete, [&] { return words(number); })) throw RankEnds();
      group_->deliver(number, rank());
    } catch (...) {
      if (!unwinding) throw;
    }
  }
  RequestState* begin(const Call& call) override;
  RequestState* begin(std::shared_ptr<MessageList> messages, DataType type) override;

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks, Hosts on) override {
    std::vector<int> members;
    std::string words = "ranks";
    for (const int r : ranks) {
      members.push_back(group_->ranks[static_cast<std::size_t>(r)]);
      words += " " + std::to_string(members.back());
    }
    const auto place = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    auto made = std::make_shared<SimulatedTransport>(simulation_, simulation_->group(me(), members),
                                                     static_cast<int>(place), std::move(on));
    words += ", to make their communicator";
    made->run({.kind = Collective::none, .axes = words.c_str()});
    return made;
  }

 private:
  friend class SimulatedOperation;
  friend class SimulatedCollective;
  friend class SimulatedMessages;

  int me() const { return group_->ranks[static_cast<std::size_t>(rank())]; }
  Scheduler& scheduler() { return simulation_->scheduler; }

  /// A point at which other ranks may run, and faults occur.
  void enter(const char* what) {
    if (simulation_->over) fail<std::logic_error>({what, ": its simulation is over"});
    std::string& death = simulation_->of(me()).death;
    const Index number = simulation_->of(me()).calls++;
    for (const SimulatedFault& fault : simulation_->faults) {
      if (fault.rank != me() || fault.call != number) continue;
      if (!fault.dies) throw MpiError(what, MPI_ERR_OTHER);
      death = text({"died in its call ", number, ", ", what});
    }
    if (!death.empty()) throw RankEnds();
    scheduler().turn(me());
  }
  std::size_t call(const Call& made) {
    enter(made.name());
    scheduler().moves();
    auto by = std::make_unique<CalledBy>(made, rank());
    if (made.background) by->spoil_output();
    try {
      return group_->call(rank(), hosts(), std::move(by));
    } catch (const std::runtime_error& error) {
      scheduler().fail(error.what());
      throw RankEnds();
    }
  }
  const CalledBy& called(std::size_t number) {
    return *group_->collective(number).calls[static_cast<std::size_t>(rank())];
  }
  std::string words(std::size_t number) {
    if (group_->collective(number).complete()) return called(number).text();
    return called(number).text() + ", for " + group_->missing(number);
  }
  std::shared_ptr<Simulation> simulation_;
  std::shared_ptr<Group> group_;
};

/// In flight until its rank has tested or waited for it: only then its data arrive.
class SimulatedOperation : public RequestState {
 public:
  void begin() override {}
  bool test() override {
    if (over_) return true;
    transport_.scheduler().test(transport_.me(), [this] { return words(); });
    return !transport_.scheduler().coin() && advance();  // late, for as long as the coin says so
  }
  bool wait(double seconds) override {
    const bool unwinding = seconds < 1e200 || transport_.simulation_->over;  // waits for no other rank
    const auto ready = [this] { return complete(); };
    if (!over_ && !unwinding &&
        !transport_.scheduler().wait(transport_.me(), ready, [this] { return words(); }))
      end_with(MPI_ERR_OTHER);
    return over_ || advance();
  }
  bool advance() override {
    if (!over_ && complete()) {
      finish();
      end_with(MPI_SUCCESS);
    }
    return over_;
  }
  virtual std::string words() = 0;

 protected:
  explicit SimulatedOperation(SimulatedTransport& transport)
      : transport_(transport), number_(transport.simulation_->begun++) {
    under_way()[number_] = this;
  }
  ~SimulatedOperation() { under_way().erase(number_); }
  virtual bool complete() = 0;
  virtual void finish() = 0;

  SimulatedTransport& transport_;

 private:
  std::map<Index, SimulatedOperation*>& under_way() {
    return transport_.simulation_->of(transport_.me()).under_way;
  }
  void end_with(int code) {
    over_ = fail_with(code);
    under_way().erase(number_);
    transport_.scheduler().moves();
  }

  Index number_;
  bool over_ = false;
};

class SimulatedCollective final : public SimulatedOperation {
 public:
  SimulatedCollective(SimulatedTransport& transport, std::size_t number)
      : SimulatedOperation(transport), number_(number) {}
  std::string words() override { return transport_.words(number_); }

 private:
  bool complete() override { return transport_.group_->collective(number_).complete(); }
  void finish() override {
    const CalledBy& by = transport_.called(number_);
    if (by.input_changed())
      transport_.scheduler().fail("the input was changed while it was under way: " + by.text());
    transport_.group_->deliver(number_, transport_.rank());
  }

  std::size_t number_;
};

class SimulatedMessages final : public SimulatedOperation {
 public:
  SimulatedMessages(SimulatedTransport& transport, std::shared_ptr<MessageList> list, DataType type)
      : SimulatedOperation(transport), list_(std::move(list)), type_(type) {
    for (const Message& m : *list_) {
      Mailbox& box = mailbox(m);
      const auto bytes = static_cast<std::size_t>(m.count * size_of(type));
      buffered_.push_back(transport.scheduler().coin());
      numbers_.push_back(m.incoming ? box.receivers++ : box.sent.size());
      if (m.incoming && bytes > 0) std::memset(m.data, 0xff, bytes);
      const char* data = static_cast<const char*>(m.data);
      if (!m.incoming) box.sent.push_back({m.label, {data, data + bytes}, PlaceInProgram::here()});
    }
  }
  std::string words() override {
    std::size_t open = 0;
    while (open + 1 < list_->size() && complete(open)) ++open;
    const Message& m = (*list_)[open];
    const auto& ranks = transport_.group_->ranks;
    const std::string at = where_.text();
    return text({m.incoming ? "the receipt of " : "the sending of ", m.count, " ", name_of(type_),
                 m.incoming ? " from rank " : " to rank ", ranks[static_cast<std::size_t>(m.rank)],
                 at.empty() ? "" : " at ", at});
  }

 private:
  Mailbox& mailbox(const Message& m) {
    const int me = transport_.rank();
    return transport_.group_->mail[m.incoming ? std::pair(m.rank, me) : std::pair(me, m.rank)];
  }
  /// A send completes when it is received, or at once if MPI buffers it: the seed decides.
  bool complete(std::size_t i) {
    const Mailbox& box = mailbox((*list_)[i]);
    if ((*list_)[i].incoming) return numbers_[i] < box.sent.size();
    return buffered_[i] || numbers_[i] < box.receivers;
  }
  bool complete() override {
    for (std::size_t i = 0; i < list_->size(); ++i) {
      if (!complete(i)) return false;
    }
    return true;
  }
  void finish() override {
    for (std::size_t i = 0; i < list_->size(); ++i) {
      Message& m = (*list_)[i];
      if (!m.incoming) continue;
      Mail& mail = mailbox(m).sent[numbers_[i]];
      const Index size = size_of(type_), came = static_cast<Index>(mail.data.size()) / size;
      m.too_long = came > m.count;
      m.code = m.too_long ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
      m.arrived = std::min(came, m.count);
      m.arrived_label = mail.label;
      if (m.arrived > 0) std::memcpy(m.data, mail.data.data(), static_cast<std::size_t>(m.arrived * size));
      mail.data = {};
    }
  }

  std::shared_ptr<MessageList> list_;
  DataType type_;
  std::vector<std::size_t> numbers_;  // of each message in its mailbox
  std::vector<bool> buffered_;
  PlaceInProgram where_ = PlaceInProgram::here();
};

inline RequestState* SimulatedTransport::begin(const Call& call) {
  const std::size_t number = this->call(call);
  return make_pooled<SimulatedCollective>(*this, number);
}
inline RequestState* SimulatedTransport::begin(std::shared_ptr<MessageList> messages, DataType type) {
  enter("messages");
  scheduler().moves();
  return make_pooled<SimulatedMessages>(*this, std::move(messages), type);
}

}  // namespace detail::simulated
}  // namespace shardwise
