// Where output goes: one of our standard descriptors, written to without ever blocking and without forcing that on
// others who share the terminal or pipe. Owned by the launcher's loop.
#pragma once
#include <string>

#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/mixer.hpp"
#include "rendezvous/launch/poll_set.hpp"

namespace anello::launch {

class Sink {
 public:
  explicit Sink(int fd);  // borrowed
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Waits for room for `bytes` and takes what goes in from their front. Also notices a reader's going without any.
  void watch(PollSet& polls, std::string& bytes);
  bool open() const { return state_ == State::open; }  // else what is given is dropped
  bool reader_gone() const { return state_ == State::reader_gone; }
  const std::string& failure() const { return failure_; }  // why writing failed; empty: it has not

 private:
  enum class State { open, reader_gone, terminal_gone, failed };
  void write_some(std::string& bytes);
  void gone();

  int fd_;
  bool terminal_, socket_, may_block_ = false;
  Descriptor own_;  // the same file in a description of our own, where it can be had
  State state_ = State::open;
  std::string failure_;
};

TerminalStyle look_of(int fd);  // what a terminal at `fd` can show; NO_COLOR and TERM=dumb are heeded
bool same_file(int left, int right);

}  // namespace anello::launch
