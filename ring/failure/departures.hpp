// Records which rank left which group, and after how many operations. Pure: time is passed in, messages go to the
// Flood.
//
// A rank that leaves a group sends a goodbye: the number of the group's operations that it completed, and a description
// of its last few calls. No operation with this or a higher sequence number can complete any more. A rank that leaves
// the world first sends a goodbye for each of its groups. If no goodbye for a group has arrived 100 ms after the
// goodbye for the world, that rank never made the group; it counts as having left the group after 0 operations. When
// all members have left a group, its records are deleted. A goodbye contains the number of members, because it may
// arrive at a rank that is not in the group, or has not made the group yet.
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
  using Time = std::chrono::milliseconds;        // time since an arbitrary fixed point
  static constexpr std::uint64_t kLastSent = 8;  // number of operations that a goodbye describes

  Departures(const LocalView& view, Flood& flood);

  // Call when this rank leaves the group (0 is the world): sends the goodbye.
  void leave(std::uint64_t group, std::uint64_t completed);
  void note_exception() { by_exception_ = true; }  // later goodbyes say that an exception is the reason
  void receive_goodbye(const ControlMessage& goodbye, Time now);
  // Returns the groups, except the world, that all members have left since the last call. Their records are deleted.
  std::vector<std::uint64_t> take_forgotten();
  // Call when this rank has joined the group. Other members may already have left the world.
  void joined(std::uint64_t group, Time now);

  bool has_left(int rank) const { return completed(rank, 0).has_value(); }
  // Returns the number of the group's operations that the rank completed before it left; empty if it has not left.
  std::optional<std::uint64_t> completed(int rank, std::uint64_t group) const;
  // Returns the first operation of the group that cannot complete, because another rank left the group before that
  // operation. UINT64_MAX if there is no such operation.
  std::uint64_t ends_at(std::uint64_t group) const;
  // Returns operation number `sequence` of the group as the rank called it; empty if its goodbye did not describe it.
  std::optional<NamedSignature> last_called(int rank, std::uint64_t group, std::uint64_t sequence) const;

  std::vector<NamedSignature> last_calls(int rank,
                                         // Returns all operations that the rank's goodbye described.
                                         std::uint64_t group) const;

  // Returns the verdict if a rank left the group before this rank's operation.
  std::optional<Verdict> left_before(const Signature& mine) const;
  // Returns the verdict if any rank had completed at most `completed` of the group's operations when it left the group.
  // `conflict`: describes this rank's work that needs the other rank.
  std::optional<Verdict> any_left(std::uint64_t group, std::uint64_t completed, std::string_view conflict) const;
  // Returns the verdict that the rank has left the group, which must be true. `conflict`: describes this rank's work
  // that needs the other rank.
  Verdict left(int rank, std::uint64_t group, std::string_view conflict) const;

  void tick(Time now);              // call when due() has come
  std::optional<Time> due() const;  // empty: no goodbye is missing

 private:
  struct Departure {
    std::uint64_t completed = 0;
    std::vector<NamedSignature> last;
    bool by_exception = false;
  };
  struct Group {
    std::map<int, Departure> left;       // other ranks
    std::uint64_t ends_at = UINT64_MAX;  // lowest number of completed operations in `left`
    std::size_t members = 0;             // 0: not received yet
    bool own = false;                    // true if this rank has left
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
  std::map<std::uint64_t, Group> groups_;  // groups that some rank has left
  std::vector<MissingGoodbye> missing_;
  bool by_exception_ = false;
  std::vector<std::uint64_t> forgotten_;
};

}  // namespace anello::failure
