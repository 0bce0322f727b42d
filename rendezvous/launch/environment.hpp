// The environment of a rank: the launcher's, without the variables that an outer launcher set for its ranks, and with
// this rank's own.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/launch/job.hpp"

namespace anello::launch {

inline constexpr int kSecretDescriptor = 3;     // the descriptor from which a rank reads the job's secret
inline constexpr int kLastWordsDescriptor = 4;  // the socket to which a rank writes its LastWord

// All of these return "NAME=value" entries. `here` has the rank; `rendezvous` is the server's "host:port".
std::vector<std::string> rank_environment(const Job& job, const HostRanks& here, int rank,
                                          const std::string& rendezvous);
std::vector<std::string> variables_set_for(const Job& job, const HostRanks& here, int rank,
                                           const std::string& rendezvous);

}  // namespace anello::launch
