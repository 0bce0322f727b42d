// Real processes for tests: start a program, write to it and read from it, wait for it with a limit, and check that
// none of its processes is left. For tests of one thread. Every started process has a mark in its environment, which
// its children inherit. This mark shows all of these processes, even processes that have left their process group.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anello::testing {

using Milliseconds = std::chrono::milliseconds;
inline constexpr Milliseconds kLong{300000};  // limit for events that must happen, on a busy machine with sanitizers

struct Surroundings {
  std::vector<std::string> environment = {};  // "NAME=value" sets, "NAME" removes
  std::optional<std::string> input = {};      // the whole standard input; nothing: the input stays open
  int terminal_columns = 0;                   // above 0: the three standard descriptors are a terminal this wide
  bool background = false;                    // not in the foreground process group of that terminal
  bool ignore_hangup = false;                 // in the same way as nohup
};

class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const Surroundings& surroundings = {});
  ~Process();  // kills all processes that have the mark
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void type(std::string_view text) const;  // into its standard input
  void close_input();
  void close_output();  // closes the read end of the process's standard output

  // The output so far. On a terminal, standard error is part of the output.
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  bool says(std::string_view text, Milliseconds limit = kLong);  // its output, before `limit`
  bool says_error(std::string_view text, Milliseconds limit = kLong);

  // Returns the exit code as a shell gives it (128+n for a signal), after all output has been read. -1: after the
  // limit.
  int wait(Milliseconds limit = kLong);

  std::vector<pid_t> marked() const;                 // every living process with this process's mark
  bool none_left(Milliseconds limit = kLong) const;  // false after `limit`

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
// Runs a program to its end. Fails the calling test if one of its processes is left.
Outcome run(const std::vector<std::string>& command, const Surroundings& surroundings = {}, Milliseconds limit = kLong);

bool alive(pid_t pid);                                             // false for a zombie
bool in_state(pid_t pid, char state, Milliseconds limit = kLong);  // letters as in ps: 'T' is stopped
std::vector<std::string> lines(std::string_view text);

}  // namespace anello::testing
