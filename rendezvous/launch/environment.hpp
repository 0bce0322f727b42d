// What a rank finds in its environment: the launcher's own, less what an outer launcher gave, plus who it is.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/launch/job.hpp"

namespace anello::launch {

inline constexpr int kSecretDescriptor = 3;  // where a rank finds the job's secret

// "NAME=value" entries for the rank whose rendezvous listens on `port` of this host.
std::vector<std::string> rank_environment(const Job& job, int rank, std::uint16_t port);

}  // namespace anello::launch
