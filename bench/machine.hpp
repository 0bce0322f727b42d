// Describes the machine on which figures were measured.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace anello::bench {

// Returns {"cpu": "...", "cores": 2, "kernel": "...", "congestion": "cubic"}. `cores`: the number of cores that this
// process may use. `congestion`: the system's TCP congestion control.
nlohmann::ordered_json machine();

// Returns the bytes that were sent over the loopback interface of this process's network namespace.
std::uint64_t loopback_bytes();

}  // namespace anello::bench
