// The key-value space of the process manager that started this process. Ranks can meet through it.
#pragma once
#include <chrono>
#include <memory>

#include "rendezvous/join/job_environment.hpp"
#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

// `way`: pmi or pmix. `limit`: the time limit for each answer of the process manager. Returns null if there is no
// process manager. Throws Error{unsupported} if this process cannot use the process manager, so that another way may be
// tried.
std::unique_ptr<KeyValueSpace> open_process_manager(Way way, std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
