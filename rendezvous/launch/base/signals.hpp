// Receives signals through a descriptor. The constructor blocks every signal in the calling thread, permanently;
// threads and processes that are started later inherit the blocked signals. So a broken pipe, or reading a terminal in
// the background, gives an error code instead of a signal. The wanted signals are queued in the descriptor. A signal
// that was ignored when this program started (by nohup) stays ignored. Exception: a shell starts background jobs with
// SIGINT and SIGQUIT ignored, to protect them from the terminal's keys. These two signals are ignored if the terminal
// sends them, but not if a process sends them.
#pragma once
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/base/descriptor.hpp"

namespace anello::launch {

class Signals {
 public:
  explicit Signals(const std::vector<int>& wanted);

  int fd() const { return queue_.get(); }  // readable when next() returns a signal
  std::optional<int> next();               // the next queued signal, if any; does not block
  // True if the signal that next() has returned last was sent by the kernel for a terminal, and not by a process.
  bool came_from_terminal() const { return came_from_terminal_; }
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_{};
  Descriptor queue_;
  sigset_t ignored_from_terminal_{};
  bool came_from_terminal_ = false;
};

// True for the signals with which a person, a scheduler, a watchdog or a time limit ends programs.
bool ends_programs(int signal);
std::vector<int> ending_signals_and(std::vector<int> others);

// Stops this process as Ctrl-Z does. The process must have SIGTSTP blocked. Returns when the shell continues the
// process.
void stop_until_continued();

std::string signal_text(int signal);  // "signal 9 (Killed)"

}  // namespace anello::launch
