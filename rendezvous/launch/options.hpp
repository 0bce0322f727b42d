// The command line of `anello run`.
#pragma once
#include <optional>

#include "rendezvous/launch/command_line.hpp"
#include "rendezvous/launch/job.hpp"

namespace anello::launch {

// Sets `job`; or returns the exit code after printing help or a mistake. Throws Error{configuration} that names the
// option.
std::optional<int> parse_run(Words words, Job& job);

}  // namespace anello::launch
