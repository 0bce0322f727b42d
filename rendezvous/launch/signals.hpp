// Signals as something to read. From construction on every signal is blocked in the calling thread and in the threads
// and processes that it starts, for good (a broken pipe is then an error code, and reading a terminal from the
// background too), and the wanted ones wait in a descriptor. A signal that whoever started this program chose to
// ignore (nohup, a shell's background job) stays ignored.
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

  int fd() const { return queue_.get(); }  // readable when next() has something
  std::optional<int> next();               // never blocks
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_{};
  Descriptor queue_;
};

std::string signal_text(int signal);  // "signal 9 (Killed)"

}  // namespace anello::launch
