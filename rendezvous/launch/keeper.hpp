// The keeper: a process between the launcher and the ranks. It starts the ranks, passes signals on, reports ends, and
// when the launcher dies in whatever way it ends everything below it. It is in a session of its own (what kills the
// launcher's process group misses it) and adopts orphans, so that a rank's children cannot get away. If the keeper
// itself is killed, the kernel kills the ranks and the launcher adopts and ends what they leave.
#pragma once
#include <csignal>
#include <vector>

#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/job.hpp"

namespace anello::launch {

// The keeper's ends of what connects a rank with the launcher.
struct RankEnds {
  Descriptor in, out, err;  // no in: nothing; no err: the same as out
};

struct KeeperConfig {
  const Job& job;
  Descriptor channel;
  std::vector<RankEnds> ranks;
  sigset_t signal_mask;  // and the limit: as ranks are to have them
  unsigned long open_files_limit;
  char** argv;
};

// Runs the keeper to its end. Called in a new process of one thread; closes every other descriptor but the standard
// ones. It holds on to those, so that who reads our output to its end knows that no rank is left.
[[noreturn]] void keep(KeeperConfig keeping);

}  // namespace anello::launch
