// The test world of real processes: start a program, talk to it, wait for it with a bound, and be sure that nothing of
// it is left. For a test of one thread. Every process carries a mark in its environment that its children inherit, by
// which they are all found, however far they have run.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anello::testing {

using Milliseconds = std::chrono::milliseconds;
inline constexpr Milliseconds kLong{300000};  // for what must happen, on a busy machine with sanitizers

struct Surroundings {
  std::vector<std::string> environment = {};  // "NAME=value" sets, "NAME" removes
  std::optional<std::string> input = {};      // standard input's whole content; nothing: it stays open
  int terminal_columns = 0;                   // above 0: the three standard descriptors are a terminal this wide
  bool background = false;                    // of that terminal: not in its foreground process group
  bool ignore_hangup = false;                 // as nohup does
};

class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const Surroundings& surroundings = {});
  ~Process();  // kills whatever carries the mark
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void type(std::string_view text) const;  // into its standard input
  void close_input();
  void close_output();  // its standard output loses its reader

  // What it has written so far. A terminal has no error of its own.
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  bool says(std::string_view text, Milliseconds limit = kLong);  // in its output, in time
  bool says_error(std::string_view text, Milliseconds limit = kLong);

  // The exit code as a shell has it (128+n for a signal), after everything it wrote has been read. -1: not in time.
  int wait(Milliseconds limit = kLong);

  std::vector<pid_t> marked() const;                 // every living process with its mark
  bool none_left(Milliseconds limit = kLong) const;  // in time

 private:
  bool read_some(Milliseconds limit);
  bool reaped();

  std::string mark_;
  pid_t pid_ = -1;
  int in_ = -1, out_fd_ = -1, err_fd_ = -1;
  std::string out_, err_;
  std::optional<int> code_;
};

struct Outcome {
  int code;
  std::string out, err;
};
// Runs a program to its end. Nothing of it is left then, or the calling test fails.
Outcome run(const std::vector<std::string>& command, const Surroundings& surroundings = {}, Milliseconds limit = kLong);

bool alive(pid_t pid);                                             // a zombie is not
bool in_state(pid_t pid, char state, Milliseconds limit = kLong);  // as ps has it: 'T' is stopped; in time
std::vector<std::string> lines(std::string_view text);

}  // namespace anello::testing
