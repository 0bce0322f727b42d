// Finds out which ranks wait in an operation that has not moved for long, and for which ranks they wait. Pure: time is
// passed in, messages go to the Flood.
//
// If nothing has moved in a rank's operation for ANELLO_STALL_TIME, the rank asks all ranks about the operation. Ranks
// wait for different times before they ask (spread()), so usually only one asks. Every member of the group answers
// whether it also waits in the operation, has called it, or has not called it. The stall is reported when the last
// answer has arrived, or after 2 s with the ranks that have not answered. So a report is based on answers that are at
// most 2 s old. If the asking rank's operation moves before the report, nothing is reported; if it stalls again, the
// next attempt has its own answers. If the operation is overdue on the asking rank, the report becomes a verdict
// against the lowest rank that has not called the operation.
//
// A program may make a wrong call, which its rank refuses. As soon as another rank waits in that operation, the rank
// that refused the call asks, so that the reason is reported within a second. It does not ask before another rank
// waits. It does not ask either if its program has repeated the call correctly in the meantime. For a transfer this
// does not work, because ranks do not announce that they wait in a transfer. So the rank that refused announces the
// refused transfer, and the rank that waits asks.
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
  using Time = std::chrono::milliseconds;    // time since an arbitrary fixed point
  static constexpr Time kAnswerLimit{2000};  // a later answer is not used

  StallReports(const LocalView& view, const Departures& departures, const MismatchDetector& operations, Flood& flood);

  // Call these functions when nothing has moved in this rank's operation for this time. stalled() reports the
  // operation. overdue() ends the world, because the time has reached the limit.
  void stalled(const Signature& mine, Time period, Time now) { ask({mine.group, mine.sequence, period}, mine, now); }
  void overdue(const Signature& mine, Time limit, Time now) {
    ask({mine.group, mine.sequence, limit, true}, mine, now);
  }
  // Call when this rank has refused a call of its program. Call it again whenever another rank has sent its call of an
  // operation of this group.
  void refused(std::uint64_t group, Time now);
  // If the newest of the refused calls was a transfer, announces the refusal to all ranks, without the reason.
  void say_refused(std::uint64_t group);
  void receive_refused(const NamedSignature& theirs, Time now);
  void waiting(const Signature& mine, Time now);  // call when nothing moves in this rank's operation
  // Call when the operation moves again. Cancels this rank's pending questions, and the reports of its earlier
  // questions.
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
  std::optional<Time> due() const;  // empty: no stall is being reported
  std::size_t remembered() const { return stalls_.size(); }

 private:
  static constexpr std::size_t kMaxRemembered = 256;
  struct Stall {
    StallFindings findings;
    std::vector<int> members;    // empty: this rank has not received them
    std::size_t unanswered = 0;  // number of members without an answer
    bool is_asked = false;       // false: only answers have arrived, and the question is still on its way
    bool is_done = false;
    bool is_asked_here = false, has_moved_here = false;
    bool is_overdue_here = false;
    Time due{0};
  };
  struct Pending {
    StallKey key;
    NamedSignature operation;
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
  void say_where_it_waits(StallAnswer& answer, const NamedSignature& operation) const;
  bool has_left(int member, std::uint64_t group) const;
  void add(const StallKey& key, Stall& stall, int rank, const StallAnswer& answer);
  void finish(const StallKey& key, Stall& stall);
  void forget_oldest();

  const LocalView& view_;
  const Departures& departures_;
  const MismatchDetector& operations_;
  Flood& flood_;
  std::map<StallKey, Stall> stalls_;  // stalls that are done stay here, so that each is reported once
  std::vector<Pending> pending_;      // questions that have not been sent yet
  std::map<std::uint64_t, std::uint64_t> refused_here_,
      refused_elsewhere_;  // by group: the newest refusal here, and on another rank
  Completed completed_;
};

}  // namespace anello::failure
