// Starts one program by fork and exec, with only the given descriptors. Only for a process with one thread (the
// keeper). Allocates all memory before the fork.
#pragma once
#include <sched.h>
#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace anello::launch {

struct Program {
  const std::vector<std::string>& command;      // looked up in PATH
  const std::vector<std::string>& environment;  // "NAME=value"
  int in, out, err;
  int secret;      // becomes kSecretDescriptor; -1: none
  int last_words;  // becomes kLastWordsDescriptor
  const sigset_t& signal_mask;
  unsigned long open_files_limit;
  const cpu_set_t* cores;  // null: the cores of this process
};

// A started process. It leads its own process group, and the kernel kills it when this process dies.
struct Started {
  pid_t pid = -1;
  int error = 0;  // why the program could not be started (start_problem.hpp); 0: it was started
};
Started start(const Program& program);

// Changes the name and command line that `ps` shows for this process. `argv`: the argument of main().
void rename_process(char** argv, const std::string& name, const std::string& title);

}  // namespace anello::launch
