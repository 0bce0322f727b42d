// What `anello run` is to run. The command line sets it; the other parts of the launcher only read it.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace anello::launch {

struct Job {
  std::vector<std::string> command;
  int size = 1;
  std::string name;    // different for each run
  std::string secret;  // empty if this build cannot authenticate
  std::string output_folder;
  std::chrono::milliseconds grace{2000};
  bool bind = false;  // each rank runs on its own cores
  int columns = 0;    // width of the terminal for rank 0; 0: standard output is not a terminal
};

}  // namespace anello::launch
