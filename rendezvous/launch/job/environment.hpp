// The environment of a rank: the launcher's environment, without the variables that an outer launcher set for its own
// ranks, and with the variables for this rank.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

inline constexpr int kSecretDescriptor = 3;     // the descriptor from which a rank reads the job's secret
inline constexpr int kLastWordsDescriptor = 4;  // the socket to which a rank writes its LastWord

// Where a rank meets the other ranks.
struct MeetingPlaces {
  std::string rendezvous;  // the server's "host:port"
  Master master;
};

// The two functions below return "NAME=value" entries. `here`: the rank's host; for rank_environment() it must be this
// process's host. `starts`: how often this rank of an elastic job was started before. `threads`: how many threads a
// rank on this host may keep busy.
std::vector<std::string> rank_environment(const Job& job, const HostRanks& here, int rank, const MeetingPlaces& places,
                                          int starts);
std::vector<std::string> variables_set_for(const Job& job, const HostRanks& here, int rank, const MeetingPlaces& places,
                                           const std::string& threads);

// Returns each rank's share of this host's cores.
std::string threads_of_rank(const HostRanks& here);

// True if this process has the environment variable, even with an empty value.
bool is_set(std::string_view name);

// Throws Error{configuration} if -x names a variable that `anello run` itself sets to another value.
void check_exported(const Job& job);

}  // namespace anello::launch
