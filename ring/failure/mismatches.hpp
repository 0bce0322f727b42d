// Detects that the ranks of a group called different operations, and which rank is at fault. Pure: time is passed in,
// messages go to the Flood.
//
// If nothing moves in a rank's operation for a while, the rank sends `waiting`, which describes the operation. Every
// member that receives this message compares the operation with its own call. If several ranks wait in one operation, a
// single message is enough. Therefore each rank first delays its message, for a time that depends on its rank and the
// operation (spread()). If another rank's message about the operation arrives in this time, the rank does not send its
// own. So an operation that waits costs only about one flood, in a world of any size.
//
// Two different operations with one sequence number are a conflict, and a conflict ends the world. Then every member
// sends `called`, even if it calls its operation later, or finds out about the conflict only from a message. A rank
// proposes a verdict at the earliest of three times: when it has the calls of all members; 200 ms after the conflict
// began, if the calls show a majority; or 1 s after it began.
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

// Returns how long this rank delays a message that all `ranks` ranks may want to send about the operation. In steps,
// about one of the ranks has the delay 0, one has 1, two have 2, four have 3, and so on. So one rank soon sends, and
// only a few other ranks send before the message of the first rank reaches them. This is also true if only some of the
// ranks want to send. A step is longer than the delivery of a message.
std::chrono::milliseconds spread(int rank, std::size_t ranks, const Signature& operation);

class MismatchDetector {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point

  MismatchDetector(const LocalView& view, const Departures& departures, Flood& flood);

  // waiting(): call when this rank's operation makes no progress. moving(): call when it makes progress again.
  void waiting(const Signature& mine, Time now);
  void moving(const Signature& mine);
  // Call when a peer sent a different operation on a data connection, where operations have no names; `verdict`
  // describes it. `verdict` is proposed only if the calls that the ranks send because of this do not differ.
  void differs(const NamedSignature& mine, int peer, const Signature& theirs, const Verdict& verdict, Time now);
  // Call when the ranks `peers` sent other counts than this rank expects; `verdict` describes one of these ranks.
  void contradicts(const NamedSignature& mine, const std::vector<int>& peers, const Verdict& verdict, Time now);
  void leave(std::uint64_t group);

  void receive_call(int origin, const NamedSignature& theirs, Time now);
  void receive_contradictions(int origin, const NamedSignature& theirs, const std::vector<int>& contradicted);
  // Call when a rank's goodbye has arrived: compares the calls that the goodbye describes with this rank's calls.
  void receive_goodbye(int origin, Time now);

  // Call when a rank left the group, and this rank still expected data from it. True if the two ranks called different
  // operations before the departure.
  bool explains_departure(int rank, std::uint64_t group, Time now);

  // The operations in which this rank waits, by group.
  const std::map<std::uint64_t, NamedSignature>& waits() const { return waits_; }
  // Returns the call with this number that another rank has sent over the control plane, if any has arrived.
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
    std::optional<Verdict> shown;  // proposed verdict, found on a data connection or by a contradiction of counts
    // Calls that came over data connections, where calls have no names. Their ranks may still send them with names.
    std::map<int, NamedSignature> unsaid;
    Time began{0};    // when the conflict began, plus the time in which this process was stopped since then
    Time look_at{0};  // when to check again whether this rank has made its call
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
