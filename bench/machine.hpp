// What the figures were measured on, in the few words that matter.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace anello::bench {

// {"cpu": "...", "cores": 2, "kernel": "...", "congestion": "cubic"}: cores that this process may use, and the system's
// TCP congestion control.
nlohmann::json machine();

}  // namespace anello::bench
