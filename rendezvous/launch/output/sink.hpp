// Writes output to one of this process's standard descriptors without blocking. Does not make the descriptor
// non-blocking, because other processes may share the terminal or pipe. Owned by the launcher's loop.
#pragma once
#include <string>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"
#include "rendezvous/launch/output/mixer.hpp"

namespace anello::launch {

class Sink {
 public:
  explicit Sink(int fd);  // `fd` is borrowed
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Adds the descriptor to `polls`. When the descriptor has room, writes from the front of `bytes` and removes the
  // written bytes. Notices that the reader has gone, even if `bytes` is empty.
  void watch(PollSet& polls, std::string& bytes);
  bool open() const { return state_ == State::open; }  // if not, all output is dropped
  bool reader_gone() const { return state_ == State::reader_gone; }
  const std::string& failure() const { return failure_; }  // why writing failed; empty: writing has not failed

 private:
  enum class State { open, reader_gone, terminal_gone, failed };
  void write_some(std::string& bytes);
  void close();

  int fd_;
  bool terminal_, socket_, may_block_ = false;
  Descriptor own_;  // the same file, opened again if that is possible
  State state_ = State::open;
  std::string failure_;
};

TerminalStyle terminal_style(int fd);  // the abilities of the terminal `fd`; respects NO_COLOR and TERM=dumb
bool same_file(int left, int right);

}  // namespace anello::launch
