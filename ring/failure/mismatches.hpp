// Whether the ranks of a group called different operations. Pure: time is passed in, messages go to the Flood.
//
// A rank in whose operation nothing moves for a while says `waiting`, and every member compares that with what it
// called itself: two different operations of one number are a mismatch, and end the world. Ranks that wait in the same
// operation would all say the same, so each delays its message by a time drawn by its rank (spread()), and says nothing
// if another rank said it before. So an operation that waits costs about one flood, in a world of any size.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

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

  // This rank's operation makes no progress, or makes progress again. The verdict is a mismatch.
  std::optional<Verdict> waiting(const Signature& mine, Time now);
  void moving(const Signature& mine);
  // A peer sent another operation on its data connection. The verdict says so without the name of the peer's operation,
  // so that the peer is asked first: it receives this rank's operation, and proposes both names. After kNameLimit the
  // verdict is returned by tick().
  void differs(const Signature& mine, const Verdict& verdict, Time now);
  void leave(std::uint64_t group);

  std::optional<Verdict> receive_waiting(int origin, const Call& theirs);
  // What the rank called last, as its goodbye says.
  std::optional<Verdict> receive_goodbye(int origin) const;
  // Did this rank call a different operation under that number?
  std::optional<Verdict> compare(int other, const Call& theirs) const;

  // The operations in which this rank waits, by group.
  const std::map<std::uint64_t, Call>& waits() const { return waits_; }

  std::optional<Verdict> tick(Time now);  // call when due() has come
  std::optional<Time> due() const;        // nothing: there is nothing to say

 private:
  static constexpr std::size_t kMaxReceived = 8;  // of a group; older ones are forgotten
  static constexpr Time kNameLimit{1000};
  struct Received {
    int rank = -1;
    Call operation;
  };
  struct Pending {
    Call operation;
    Time due{0};
  };
  struct Unnamed {
    Verdict verdict;
    Time due{0};
  };
  bool was_said(const Signature& operation) const;
  void remember(int rank, const Call& operation);
  void say(const Call& operation);

  const LocalView& view_;
  const Departures& departures_;
  Flood& flood_;
  std::map<std::uint64_t, Call> waits_;
  std::map<std::uint64_t, std::deque<Received>> received_;  // by group; the newest last
  std::vector<Pending> pending_;
  std::optional<Unnamed> unnamed_;
};

}  // namespace anello::failure
