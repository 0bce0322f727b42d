// What the benchmark programs have in common, whatever library they measure: the command line with a subcommand for
// each operation, the run, and the exit code.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/collective.hpp"

namespace CLI {
class App;
}

namespace anello::bench {

// A subcommand that sees to its world itself, if it needs one.
struct Command {
  std::string name, sentence;
  std::function<std::function<int()>(CLI::App&)> add;  // its flags; returns what then carries it out: the exit code
};

struct Program {
  std::string name, sentence;
  std::function<void(CLI::App&)> add_flags;  // the library's own
  // Joins the world, once the command line is right, and calls `run` with it.
  std::function<int(const std::function<int(Library&)>& run)> join;
  std::vector<Command> alone;
};

// Returns the exit code: 0, 1 (an error, or a wrong result), 2 (the command line). Throws nothing.
int run_program(const Program& program, int argc, char** argv);

}  // namespace anello::bench
