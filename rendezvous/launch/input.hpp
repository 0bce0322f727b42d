// Standard input for rank 0. Whatever is not a terminal is handed over as it is. A terminal belongs to the launcher's
// process group, and rank 0 is in another: it gets a pipe, and the launcher reads the terminal for it, but only while
// it is in the foreground, so that in the background it neither stops nor takes what is typed to others. Owned by the
// launcher's loop.
#pragma once
#include <functional>
#include <string>

#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/poll_set.hpp"

namespace anello::launch {

class Input {
 public:
  Descriptor rank_end();  // to be called once: what becomes rank 0's standard input
  void watch(PollSet& polls, const std::function<void()>& line_typed);

 private:
  void read_some(const std::function<void()>& line_typed);
  void pass_on();

  Descriptor to_rank_;  // none: nothing to relay, or rank 0 wants no more
  std::string bytes_;
};

}  // namespace anello::launch
