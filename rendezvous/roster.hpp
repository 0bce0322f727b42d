// Who has come, who is missing, and what to tell whom: the rendezvous as a pure state machine. Owner: the server, one
// thread. Knows no sockets and no clock: events and the time are passed in, what is to be sent comes back.
//
// One generation at a time: members gather; when as many as the world's size are there, all are assigned ranks and the
// world starts: rounds of exchange until every member has left. Whatever goes wrong before ends the start-up for all
// its members with one message that names the culprit. Either way the next to join begins the next generation.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol.hpp"

namespace anello::rendezvous {

class Roster {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using MemberId = std::uint64_t;  // the caller's name of a connection, used once
  enum class Phase { gathering, starting };

  // A rank that has left: where it listens from then on.
  struct Reach {
    int rank;
    std::string address;
    std::uint16_t port;
  };
  // A world that is formed or about to be.
  struct Formed {
    std::uint32_t generation = 0;
    int size = 0;
    std::vector<Reach> ranks;
  };

  // After a Failed the roster has forgotten its receivers; events of theirs that still come are ignored.
  struct Send {
    std::vector<MemberId> to;
    Reply reply;
  };
  using Sends = std::vector<Send>;

  // `size`: expected ranks, or 0: as the first to join says. `patience` bounds every wait of members for each other,
  // as each member's own does.
  Roster(int size, std::chrono::milliseconds patience) : expected_(size), patience_(patience) {}

  Sends joined(MemberId id, const Join& join, Time now);
  Sends contributed(MemberId id, Contribution contribution, Time now);
  Sends left(MemberId id, std::uint16_t port = 0);
  Sends failed(MemberId id, const std::string& reason);
  Sends disconnected(MemberId id);
  // Somebody ends the job, and blames a rank or -1. A member that leaves all the same, because it was through already,
  // is among those of formed().
  Sends aborted(int culprit, const std::string& reason);
  // Somebody was turned away before joining. Only remembered: it may explain who is missing.
  void refused(const std::string& why);

  // When to call expired() if nothing happens before.
  std::optional<Time> deadline() const { return deadline_; }
  Sends expired();

  Phase phase() const { return phase_; }
  std::uint32_t generation() const { return generation_; }
  std::size_t members() const { return members_.size(); }
  int worlds_formed() const { return worlds_formed_; }  // generations whose members have all left
  const Formed& formed() const { return formed_; }      // the newest that started
  const std::string& last_failure() const { return last_failure_; }

 private:
  struct Member {
    Join join;                        // its rank is the assigned one as soon as it is
    std::uint64_t seat;               // in order of joining
    std::optional<std::string> blob;  // of the round in progress
  };

  std::string conflict(const Join& join) const;
  std::string unreachable() const;
  Sends start();
  Sends finish_round();
  // `hint` is sent too, but is no part of last_failure().
  Sends give_up(ErrorCode code, int culprit, const std::string& message, const std::string& hint = {});
  void next_generation();
  void limit(Time now, std::chrono::milliseconds patience);
  std::vector<Join> joins() const;  // in order of joining
  std::string missing() const;
  std::string hints() const;

  const int expected_;
  const std::chrono::milliseconds patience_;
  std::uint32_t generation_ = 1;
  Phase phase_ = Phase::gathering;
  int size_ = 0;           // 0: not known yet
  std::string size_from_;  // who said so
  std::map<MemberId, Member> members_;
  std::map<int, MemberId> ranks_;     // given ones, then all
  std::map<MemberId, Join> aborted_;  // of the newest world, whose start-up was aborted: they may have been through
  std::uint64_t seats_ = 0;
  std::size_t contributions_ = 0, contribution_bytes_ = 0;
  std::string left_;  // who left first
  Formed formed_;
  Time since_;  // when the wait that `deadline_` ends began
  std::optional<Time> deadline_;
  int refusals_ = 0, worlds_formed_ = 0;
  std::string last_refusal_, last_failure_;
};

}  // namespace anello::rendezvous
