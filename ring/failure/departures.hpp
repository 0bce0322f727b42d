// Which rank left which group, and after how many operations. Pure: time is passed in, messages go to the Flood.
//
// A rank that leaves a group sends a goodbye: how many operations of the group it completed, and what the last few
// were. No operation of that number or above can complete any more. A rank that leaves the world first sends a goodbye
// for each group; a group for which none has come when the world's has been here for 100 ms never existed on that rank,
// and counts as left after 0 operations. When all members of a group have left it, the group is forgotten. A goodbye
// says how many members there are, because it may arrive at a rank that is not in the group, or has not made it yet.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "ring/failure/flood.hpp"
#include "ring/failure/local_view.hpp"

namespace anello::failure {

class Departures {
 public:
  using Time = std::chrono::milliseconds;        // since any fixed point
  static constexpr std::uint64_t kLastSent = 8;  // operations that a goodbye describes

  Departures(const LocalView& view, Flood& flood);

  // This rank leaves the group (0 is the world): sends the goodbye.
  void leave(std::uint64_t group, std::uint64_t completed);
  void note_exception() { by_exception_ = true; }  // it is why this rank leaves: its goodbyes say so from now on
  void receive_goodbye(const ControlMessage& goodbye, Time now);
  // Groups other than the world that all members have left since the last call; nothing is known about them any more.
  std::vector<std::uint64_t> take_forgotten();
  // This rank has joined the group; members of it may have left the world before.
  void joined(std::uint64_t group, Time now);

  bool has_left(int rank) const { return completed(rank, 0).has_value(); }
  // Operations of the group that the rank completed before it left; nothing if it has not left.
  std::optional<std::uint64_t> completed(int rank, std::uint64_t group) const;
  // The first operation of the group that cannot complete, because another rank left before it; UINT64_MAX if none.
  std::uint64_t ends_at(std::uint64_t group) const;
  // The operation that the rank called under that number, if its goodbye described it.
  std::optional<Call> last_called(int rank, std::uint64_t group, std::uint64_t sequence) const;

  std::vector<Call> last_calls(int rank, std::uint64_t group) const;  // all that its goodbye described

  // The verdict if a rank left the group before this rank's operation.
  std::optional<Verdict> left_before(const Signature& mine) const;
  // The verdict if any rank left the group after no more than `completed` of its operations. `conflict` as below.
  std::optional<Verdict> any_left(std::uint64_t group, std::uint64_t completed, std::string_view conflict) const;
  // That the rank left the group, which it did. `conflict` says what this rank did that needs it.
  Verdict left(int rank, std::uint64_t group, std::string_view conflict) const;

  void tick(Time now);              // call when due() has come
  std::optional<Time> due() const;  // nothing: no goodbye is missing

 private:
  struct Departure {
    std::uint64_t completed = 0;
    std::vector<Call> last;
    bool by_exception = false;
  };
  struct Group {
    std::map<int, Departure> left;       // other ranks
    std::uint64_t ends_at = UINT64_MAX;  // the lowest of their numbers of operations
    std::size_t members = 0;             // 0: not known yet
    bool own = false;                    // this rank has left
  };
  struct MissingGoodbye {
    int rank = -1;
    std::uint64_t group = 0;
    Time due{0};
  };
  Verdict left(int rank, std::uint64_t group, std::string_view when, std::string_view conflict) const;
  void await_goodbye(int rank, std::uint64_t group, Time now);
  void note(int rank, std::uint64_t group, std::size_t members, Departure departure);
  void forget_if_all_left(std::uint64_t group);
  const Departure* departure(int rank, std::uint64_t group) const;

  const LocalView& view_;
  Flood& flood_;
  std::map<std::uint64_t, Group> groups_;  // that a rank has left
  std::vector<MissingGoodbye> missing_;
  bool by_exception_ = false;
  std::vector<std::uint64_t> forgotten_;
};

}  // namespace anello::failure
