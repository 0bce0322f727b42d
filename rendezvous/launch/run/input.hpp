// Standard input for rank 0. If it is not a terminal, rank 0 inherits it. A terminal belongs to the launcher's process
// group, but rank 0 is in another group. So rank 0 gets a pipe, and the launcher reads the terminal for it. The
// launcher does so only while it is in the foreground. In the background, the kernel would stop the launcher, or the
// launcher would take input meant for other programs. Owned by the launcher's loop.
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
  // Ends the input that comes from a terminal. Call after rank 0 has received a signal. A program with a prompt
  // survives Ctrl-C, but ends at the end of its input.
  void end() { to_rank_.close(); }

 private:
  void read_some(const std::function<void()>& line_typed);
  void pass_on();

  Descriptor to_rank_;  // closed if there is nothing to relay, or if rank 0 has closed its end
  std::string bytes_;
};

}  // namespace anello::launch
