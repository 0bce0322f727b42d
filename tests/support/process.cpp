#include "tests/support/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

namespace anello::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Milliseconds kLook{10};

// Returns the content of a file in /proc; nothing if the process ends while the file is read.
std::string content(const std::string& path) try {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
} catch (const std::ios_base::failure&) {
  return {};
}

// Returns the state's letter; 0 if there is no such process.
char state_of(pid_t pid) {
  const std::string stat = content("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 ? stat[name_end + 2] : '\0';
}

std::string next_mark() {
  static int count = 0;
  return "TEST_MARK=" + std::to_string(getpid()) + "." + std::to_string(++count) + ".";
}

struct Ends {
  int child_in, child_out, child_err, in, out, err;
};

Ends open_ends(const Surroundings& surroundings) {
  int in[2], out[2], err[2];
  if (surroundings.terminal_columns > 0) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(surroundings.terminal_columns);
    int ours = -1, theirs = -1;
    if (openpty(&ours, &theirs, nullptr, nullptr, &size) != 0) throw std::runtime_error("no terminal to be had");
    return {theirs, theirs, theirs, ours, ours, -1};
  }
  if (pipe(in) != 0 || pipe(out) != 0 || pipe(err) != 0) throw std::runtime_error("no pipe to be had");
  return {in[0], out[1], err[1], in[1], out[0], err[0]};
}

// Returns this process's environment with the changes of `surroundings`.
std::vector<std::string> environment_of(const Surroundings& surroundings, const std::string& mark) {
  std::map<std::string, std::string> values;
  const auto set = [&](const std::string& entry) { values[entry.substr(0, entry.find('='))] = entry; };
  for (char** entry = environ; *entry; entry++) set(*entry);
  for (const std::string& entry : surroundings.environment)
    if (entry.find('=') == std::string::npos)
      values.erase(entry);
    else
      set(entry);
  set(mark);
  std::vector<std::string> entries;
  for (const auto& [name, entry] : values) entries.push_back(entry);
  return entries;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

// Allocates no memory: another thread may have held the allocator's lock at the fork, and this lock is never released
// in the child.
[[noreturn]] void become(char** argv, char** envp, const Surroundings& surroundings, const Ends& ends) {
  if (surroundings.terminal_columns > 0) login_tty(dup(ends.child_in));
  if (surroundings.background) {
    // The terminal's foreground group is the group of this session leader, so this process stays the session leader.
    if (const pid_t child = fork(); child != 0) {
      int status = 0;
      while (waitpid(child, &status, 0) < 0) continue;
      _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    }
    setpgid(0, 0);
  }
  dup2(ends.child_in, 0);
  dup2(ends.child_out, 1);
  dup2(ends.child_err, 2);
  for (int fd = 3; fd < 256; fd++) close(fd);
  if (surroundings.ignore_hangup) ::signal(SIGHUP, SIG_IGN);
  environ = envp;  // PATH is the child's too
  execvp(argv[0], argv);
  _exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const Surroundings& surroundings) : mark_(next_mark()) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> environment = environment_of(surroundings, mark_);
  std::vector<char*> argv = pointers(command), envp = pointers(environment);
  const Ends ends = open_ends(surroundings);
  pid_ = fork();
  if (pid_ == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // if a signal ends the test, its children end too
    become(argv.data(), envp.data(), surroundings, ends);
  }
  in_ = ends.in, out_fd_ = ends.out, err_fd_ = ends.err;
  for (int fd : {ends.child_in, ends.child_out, ends.child_err}) close(fd);
  for (int fd : {in_, out_fd_, err_fd_})
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (!surroundings.input) return;
  type(*surroundings.input);
  if (in_ != out_fd_) close(in_);
  in_ = -1;
}

Process::~Process() {
  for (int round = 0; round < 500 && !marked().empty(); round++) {
    for (pid_t pid : marked()) kill(pid, SIGKILL);
    reaped();
    std::this_thread::sleep_for(kLook);
  }
  if (!reaped()) {  // a process that is ending has lost its environment, and so its mark
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (in_ >= 0 && in_ != out_fd_) close(in_);
  if (out_fd_ >= 0) close(out_fd_);
  if (err_fd_ >= 0) close(err_fd_);
}

void Process::signal(int number) const {
  if (!code_) kill(pid_, number);
}

void Process::type(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = write(in_, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(std::size_t(written));
  }
}

void Process::close_input() {
  close(in_);
  in_ = -1;
}

void Process::close_output() {
  close(out_fd_);
  out_fd_ = -1;
}

bool Process::read_some(Milliseconds limit) {
  pollfd entries[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  if (poll(entries, 2, int(limit.count())) <= 0) return true;
  for (int i = 0; i < 2; i++) {
    if (!entries[i].revents) continue;
    char bytes[65536];
    const ssize_t got = read(entries[i].fd, bytes, sizeof bytes);
    if (got > 0) (i == 0 ? out_ : err_).append(bytes, std::size_t(got));
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    int& fd = i == 0 ? out_fd_ : err_fd_;
    if (in_ == fd) in_ = -1;
    close(fd);
    fd = -1;
  }
  return true;
}

bool Process::says(std::string_view text, Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (out_.find(text) == std::string::npos && Clock::now() < deadline)
    if (!read_some(kLook)) break;
  return out_.find(text) != std::string::npos;
}

bool Process::says_error(std::string_view text, Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (err_.find(text) == std::string::npos && Clock::now() < deadline)
    if (!read_some(kLook)) break;
  return err_.find(text) != std::string::npos;
}

bool Process::reaped() {
  int status = 0;
  if (code_ || waitpid(pid_, &status, WNOHANG) != pid_) return code_.has_value();
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

int Process::wait(Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while ((!reaped() || out_fd_ >= 0 || err_fd_ >= 0) && Clock::now() < deadline)
    if (!read_some(kLook)) std::this_thread::sleep_for(kLook);
  return code_.value_or(-1);
}

std::vector<pid_t> Process::marked() const {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (content(entry.path() / "environ").find(mark_) == std::string::npos) continue;
    if (alive(pid_t(std::stol(name)))) out.push_back(pid_t(std::stol(name)));
  }
  return out;
}

// Looks twice, because a process that begins to execute a program has no environment for a moment, and is not found in
// this moment.
bool Process::none_left(Milliseconds limit) const {
  const auto deadline = Clock::now() + limit;
  int clear = 0;
  do {
    clear = marked().empty() ? clear + 1 : 0;
    if (clear == 2) return true;
    std::this_thread::sleep_for(kLook);
  } while (clear > 0 || Clock::now() < deadline);
  return false;
}

Outcome run(const std::vector<std::string>& command, const Surroundings& surroundings, Milliseconds limit) {
  Process process(command, surroundings);
  const int code = process.wait(limit);
  EXPECT_NE(code, -1) << command[0] << " did not end in time; it wrote " << process.out() << process.err();
  EXPECT_EQ(process.marked(), std::vector<pid_t>()) << "processes are left";
  return {code, process.out(), process.err()};
}

bool alive(pid_t pid) {
  const char state = state_of(pid);
  return state != 0 && state != 'Z' && state != 'X';
}

bool in_state(pid_t pid, char state, Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (state_of(pid) != state && Clock::now() < deadline) std::this_thread::sleep_for(kLook);
  return state_of(pid) == state;
}

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

}  // namespace anello::testing
