// A conflict: members of a group called different operations with one sequence number. Finds the rank at fault, and
// describes the conflict. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ring/failure/control_message.hpp"

namespace anello::failure {

struct Conflict {
  std::string group;                    // name of the group, for the text; empty: the world
  std::size_t members = 0;              // size of the group
  std::map<int, NamedSignature> calls;  // by rank
  std::vector<int> missing;             // members that have not called this operation

  bool add(int rank, const NamedSignature& call);  // false if the rank's call was added before
  bool exists() const;                             // true if two of the calls differ
  bool has_majority() const;                       // true if more than half of all members made the same call
};

// Returns the mismatch. If more than half of all members made the same call, the remaining members are at fault, and
// the culprit is the lowest of them. Otherwise there is no culprit, and the message says that it is not clear who is at
// fault. The message names up to four different calls with their ranks, the culprit's first. The conflict must exist.
Verdict judge(const Conflict& conflict);

// The key is a rank that received wrong counts; the value lists the ranks that sent these counts.
using Contradictions = std::map<int, std::vector<int>>;

// Returns the mismatch of an alltoall's splits: the verdict `shown`, which one member has found, with the culprit
// added. The culprit is the rank that contradicts the most other ranks. There is no culprit if two ranks contradict the
// same number of ranks.
Verdict judge(const Contradictions& contradictions, Verdict shown);

}  // namespace anello::failure
