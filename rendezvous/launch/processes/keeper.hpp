// The keeper is a process between the launcher and the ranks. It starts the ranks, passes signals on to them, and
// reports which ranks have ended. When the launcher dies, for any reason, the keeper kills all processes below it. It
// has its own session, so signals to the launcher's process group do not reach it. It adopts orphans, so children of a
// rank do not survive. If the keeper itself is killed, the kernel kills the ranks, and the launcher adopts and kills
// the processes that they leave behind.
//
// In an elastic job, the launcher orders the start of each rank. When a rank's process has ended, the keeper kills the
// processes that it has left behind, and the launcher may order the start of another process, which gets the same
// pipes.
//
// The process that started the keeper may be an agent, which ends all ranks when its lifeline to the launcher breaks. A
// stopped agent cannot do this. So the keeper watches the lifeline too, and continues the agent when it breaks.
#pragma once
#include <csignal>
#include <string>
#include <vector>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

// The rank's ends of the pipes between it and the launcher; the keeper passes them on. Without `in` the rank reads
// /dev/null. Without `err` it has one pipe for both outputs.
struct RankEnds {
  Descriptor in, out, err;  // without `in`: /dev/null; without `err`: the same pipe as `out`
};

struct KeeperConfig {
  const Job& job;
  const HostRanks& here;        // the ranks to start
  std::string rendezvous_host;  // where the ranks find the rendezvous
  Master master;
  Descriptor channel;
  Descriptor last_words;           // the socket to which all ranks write their last words
  std::vector<RankEnds> ranks;     // the ranks' pipe ends, in the order of the ranks
  sigset_t signal_mask;            // for the ranks
  unsigned long open_files_limit;  // for the ranks
  char** argv;                     // argument of main()
  Descriptor lifeline;             // connects the agent that started the keeper with its launcher; may be empty
};

// Runs the keeper until it ends, and exits. Call in a new process with one thread. It closes all descriptors except
// those of `config` and the standard ones. It keeps the standard descriptors open until no rank is left, so that a
// reader sees the end of this program's output only after all ranks have ended.
[[noreturn]] void run_keeper(KeeperConfig config);

}  // namespace anello::launch
