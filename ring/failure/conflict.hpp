// Members of a group that called different operations under one number: whose fault it is, and how that is said. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ring/failure/control_message.hpp"

namespace anello::failure {

struct Conflict {
  std::string group;          // its name, for people; empty: the world
  std::size_t members = 0;    // of the group
  std::map<int, Call> calls;  // by rank
  std::vector<int> missing;   // members that have not called it

  bool add(int rank, const Call& call);  // false: the rank's call has been there
  bool exists() const;                   // two of the calls differ
  bool has_majority() const;             // more than half of all members called the same
};

// The mismatch. If more than half of all members called the same, the others are at fault, and the culprit is the
// lowest of them. Otherwise the message says that it is not clear who is, and there is no culprit. The message names
// up to four different calls with their ranks, first that of the culprit. The conflict exists.
Verdict judge(const Conflict& conflict);

// Ranks that sent a member other counts than it expects, by the member.
using Contradictions = std::map<int, std::vector<int>>;

// The mismatch of the splits of an alltoall, completed from what one member has found, `shown`. At fault is the rank
// that contradicts two others or more, if no rank contradicts as many.
Verdict judge(const Contradictions& contradictions, Verdict shown);

}  // namespace anello::failure
