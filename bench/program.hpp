// What the benchmark programs have in common, whatever library they measure: the command line with a subcommand for
// each operation, the run, and the exit code.
#pragma once
#include <functional>
#include <string>

#include "bench/collective.hpp"

namespace CLI {
class App;
}

namespace anello::bench {

struct Program {
  std::string name, sentence;
  std::function<void(CLI::App&)> add_flags;  // the library's own
  // Joins the world, once the command line is right, and calls `run` with it.
  std::function<int(const std::function<int(Library&)>& run)> join;
};

// Returns the exit code: 0, 1 (an error, or a wrong result), 2 (the command line). Throws nothing.
int run_program(const Program& program, int argc, char** argv);

}  // namespace anello::bench
