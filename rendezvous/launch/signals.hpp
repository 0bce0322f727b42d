// Receives signals through a descriptor. The constructor blocks every signal in the calling thread, permanently;
// threads and processes started later inherit that. So a broken pipe and reading a terminal from the background are
// error codes. The wanted signals are queued in the descriptor. A signal that was ignored when this program started (by
// nohup, or in a background job of a shell) stays ignored.
#pragma once
#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>

#include "rendezvous/launch/descriptor.hpp"

namespace anello::launch {

class Signals {
 public:
  explicit Signals(std::initializer_list<int> wanted);

  int fd() const { return queue_.get(); }  // readable when next() returns a signal
  std::optional<int> next();               // the next queued signal, if any; does not block
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_{};
  Descriptor queue_;
};

std::string signal_text(int signal);  // "signal 9 (Killed)"

}  // namespace anello::launch
