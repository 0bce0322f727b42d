// All processes of an elastic job: which of them the server awaits, and which can form the next world. Pure. The
// membership owns the processes.
#pragma once
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "rendezvous/server/elastic_process.hpp"
#include "rendezvous/server/server.hpp"

namespace anello::rendezvous {

using ElasticProcesses = std::map<MemberId, ElasticProcess>;

enum class WorldPhase {
  gathering,  // processes enter the next world
  starting,   // the ranks of the newest world connect to each other
  steady,     // the newest world runs
  counting,   // the newest world runs, and its ranks are asked for their commits
  announced   // the ranks have received the commit at which the newest world ends
};

std::size_t members_of(const ElasticProcesses& all);  // processes of the newest world that have not ended

// Returns the processes that can form the next world: the processes of the last world, and then processes in the lobby
// in the order of joining, until there are `max`. Leaves out processes in the lobby that have not answered lately,
// because they may be stopped, and would delay the others.
std::vector<MemberId> candidates_of(const ElasticProcesses& all, int max);

// True if the world cannot go on or change before the process has sent something.
bool is_awaited(WorldPhase phase, const ElasticProcess& process);
std::vector<MemberId> awaited_of(WorldPhase phase, const ElasticProcesses& all);

// True for processes that are awaited, and for processes in the lobby. If `world_ends`, because a process of the world
// has ended or finished, also true for the other processes of the world: they must enter again soon, and perhaps no
// other process of the world would notice that one of them is stopped.
bool must_answer(WorldPhase phase, bool world_ends, const ElasticProcess& process);

struct Silent {
  MemberId id;
  std::chrono::milliseconds limit;  // it has not answered for so long
};

inline constexpr std::chrono::milliseconds kInquiryInterval{1000};  // between two questions to a process

// Returns the processes that are silent for too long. They may be suspended together, or have no core, if there is a
// state to lose (`has_state`), several processes have it, and none of these answers. Then the job waits for them as
// long as for new processes.
std::vector<Silent> silent_of(const ElasticProcesses& all, const ElasticLimits& limits, bool has_state, Time now);

// When processes that were asked to leave may do so.
struct LeaveRules {
  std::uint32_t newest_world = 0;  // a process has the state if it has trained in this world
  bool state_matters = true;       // false if the job has no state yet, needs none any more, or cannot hand it over
  bool awaits_newcomers = false;   // true if further processes are on their way
  bool ended_as_planned = false;   // the newest world has ended at a commit, and no rank of it was lost
  bool at_successor = false;       // true while processes return to the successor of their server
};

// If only processes that were asked to leave have the state, but another process may get it, returns the oldest of
// those that have it. This process stays until another process has the state.
std::optional<MemberId> keeper_of(const ElasticProcesses& all, const LeaveRules& rules);

// True if this process, which is in no world and was asked to leave, may leave now. If its world has failed, it may
// leave only after another process that has the state has entered. Otherwise this process takes part in the next world,
// and leaves that world at a commit. Without this rule, the state could leave with this process just before the
// launcher replaces the process that has failed. A process that goes on at a successor leaves only after the first
// world there, because this world may need it for its majority.
bool may_leave(const ElasticProcesses& all, MemberId id, const LeaveRules& rules);

// True if processes in the lobby can go into a new world of at most `max` ranks, or a process other than `keeper` is to
// leave.
bool want_change(const ElasticProcesses& all, int max, std::optional<MemberId> keeper);

}  // namespace anello::rendezvous
