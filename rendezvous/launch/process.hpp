// Starting one program: fork and exec, with the descriptors it is to have and no others. To be called in a process of
// one thread (the keeper). Everything that needs memory is made ready before the fork.
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
  int secret;  // becomes kSecretDescriptor; -1: none
  const sigset_t& signal_mask;
  unsigned long open_files_limit;
  const cpu_set_t* cores;  // null: as this process
};

// Leads a process group of its own, and is killed when this process dies.
struct Started {
  pid_t pid = -1;
  int error = 0;  // why there is none
};
Started start(const Program& program);

// What `ps` shows of this process, whose own argv starts at `argv`.
void rename_process(char** argv, const std::string& name, const std::string& title);

}  // namespace anello::launch
