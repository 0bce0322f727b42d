// Describes the machine on which figures were measured.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace anello::bench {

// Returns {"cpu": "...", "cores": 2, "kernel": "...", "congestion": "cubic"}. `cores`: the number of cores that this
// process may use. `congestion`: the system's TCP congestion control.
nlohmann::ordered_json machine();

}  // namespace anello::bench
