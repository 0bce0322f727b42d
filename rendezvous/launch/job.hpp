// What is to be run: filled in by the command line, read by everybody here, changed by nobody.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace anello::launch {

struct Job {
  std::vector<std::string> command;
  int size = 1;
  std::string name;    // differs from run to run
  std::string secret;  // empty: this build cannot authenticate
  std::string output_folder;
  std::chrono::milliseconds grace{2000};
  bool bind = false;  // each rank to cores of its own
  int columns = 0;  // width that rank 0 may draw on; 0: standard output is no terminal
};

}  // namespace anello::launch
