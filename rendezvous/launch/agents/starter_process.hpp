// A process that starts agents: ssh, srun, ... The process reads the task from standard input, and its output is kept
// for messages. Owned by the launcher's loop.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "rendezvous/launch/base/poll_set.hpp"
#include "rendezvous/launch/job/start_command.hpp"
#include "rendezvous/launch/processes/local_ranks.hpp"

namespace anello::launch {

class StarterProcess {
 public:
  // Throws Error{configuration} if the command cannot be executed. Call while this process has one thread.
  StarterProcess(StartCommand command, const Inherited& inherited);
  ~StarterProcess();  // kills the process if it still runs; blocks until it has ended, for at most 1 s
  StarterProcess(const StarterProcess&) = delete;
  StarterProcess& operator=(const StarterProcess&) = delete;

  const StartCommand& command() const { return command_; }
  void give(std::string task) { input_ = std::move(task); }
  void watch(PollSet& polls);
  bool ended();                // checks whether the process has ended
  std::string said();          // the output on one line, without a sentence that comes with every job
  std::string how_it_ended();  // "`ssh h1` exited with status 255: no such host"
  int status() const { return status_; }
  void kill();

 private:
  void write_some();
  void read_some();

  StartCommand command_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;  // status from waitpid()
  Descriptor to_, from_;
  std::string input_, said_;
};

}  // namespace anello::launch
