// Standard input for rank 0. If it is not a terminal, rank 0 inherits it. A terminal belongs to the launcher's process
// group, and rank 0 is in another one: it gets a pipe, and the launcher reads the terminal for it. It does so only
// while it is in the foreground: in the background, the kernel would stop it, or it would take input meant for other
// programs. Owned by the launcher's loop.
#pragma once
#include <functional>
#include <string>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"

namespace anello::launch {

class Input {
 public:
  Descriptor rank_end();  // call once; returns rank 0's standard input
  void watch(PollSet& polls, const std::function<void()>& line_typed);
  // Ends the input that comes from a terminal. A program with a prompt outlives Ctrl-C: the end of its input ends it,
  // after it has received the signal.
  void end() { to_rank_.close(); }

 private:
  void read_some(const std::function<void()>& line_typed);
  void pass_on();

  Descriptor to_rank_;  // closed: nothing to relay, or rank 0 has closed its end
  std::string bytes_;
};

}  // namespace anello::launch
