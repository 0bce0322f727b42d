// The membership of an elastic job as a pure state machine: which processes there are, which of them form the next
// world, and which messages to send. Owner: the server, on its thread. It has no sockets and no clock: the caller
// passes events and the time, and sends what the functions return.
//
// A process joins, and is in the lobby until a world has room for it. A world that has lost a rank ends on all ranks;
// each of them then enters again. The next world starts as soon as every process of the last one has entered or ended.
// A process may compute for minutes before it enters, so no timer ends this wait; but the process answers inquiries
// meanwhile, and a process that does not answer loses its place. Processes in the lobby go into the next world too. If
// only processes of the lobby are left, and a world has begun to train, the state of the job is lost: the processes in
// the lobby are refused, and processes that join later belong to another job.
//
// If processes come into the lobby while a world runs, all ranks of this world end it at the same commit. For this,
// each rank reports how many commits it has made, and makes at most one more before it receives the boundary. The
// boundary is one commit after the highest number. Processes in the lobby wait for others that the launcher has started
// (rendezvous/server/newcomers.hpp). After a failure of a world, the others do not wait for such processes.
//
// A process that was asked to leave leaves at a commit where its world ends as planned. If it is the last process that
// has the state, but another process may get the state, it takes part in one more world.
//
// If the server ends, one of the processes goes on as its successor: inherit(). The processes of the last world then
// join again, and the next world begins when Inheritance allows it.
//
// Only one generation is alive, and a process must name it to enter the next one. So a process that was given up, and
// continues later, cannot come back.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"
#include "rendezvous/server/elastic_processes.hpp"
#include "rendezvous/server/exchange_round.hpp"
#include "rendezvous/server/inheritance.hpp"
#include "rendezvous/server/newcomers.hpp"
#include "rendezvous/server/sends.hpp"
#include "rendezvous/server/server.hpp"

namespace anello::rendezvous {

// When the membership acts by itself.
struct Deadlines {
  std::optional<Time> enough;   // until when the membership waits for enough processes
  std::optional<Time> start;    // when the start must have made its next step
  std::optional<Time> inquiry;  // when the awaited processes are asked again whether they still answer
  std::optional<Time> change;   // when to change the world, because processes wait in the lobby or are to leave

  std::optional<Time> first() const;
};

// The history of an elastic job.
struct Course {
  bool begun = false;        // a world has begun to train, so there is state
  bool finished = false;     // a process has finished its training: no other process is admitted any more
  bool hands_over = false;   // the ranks are to leave this server for another one when their world has ended as planned
  bool handed_over = false;  // all ranks have left or ended; no process is admitted any more
  bool lost = false;         // as in ElasticStatus
  bool ended_as_planned = false;  // the newest world has ended at a commit, and no rank of it was lost
  std::uint64_t joined = 0;       // how many processes have joined
  int worlds_formed = 0;
  std::uint32_t first_of_job = 1;        // number of the job's first world
  std::uint32_t newest_complete = 0;     // number of the newest world that all its ranks have completed
  std::vector<std::string> left;         // which processes have left since the last world was complete, and why
  std::map<int, std::int64_t> released;  // as in ElasticStatus
  std::map<std::uint32_t, std::vector<ElasticStatus::Seat>> ranks;  // as in ElasticStatus
  std::string last_failure;
};

class Membership {
 public:
  using Phase = WorldPhase;

  // `start_patience`: how long the first world waits for its processes, and each start for its slowest rank.
  Membership(const ElasticLimits& limits, std::chrono::milliseconds start_patience, std::uint64_t incarnation)
      : limits_(limits), start_patience_(start_patience), incarnation_(incarnation) {}

  Sends joined(MemberId id, const Join& join, Time now);
  // A message from a process. Messages that came too late to matter are ignored. If a message is out of turn, its
  // process loses its place.
  Sends received(MemberId id, const Request& request, Time now);
  Sends disconnected(MemberId id, Time now);
  // Asks the processes for which `leaves` returns true to leave at the next commit. The job does not need them after
  // that. If no other process can get the state, it is lost with them; then they receive a message about the loss.
  Sends retire(const std::function<bool(MemberId, const ElasticProcess&)>& leaves, Time now);

  // `newcomers`: how many processes the launcher has started, or is about to start, that may still join.
  Sends expect(int newcomers, Time now);

  // From now on, waits for a world in which all ranks have trained together, and which they end as planned. Then sends
  // all ranks away to another server (ComeAgain), because they can go on without this server. If no rank is left,
  // admits no process any more.
  Sends hand_over(Time now);

  // Call this before any process has joined. `newest`: number of the newest world for which a process of this host was
  // chosen. `begun`: true if a world of the job has begun to train.
  void inherit(Lineage lineage, std::uint32_t newest, bool begun);
  // Call this until the successor's first world is complete. `what`: the result of the look at the address where `peer`
  // should listen.
  Sends found(const Peer& peer, Inheritance::Finding what, Time now);
  bool inherits() const { return inheritance_.has_value(); }

  // The time at which the caller must call expired(), if no event changes it before.
  std::optional<Time> deadline() const { return deadlines_.first(); }
  Sends expired(Time now);

  // "waiting: 3 of 4 processes are ready for world 6; not yet: rank 2 (node-a, pid 7)". Empty if nothing is awaited.
  std::string waiting() const;

  Phase phase() const { return phase_; }
  std::uint32_t generation() const { return generation_; }  // number of the newest world that has started; 0: none
  ElasticStatus status() const;
  std::size_t members() const { return members_of(processes_); }
  const std::string& last_failure() const { return course_.last_failure; }

 private:
  using State = ElasticProcess::State;

  Sends handle(MemberId id, const Contribution& contribution, Time now);
  Sends handle(MemberId id, const Leave& leave, Time now);
  Sends handle(MemberId id, const Fail& fail, Time now);
  Sends handle(MemberId id, const Enter& enter, Time now);
  Sends handle(MemberId id, const Begun&, Time now);
  Sends handle(MemberId id, const Commits& commits, Time now);
  Sends handle(MemberId id, const Present&, Time now);
  Sends handle(MemberId id, const Done&, Time now);
  template <class OutOfTurn>
  Sends handle(MemberId id, const OutOfTurn&, Time now) {
    return lose(id, "it joined twice", now);
  }

  Sends return_to_world(MemberId id, const Enter& enter, Time now);
  std::set<int> returned() const;

  void gather(Time now);
  Sends end_world(Time now);
  Sends start_again(const std::string& reason, Time now);
  Sends lose(MemberId id, std::string_view reason, Time now);
  Sends after_loss(const ElasticProcess& lost, std::string_view reason, Time now);
  Sends after_end(Time now);
  Sends end_job(const Reply& last_word);
  Sends refuse(MemberId id, const std::string& why, ErrorCode code = ErrorCode::rendezvous);

  int needed() const;
  Sends start_if_complete(Time now);
  Sends start(const std::vector<MemberId>& chosen, Time now);

  Sends inquire(Time now);
  Sends give_up_waiting(Time now);
  Sends end_slow_start(Time now);
  LeaveRules leave_rules() const;
  Sends release_idle(Time now);
  bool wants_change() const;
  void plan_change(Time now);
  Sends ask_commits(Time now);
  Sends announce_if_counted();

  const ElasticLimits limits_;
  const std::chrono::milliseconds start_patience_;
  const std::uint64_t incarnation_;
  Phase phase_ = Phase::gathering;
  std::uint32_t generation_ = 0;
  ElasticProcesses processes_;
  Newcomers newcomers_;
  ExchangeRound round_;
  std::optional<Inheritance> inheritance_;  // set until the successor's first world is complete
  Course course_;
  Deadlines deadlines_;
};

}  // namespace anello::rendezvous
