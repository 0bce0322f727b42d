// Which ranks wait in an operation that moves nothing for long, and for which ranks. Pure: time is passed in, messages
// go to the Flood.
//
// A rank in whose operation nothing has moved for ANELLO_STALL_TIME asks all ranks about it; if many would ask, one is
// enough (spread()). Every member of the group answers: it waits in the operation too, it called it, or it did not. The
// stall is reported when the last answer has come, or after 2 s, when ranks that have not answered are named as such.
// So a report never says more than the ranks said a moment ago. Nothing is reported if the operation of the rank that
// asked moves again before that; if it stalls again, the next attempt has answers of its own. If the operation is
// overdue on this rank, the report becomes a verdict against the lowest rank that has not called it.
//
// A rank whose program made a wrong call, which was refused, asks as soon as another rank waits in that operation: so
// the reason is reported within a second. It asks only then, and nothing if its program has called again by then. That
// a rank waits in a transfer is not said to all: so a refused call of two ranks is, and then the rank that waits asks.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ring/failure/flood.hpp"
#include "ring/failure/local_view.hpp"
#include "ring/failure/mismatches.hpp"
#include "ring/failure/stall_text.hpp"

namespace anello::failure {

class StallReports {
 public:
  using Time = std::chrono::milliseconds;    // since any fixed point
  static constexpr Time kAnswerLimit{2000};  // a rank that takes longer to answer does not answer

  StallReports(const LocalView& view, const Departures& departures, const MismatchDetector& operations, Flood& flood);

  // Nothing has moved in this rank's operation for that time: it should be reported; it has reached the limit.
  void stalled(const Signature& mine, Time period, Time now) { ask({mine.group, mine.sequence, period}, mine, now); }
  void overdue(const Signature& mine, Time limit, Time now) {
    ask({mine.group, mine.sequence, limit, true}, mine, now);
  }
  // A call of this rank's program was refused, or another rank said which operation of the group it called.
  void refused(std::uint64_t group, Time now);
  // The newest of those calls, if it was of two ranks: all are sent that it was refused, not why.
  void say_refused(std::uint64_t group);
  void receive_refused(const Call& theirs, Time now);
  void waiting(const Signature& mine, Time now);  // nothing moves in this rank's operation
  // It moves again: what has not been asked yet is not asked any more, and what this rank asked is not reported.
  void moving(const Signature& mine);
  void leave(std::uint64_t group);

  void receive_question(const ControlMessage& question, Time now);
  void receive_answer(const ControlMessage& answer);

  struct Completed {
    std::vector<std::string> reports;  // one line for each stall
    std::optional<Verdict> overdue;
  };
  Completed take_completed();

  void tick(Time now);              // call when due() has come
  std::optional<Time> due() const;  // nothing: no stall is being reported
  std::size_t remembered() const { return stalls_.size(); }

 private:
  static constexpr std::size_t kMaxRemembered = 256;
  struct Stall {
    StallFindings findings;
    std::vector<int> members;    // empty: not known here
    std::size_t unanswered = 0;  // members
    bool is_asked = false;       // otherwise only answers have come, and the question is still under way
    bool is_done = false;
    bool is_asked_here = false, has_moved_here = false;
    bool is_overdue_here = false;
    Time due{0};
  };
  struct Pending {
    StallKey key;
    Call operation;
    Time due{0};
    bool is_refusal() const { return key.period.count() == 0; }
  };

  void ask(const StallKey& key, const Signature& mine, Time now);
  void ask_why(std::uint64_t group, Time now);
  StallKey newest_attempt(StallKey key, Time now) const;
  void send(const Pending& pending, Time now);
  void begin(Stall& stall, const ControlMessage& question, Time now) const;
  StallAnswer own_answer(const Signature& operation, const std::vector<int>& members) const;
  StallAnswer without_group(const Signature& wanted, const std::vector<int>& members) const;
  StallAnswer as_asker(const Pending& pending) const;
  void say_where_it_waits(StallAnswer& answer, const Call& operation) const;
  bool has_left(int member, std::uint64_t group) const;
  void add(const StallKey& key, Stall& stall, int rank, const StallAnswer& answer);
  void finish(const StallKey& key, Stall& stall);
  void forget_oldest();

  const LocalView& view_;
  const Departures& departures_;
  const MismatchDetector& operations_;
  Flood& flood_;
  std::map<StallKey, Stall> stalls_;  // also those that are done, so that each is reported once
  std::vector<Pending> pending_;      // not asked yet
  std::map<std::uint64_t, std::uint64_t> refused_here_,
      refused_elsewhere_;  // by group: the newest refusal here, and of another rank
  Completed completed_;
};

}  // namespace anello::failure
