// What the server has counted, as a page for Prometheus. Pure.
#pragma once
#include <string>
#include <string_view>

#include "rendezvous/server.hpp"

namespace anello::rendezvous {

std::string page(std::string_view job, const ServerStats& stats);

}  // namespace anello::rendezvous
