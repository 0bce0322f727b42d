// Who waits for whom in operations that make no progress. Pure: time is passed in, messages go to the Flood.
//
// A rank whose operation makes no progress sends `waiting` soon. Every rank compares this with what the other ranks
// wait in or called last; two different operations of one number are a mismatch, and end the world. Later the rank
// sends `stalled`. A rank that has not begun that operation answers `absent`, with the operation that it called last.
// 300 ms after the first of these messages every rank has the same report of who waits and who is absent; if the
// operation is overdue on this rank, the report becomes a verdict against the lowest absent rank.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ring/failure/departures.hpp"
#include "ring/failure/flood.hpp"
#include "ring/failure/local_view.hpp"

namespace anello::failure {

class StallReports {
 public:
  using Time = std::chrono::milliseconds;   // since any fixed point
  static constexpr Time kReportAfter{300};  // time for all ranks to answer

  StallReports(const LocalView& view, const Departures& departures, Flood& flood);

  // This rank's operation makes no progress; for long enough to report it; for so long that the world should end. The
  // verdict is a mismatch.
  std::optional<Verdict> waiting(const Signature& mine);
  void stalled(const Signature& mine, Time now);
  void overdue(const Signature& mine, Time now);

  std::optional<Verdict> receive_waiting(int origin, const Signature& operation);
  void receive_stalled(int origin, const Signature& operation, Time now);
  void receive_absent(const ControlMessage& absent, Time now);

  // Compares what the rank waits in, or called last before it left, with the operations of all other ranks.
  std::optional<Verdict> mismatch(int rank) const;

  void forget(std::uint64_t group);  // all members have left it

  struct Completed {
    std::vector<std::string> reports;  // one line for each stall
    std::optional<Verdict> overdue;
  };
  Completed tick(Time now);         // call when due() has come
  std::optional<Time> due() const;  // nothing: no stall is being reported

 private:
  struct Stall {
    Signature operation;
    std::set<int> waiting;
    std::map<int, std::string> absent;  // and the operation that they called last; empty: none
    bool overdue = false;
    Time due{0};
  };

  Stall& stall(std::uint64_t group, std::uint64_t sequence, Time now);
  void answer_if_absent(const Signature& operation, Stall& stall);
  std::string report(const Stall& stall) const;
  std::optional<Signature> called(int rank, std::uint64_t group, std::uint64_t sequence) const;
  std::optional<Verdict> mismatch(int rank, const Signature& waits, int other) const;
  std::optional<Verdict> mismatch(int rank, int other) const;

  const LocalView& view_;
  const Departures& departures_;
  Flood& flood_;
  std::vector<std::map<std::uint64_t, Signature>> waiting_;          // by rank, then by group
  std::map<std::pair<std::uint64_t, std::uint64_t>, Stall> stalls_;  // by group and number
};

}  // namespace anello::failure
