// The rendezvous server's counters as text for Prometheus. Pure.
#pragma once
#include <string>
#include <string_view>

#include "rendezvous/server/server.hpp"

namespace anello::rendezvous {

std::string server_metrics(std::string_view job, const ServerStats& stats);

}  // namespace anello::rendezvous
