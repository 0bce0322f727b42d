// Detects that the ranks of a group called different operations, and which of the ranks is at fault. Pure: time is
// passed in, messages go to the Flood.
//
// If nothing moves in a rank's operation for a while, the rank sends `waiting`, and every member compares it with its
// own call. Ranks that wait in the same operation would all send the same message, so each delays its message by a time
// that depends on its rank (spread()), and does not send it if another rank did so before. So an operation that waits
// costs about one flood, in a world of any size.
//
// Two different operations with one number are a conflict, which ends the world. Then every member sends `called`, even
// if it learns of the conflict only by a message, or calls its operation later. A rank proposes a verdict when it has
// the calls of all members; 200 ms after the conflict began, if they show a majority by then; after 1 s in any case.
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

// Returns how long a rank delays a message that all `ranks` ranks may have to send about the operation: 0 for about one
// of them, one step for about one, two steps for two, then four, and so on. So one of them sends soon, and few others
// send before they receive that message, whichever ranks have it to send. A step is longer than the delivery of a
// message.
std::chrono::milliseconds spread(int rank, std::size_t ranks, const Signature& operation);

class MismatchDetector {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point

  MismatchDetector(const LocalView& view, const Departures& departures, Flood& flood);

  // This rank's operation makes no progress; makes progress again.
  void waiting(const Signature& mine, Time now);
  void moving(const Signature& mine);
  // A peer sent a different operation on a data connection, without its name, as `verdict` says. `verdict` is used if
  // the calls that the ranks then send do not differ.
  void differs(const NamedSignature& mine, int peer, const Signature& theirs, const Verdict& verdict, Time now);
  // The ranks `peers` sent other counts than this rank expects; `verdict` describes one of them.
  void contradicts(const NamedSignature& mine, const std::vector<int>& peers, const Verdict& verdict, Time now);
  void leave(std::uint64_t group);

  void receive_call(int origin, const NamedSignature& theirs, Time now);
  void receive_contradictions(int origin, const NamedSignature& theirs, const std::vector<int>& contradicted);
  // Takes the last calls of a rank from its goodbye.
  void receive_goodbye(int origin, Time now);

  // A rank left the group, and this rank still expected data from it: whether the two called different operations
  // before.
  bool explains_departure(int rank, std::uint64_t group, Time now);

  // The operations in which this rank waits, by group.
  const std::map<std::uint64_t, NamedSignature>& waits() const { return waits_; }
  // Returns a call with this number that another rank has sent.
  std::optional<NamedSignature> said(std::uint64_t group, std::uint64_t sequence) const;

  std::optional<Verdict> tick(Time now);  // call when due() has come; the verdict is a mismatch
  std::optional<Time> due() const;        // empty: there is nothing to send

 private:
  static constexpr std::size_t kMaxReceived = 8;  // calls of other ranks that are kept for each group
  static constexpr Time kMajorityLimit{200}, kLimit{1000}, kLook{20};
  using Number = std::pair<std::uint64_t, std::uint64_t>;  // a group, and the number of an operation in it
  struct Received {
    int rank = -1;
    NamedSignature operation;
  };
  struct Pending {
    NamedSignature operation;
    Time due{0};
  };
  struct Open {
    Conflict conflict;
    std::optional<Verdict> shown;          // from a data connection, or a contradiction
    std::map<int, NamedSignature> unsaid;  // likewise: calls of ranks that may still send them, with names
    Time began{0};                         // excludes the time in which this rank did not run
    Time look_at{0};                       // when to check whether this rank has called it
    std::optional<Time> complete;
    bool is_said = false, is_judged = false;
  };
  bool was_said(const Signature& operation) const;
  void remember(int rank, const NamedSignature& operation);
  void say(ControlMessage::Type type, const NamedSignature& operation, std::vector<int> contradicted = {});
  std::optional<NamedSignature> own(const Number& number) const;
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
  std::map<std::uint64_t, NamedSignature> waits_;
  std::map<std::uint64_t, std::deque<Received>> received_;  // by group; the newest last
  std::vector<Pending> pending_;
  std::map<Number, Open> conflicts_;
  std::map<Number, Contradictions> contradictions_;
};

}  // namespace anello::failure
