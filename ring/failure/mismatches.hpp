// Whether the ranks of a group called different operations, and which of them is at fault. Pure: time is passed in,
// messages go to the Flood.
//
// A rank in whose operation nothing moves for a while says `waiting`, and every member compares that with what it
// called itself. Ranks that wait in the same operation would all say the same, so each delays its message by a time
// drawn by its rank (spread()), and says nothing if another rank said it before. So an operation that waits costs about
// one flood, in a world of any size.
//
// Two different operations of one number are a conflict, which ends the world. Then every member says `called`, also
// one that only learns of it, and one that calls its operation later. A rank proposes a verdict when all members have
// said what they called; 200 ms after the conflict began, if a majority is known by then; after 1 s in any case.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ring/failure/conflict.hpp"
#include "ring/failure/departures.hpp"
#include "ring/failure/flood.hpp"
#include "ring/failure/local_view.hpp"

namespace anello::failure {

// By how much a rank delays what all `ranks` may have to say about the operation: 0 for about one of them, one step for
// about one, two steps for two, then four, and so on. So one of them speaks soon, and few speak before they receive
// it, whichever ranks have to say it. A step is longer than a message is under way.
std::chrono::milliseconds spread(int rank, std::size_t ranks, const Signature& operation);

class MismatchDetector {
 public:
  using Time = std::chrono::milliseconds;  // since any fixed point

  MismatchDetector(const LocalView& view, const Departures& departures, Flood& flood);

  // This rank's operation makes no progress, or makes progress again.
  void waiting(const Signature& mine, Time now);
  void moving(const Signature& mine);
  // On a data connection a peer sent another operation than this rank's, without its name. `verdict` says so. It
  // becomes the verdict if the calls that the ranks then say do not differ.
  void differs(const Call& mine, int peer, const Signature& theirs, const Verdict& verdict, Time now);
  // The ranks `peers` sent other counts than this rank expects, as `verdict` says of one of them.
  void contradicts(const Call& mine, const std::vector<int>& peers, const Verdict& verdict, Time now);
  void leave(std::uint64_t group);

  void receive_call(int origin, const Call& theirs, Time now);
  void receive_contradictions(int origin, const Call& theirs, const std::vector<int>& contradicted);
  // What the rank called last, as its goodbye says.
  void receive_goodbye(int origin, Time now);

  // A rank left the group, and this rank still expected data from it: did they call different operations before?
  bool explains_departure(int rank, std::uint64_t group, Time now);

  // The operations in which this rank waits, by group.
  const std::map<std::uint64_t, Call>& waits() const { return waits_; }
  // A call of that number that another rank said it made.
  std::optional<Call> said(std::uint64_t group, std::uint64_t sequence) const;

  std::optional<Verdict> tick(Time now);  // call when due() has come. The verdict is a mismatch
  std::optional<Time> due() const;        // nothing: there is nothing to say

 private:
  static constexpr std::size_t kMaxReceived = 8;  // of a group; older ones are forgotten
  static constexpr Time kMajorityLimit{200}, kLimit{1000}, kLook{20};
  using Number = std::pair<std::uint64_t, std::uint64_t>;  // a group, and an operation's number in it
  struct Received {
    int rank = -1;
    Call operation;
  };
  struct Pending {
    Call operation;
    Time due{0};
  };
  struct Open {
    Conflict conflict;
    std::optional<Verdict> shown;  // by a data connection, or a contradiction
    std::map<int, Call> unsaid;    // likewise: calls of ranks that may say them yet, with their names
    Time began{0};                 // without the time in which this rank did not run
    Time look_at{0};               // whether this rank has called it meanwhile
    std::optional<Time> complete;
    bool is_said = false, is_judged = false;
  };
  bool was_said(const Signature& operation) const;
  void remember(int rank, const Call& operation);
  void say(ControlMessage::Type type, const Call& operation, std::vector<int> contradicted = {});
  std::optional<Call> own(const Number& number) const;
  void compare(const Number& number, Time now);
  Open& open(const Number& number, Time now);
  void add_known(const Number& number, Conflict& conflict) const;
  void look(const Number& number, Open& open, Time now);
  bool may_call(int member, const Number& number) const;
  Time judge_at(const Number& number, const Open& open) const;
  std::optional<Verdict> judge_open(const Number& number, Open& open) const;

  const LocalView& view_;
  const Departures& departures_;
  Flood& flood_;
  std::map<std::uint64_t, Call> waits_;
  std::map<std::uint64_t, std::deque<Received>> received_;  // by group; the newest last
  std::vector<Pending> pending_;
  std::map<Number, Open> conflicts_;
  std::map<Number, Contradictions> contradictions_;
};

}  // namespace anello::failure
