// The key-value space of the process manager that started this process, for ranks to meet through.
#pragma once
#include <chrono>
#include <memory>

#include "rendezvous/join/job_environment.hpp"
#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

// `way` is pmi or pmix. Null if there is none; `limit` is for each answer of the process manager. Throws
// Error{unsupported} if this process cannot use it, so that another way may be tried.
std::unique_ptr<KeyValueSpace> open_process_manager(Way way, std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
