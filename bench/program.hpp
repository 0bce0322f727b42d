// The common part of the benchmark programs of all libraries: parses a command line with a subcommand for each
// operation, runs the subcommand, and makes the exit code.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/collective.hpp"
#include "bench/library.hpp"

namespace CLI {
class App;
}

namespace anello::bench {

// A subcommand that joins a world by itself if it needs one.
struct Command {
  std::string name, sentence;
  std::function<std::function<int()>(CLI::App&)>
      add;  // adds the subcommand's flags; returns a function that runs the subcommand and returns the exit code
};

struct Program {
  std::string name, sentence;
  std::function<void(CLI::App&)> add_flags;  // adds the flags of the library
  // Call after the command line was parsed. Joins the world and calls `run` with the library.
  std::function<int(const std::function<int(Library&)>& run)> join;
  std::vector<Command> alone;
};

// Returns the exit code: 0, 1 (an error, or a wrong result), 2 (the command line). Throws nothing.
int run_program(const Program& program, int argc, char** argv);

}  // namespace anello::bench
