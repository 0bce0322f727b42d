// Receives signals through a descriptor. The constructor blocks every signal in the calling thread, permanently;
// threads and processes started later inherit that. So a broken pipe and reading a terminal from the background are
// error codes. The wanted signals are queued in the descriptor. A signal that was ignored when this program started (by
// nohup) stays ignored. A shell starts background jobs with SIGINT and SIGQUIT ignored, to protect them from the
// terminal's keys: from a terminal these two stay ignored, but a process may send them.
#pragma once
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/descriptor.hpp"

namespace anello::launch {

class Signals {
 public:
  explicit Signals(const std::vector<int>& wanted);

  int fd() const { return queue_.get(); }  // readable when next() returns a signal
  std::optional<int> next();               // the next queued signal, if any; does not block
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_{};
  Descriptor queue_;
  sigset_t ignored_from_terminal_{};
};

// Whether a person, a scheduler, a watchdog or a limit of time ends programs by it.
bool ends_programs(int signal);
std::vector<int> ending_signals_and(std::vector<int> others);

// As Ctrl-Z does: stops this process, which must have SIGTSTP blocked. Returns when the shell continues it.
void stop_until_continued();

std::string signal_text(int signal);  // "signal 9 (Killed)"

}  // namespace anello::launch
