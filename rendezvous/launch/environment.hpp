// The environment of a rank: the launcher's, without the variables that an outer launcher set for its ranks, and with
// this rank's own.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/launch/job.hpp"

namespace anello::launch {

inline constexpr int kSecretDescriptor = 3;     // the descriptor from which a rank reads the job's secret
inline constexpr int kLastWordsDescriptor = 4;  // the socket to which a rank writes its LastWord

// Returns "NAME=value" entries. `port` is where the rendezvous listens on this host.
std::vector<std::string> rank_environment(const Job& job, int rank, std::uint16_t port);

}  // namespace anello::launch
