// The command line of `anello run`.
#pragma once
#include <optional>

#include "rendezvous/launch/cli/command_line.hpp"
#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

// Sets `job`, or prints help or a mistake and returns the exit code. Throws Error{configuration} that names the option.
std::optional<int> parse_run(Words words, Job& job);

}  // namespace anello::launch
