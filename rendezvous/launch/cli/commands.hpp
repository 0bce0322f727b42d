// The program `anello`: one function for each subcommand.
#pragma once

namespace anello::launch {

// Returns the exit code. Errors are printed to standard error.
int run_program(int argc, char** argv);

}  // namespace anello::launch
