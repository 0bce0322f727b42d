// How the ranks agree on why the world ends. Pure: no sockets, no clock (time is passed in); one thread.
//
// Who notices something proposes a verdict to the arbiter, the lowest rank that is alive; the arbiter publishes the
// first it hears of, and everybody adopts what is published. Where that does not come within 300 ms, every rank
// publishes the proposal of the lowest rank it has heard of, which is the same for all who hear each other. Frames are
// flooded over the control connections: whatever was not seen before goes out to every neighbour, so it reaches all who
// are connected at all.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ring/failure/control_message.hpp"

namespace anello {

class FailureAgreement {
 public:
  using Time = std::chrono::milliseconds;  // since any fixed point
  static constexpr Time kArbiterLimit{300};
  static constexpr Time kSuspicionLimit{100};
  static constexpr Time kQuiet{60000};      // before a slow rank is reported again
  static constexpr Time kReportAfter{300};  // time for all to say that they wait, or that they do not
  // This rank's operation of that number in the group, where it is still remembered.
  using Recall = std::function<std::optional<Signature>(std::uint64_t group, std::uint64_t sequence)>;

  FailureAgreement(int rank, std::vector<std::string> hosts, Recall recall);  // one host a rank

  // News. Each may leave frames in the outbox and may lead to the verdict.
  void receive(std::string_view frame, Time now);       // throws Error{protocol} if it is none
  void lost(int rank, std::string_view how, Time now);  // its control connection ended
  void silent(int rank, Time since, Time now);          // nothing was heard of it for so long
  // It keeps this rank waiting: reported, each rank once in a while.
  void slow(const Straggler& lag, Time now);
  // A data connection of the group ended: give the control plane time to say why.
  void suspect(int rank, std::uint64_t group, std::string_view how, Time now);
  // This rank is in the group of those members; its name is for people. That of the world is there from the beginning.
  void enroll(std::uint64_t group, std::string name, std::vector<int> members, Time now);
  void propose(const Verdict& verdict, Time now);
  void waiting(const Signature& mine, Time now);  // this rank's operation does not get on
  void stalled(const Signature& mine, Time now);  // and has not for so long that people should know
  void overdue(const Signature& mine, Time now);  // and the world is to end, once it is known who waits for whom
  void needs(const Signature& mine, Time now);    // this rank's operation began; somebody may have left before it
  void goodbye(std::uint64_t group, std::uint64_t completed);  // this rank leaves it after so many operations
  void tick(Time now);                                         // when due() has come

  std::vector<std::string> take_outbox();
  // Who waits for whom in operations that have stalled: the same on all ranks, one line each.
  std::vector<std::string> take_reports();
  const std::optional<Verdict>& verdict() const { return verdict_; }
  std::optional<Time> due() const;
  bool has_left(int rank) const { return members_[std::size_t(rank)].parted.contains(0); }
  // No operation of the group with this number or above can be completed: somebody left it.
  std::uint64_t ends_at(std::uint64_t group) const;

 private:
  struct Member {
    std::string host;
    bool dead = false;
    std::optional<Time> called_slow;
    std::map<std::uint64_t, std::uint64_t> parted;         // from a group, after so many operations; the world is 0
    std::map<std::uint64_t, Signature> waiting;            // by group
    std::map<std::uint64_t, std::vector<Signature>> last;  // of a group that it left
    std::uint32_t newest = 0;  // number of its newest frame, and which of the 64 before were seen
    std::uint64_t seen = 0;
  };
  struct Pending {
    int rank = -1;
    std::uint64_t group = 0;
    Verdict verdict;
    Time due{0};
  };
  struct Group {
    std::string name;
    std::vector<int> members;
  };
  // A rank left the world and has not said how far it came in a group. Unless that is still on its way, it never made
  // it.
  struct Absence {
    int rank = -1;
    std::uint64_t group = 0;
    Time due{0};
  };
  struct Stall {
    Signature operation;
    std::set<int> waiting;
    std::map<int, std::string> absent;  // and what they called last
    bool overdue = false;
    Time due{0};
  };
  static constexpr int kLast = 8;  // operations that a goodbye tells of

  void act(ControlMessage frame, Time now);
  bool first_sight(Member& origin, std::uint32_t number);
  void flood(ControlMessage frame);
  void decide(const Verdict& verdict);
  void consider(int origin, const Verdict& verdict, Time now);  // publish it if this rank is the arbiter
  void compare(int rank, Time now);
  bool compare(int rank, int other, Time now);
  bool compare(int rank, const Signature& waits, int other, Time now);
  std::optional<Signature> called(int rank, std::uint64_t group, std::uint64_t sequence) const;
  std::optional<std::uint64_t> parted_after(int rank, std::uint64_t group) const;
  int arbiter() const;
  Stall& stall(std::uint64_t group, std::uint64_t sequence, Time now);
  void say_if_absent(const Signature& operation, Time now);
  std::string report(const Stall& stall) const;
  void report(int complains, const Straggler& lag, Time now);
  void settle(const Stall& stall, Time now);
  void note_absence(int rank, std::uint64_t group, Time now);
  Verdict dead(int rank, std::string_view how) const;
  Verdict left(int rank, std::uint64_t group, std::string_view but) const;
  std::string named(int rank) const;

  int rank_;
  Recall recall_;
  std::vector<Member> members_;
  std::uint32_t number_ = 0;
  std::map<std::uint64_t, Group> groups_;  // those that this rank is in
  std::vector<Absence> absences_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Stall> stalls_;  // by group and number
  std::vector<std::string> reports_;
  std::optional<Verdict> verdict_;
  std::map<int, Verdict> proposals_;  // by the rank that made them
  std::optional<Time> decide_by_;     // where the arbiter has not
  std::vector<Pending> suspects_;
  std::vector<std::string> outbox_;
};

}  // namespace anello
