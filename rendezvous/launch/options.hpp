// `anello run`'s command line.
#pragma once
#include <optional>

#include "rendezvous/launch/command_line.hpp"
#include "rendezvous/launch/job.hpp"

namespace anello::launch {

// Fills in `job`; or the exit code, after help or a mistake. Throws Error{configuration} that names the option.
std::optional<int> parse_run(Words words, Job& job);

}  // namespace anello::launch
