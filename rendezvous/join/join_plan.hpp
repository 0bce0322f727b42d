// Decides how this process joins its job, from its settings and the sources found in its environment: its rank, the
// number of ranks, and the ways to meet the other ranks. Pure.
#pragma once
#include <anello/settings.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/join/job_environment.hpp"

namespace anello::rendezvous {

// The remedy for a process that is one of several but cannot join the others. It is the end of a sentence.
inline constexpr std::string_view kRemedies =
    "set ANELLO_RENDEZVOUS=host:port, where `anello rendezvous` listens, on all of them; or ANELLO_SIZE=1, if each is "
    "a program of its own";

struct JoinPlan {
  Settings settings;            // completed with numbers from the environment
  bool alone = false;           // a world of one rank, which needs no rendezvous
  std::vector<Placement> ways;  // ways to meet if ANELLO_RENDEZVOUS is not set; the first way that works is taken
};

// If ANELLO_SIZE is 1 or `anello run` started this process (it sets ANELLO_REPORT_FD for its ranks), the settings alone
// decide, and `found` is ignored. Otherwise the first entry of `found` decides: if it describes one of several tasks,
// the process joins them. If the entry does not, or if `found` is empty, the settings decide too. If the settings
// decide, the process is alone unless ANELLO_RENDEZVOUS is set. Throws Error{configuration} if the settings contradict
// the environment, or if the process is one of several that cannot meet. The message names the process and the
// variables to set.
JoinPlan plan_join(const Settings& settings, const std::vector<Placement>& found);

// Returns a text such as "rank 3 of 6, which meets the others on h0, the first host of Slurm step 7.0".
std::string describe(const JoinPlan& plan);

// For a program that starts a new job, such as `anello run`. If the program is one of several tasks, each of these
// tasks would start the job. So this throws Error{configuration}, unless ANELLO_SIZE=1 says that several jobs are
// intended.
void require_one_copy(const std::string& program, const Settings& settings, const std::vector<Placement>& found);

}  // namespace anello::rendezvous
