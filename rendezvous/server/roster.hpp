// The rendezvous as a pure state machine: which ranks have joined, which are missing, and which messages to send.
// Owner: the server, on its thread. It has no sockets and no clock: the caller passes events and the time, and sends
// what the functions return.
//
// There is one generation at a time. First its members join. When the number of members is the world's size, all are
// assigned ranks and the world starts: rounds of exchange follow, until every member has left. If anything fails before
// the last member has left, the start-up ends for all members with one message that names the culprit. If some members
// have left and the others neither leave nor end in time, the world counts as started: its ranks watch each other. In
// all cases the next member to join begins the next generation, so a member that vanishes cannot block the server.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/protocol.hpp"
#include "rendezvous/server/exchange_round.hpp"
#include "rendezvous/server/failed_starts.hpp"
#include "rendezvous/server/sends.hpp"
#include "rendezvous/server/wait.hpp"

namespace anello::rendezvous {

class Roster {
 public:
  using Time = rendezvous::Time;
  using MemberId = rendezvous::MemberId;
  using Send = rendezvous::Send;  // a rank that is sent a Failed is no member any more, so its later events are ignored
  using Sends = rendezvous::Sends;
  enum class Phase { gathering, starting };

  // Where a rank listens after it has left the rendezvous.
  struct Reach {
    int rank;
    std::string address;
    std::uint16_t port;
  };
  // A world that runs or is about to run.
  struct Formed {
    std::uint32_t generation = 0;
    int size = 0;
    std::vector<Reach> ranks;  // the ranks of this world that have left the rendezvous so far
    std::uint64_t incarnation = 0;
  };

  // `size` is the number of ranks; 0: the first rank to join decides. No member waits for others longer than
  // `patience`, or longer than the smallest patience of all members. `incarnation` is a random number that
  // distinguishes this roster's generations from those of other rosters.
  Roster(int size, std::chrono::milliseconds patience, std::uint64_t incarnation = 0)
      : expected_(size), patience_(patience), incarnation_(incarnation) {}

  Sends joined(MemberId id, const Join& join, Time now);
  Sends contributed(MemberId id, Contribution contribution, Time now);
  Sends left(MemberId id, Time now, std::uint16_t port = 0);
  // `culprit` is the rank whose failure the member reports; -1: the member reports its own failure.
  Sends failed(MemberId id, const std::string& reason, Time now, int culprit = -1);
  Sends disconnected(MemberId id, Time now);
  // Call this when the connection of this rank has ended before it joined.
  Sends ended_early(int rank, Time now);
  // Call this when the launcher ends the job. `culprit`: the culprit's rank, or -1. A member that had already started,
  // and leaves afterwards, is added to formed().
  Sends aborted(int culprit, const std::string& reason);
  // Call this when the process of this rank has ended. Members that wait for this rank to join, now or later, are sent
  // the failure. They receive the reason of the first rank that exited, because the others may have exited only as a
  // consequence.
  Sends exited(int rank);
  // Ends the start-up. From now on every rank that joins receives `why` at once. A rank that joins once more after it
  // has received the reason belongs to another start, for which this roster must make room: it is sent a ComeAgain.
  // `by` is the rank that reports the failure.
  Sends conclude(const Failed& why, int by);
  // True if all ranks have received the reason, or another start has begun. Requires a given size; after conclude().
  bool all_informed() const { return failed_starts_.all_informed(expected_); }
  // Call this when a connection was rejected before it joined. The next message about missing ranks mentions it.
  void refused(const std::string& why);

  // The time at which the caller must call expired(), if no event changes it before.
  std::optional<Time> deadline() const { return wait_.end(); }
  Sends expired();

  // Returns a text such as "waiting: 4 of 6 ranks have joined; missing ranks 2, 5". Empty if no member waits for others
  // to join.
  std::string waiting() const;
  // Returns why the newest world may consist of ranks of two jobs; empty if nothing indicates that.
  std::string doubt() const { return started_apart(newest_); }

  Phase phase() const { return phase_; }
  std::uint32_t generation() const { return generation_; }
  std::size_t members() const { return members_.size(); }
  int worlds_formed() const { return worlds_formed_; }  // number of generations whose members have all left
  const Formed& formed() const { return formed_; }      // the newest world that has started
  const std::string& last_failure() const { return last_failure_; }

 private:
  struct Member {
    Join join;           // holds the assigned rank as soon as there is one
    std::uint64_t seat;  // in order of joining
  };

  std::string conflict(const Join& join) const;
  Sends refuse_late(MemberId id, const Join& join);
  Sends start(Time now);
  Sends finish_round(Time now);
  void wait_for_next_step(Time now);
  Sends form();
  Sends give_up_without_exited();
  Sends end_start(int culprit, const std::string& message, Time now);
  Sends give_up_because_of(int exited);
  // Ends the start-up for all members. `hint` is added to the message that the members receive, but not to
  // last_failure().
  Sends give_up(ErrorCode code, int culprit, const std::string& message, const std::string& hint = {});
  void next_generation();
  std::vector<Join> joins() const;  // in order of joining
  std::string missing() const;
  // The ranks that have not joined; none if the rendezvous assigns the numbers.
  std::vector<int> absent() const;
  std::string hints() const;

  const int expected_;
  const std::chrono::milliseconds patience_;
  const std::uint64_t incarnation_;
  std::uint32_t generation_ = 1;
  Phase phase_ = Phase::gathering;
  int size_ = 0;           // 0: not determined yet
  std::string size_from_;  // the source of size_, for messages
  std::map<MemberId, Member> members_;
  std::vector<int> exited_;  // in order of their exits
  FailedStarts failed_starts_;
  std::vector<Join> newest_;             // the members of the newest world that has started
  std::map<int, MemberId> ranks_;        // given ranks; after start() all ranks
  std::map<MemberId, Join> unfinished_;  // members of the newest start-up that had not left when it was over
  std::uint64_t seats_ = 0;
  ExchangeRound round_;
  std::string left_;  // the first member that left, for messages
  Formed formed_;
  Time newest_join_{};
  Wait wait_;
  int worlds_formed_ = 0;
  std::string last_failure_;
  struct Refusals {
    int count = 0;
    std::string last;
  } refusals_;  // connections rejected during this start
};

}  // namespace anello::rendezvous
