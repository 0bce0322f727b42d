// Decides which ranks of a new world send the state and which receive it. All ranks decide alike, from the reports of
// all ranks. Pure; any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "ring/elastic/hash.hpp"

namespace anello::elastic {

// A rank's state when its world begins; see State.
struct Report {
  bool holds = false, clean = false;
  std::uint64_t revision = 0;
  Hash manifest;  // the hash of the names, kinds and sizes of all entries, in order
};

struct Decision {
  std::uint64_t revision = 0;  // the revision that all ranks will have
  // Both lists are in ascending order, and each rank is in one of them. The sources send the state.
  std::vector<int> sources, receivers;
  bool fresh = false;  // true if the job begins, so that no rank has a state of an earlier world
};

// `reports`: by rank. `begun`: true if a rank of this job has had a synchronized state before. The sources are the
// ranks with a complete state of the highest revision. In a job that begins, the source is rank 0, at revision 0. Rank
// 0 has no complete state if it received part of another rank's initial state in a world that failed. In that case no
// other rank becomes the source, because only the ranks that can be rank 0 need to have loaded a checkpoint.
//
// If no rank has a complete state, throws Error{rendezvous}. If manifests differ, throws Error{mismatch}. The rank() of
// the mismatch is the first rank that differs from the source. In a job that begins, it is the first rank that differs
// from the majority, or -1 if there is no majority.
Decision decide(const std::vector<Report>& reports, bool begun);

}  // namespace anello::elastic
