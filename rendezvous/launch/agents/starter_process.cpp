#include "rendezvous/launch/agents/starter_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/job/hosts.hpp"
#include "rendezvous/launch/job/step_environment.hpp"
#include "rendezvous/launch/processes/process.hpp"
#include "rendezvous/launch/processes/start_problem.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr std::size_t kMaxSaid = 4096;
constexpr std::chrono::milliseconds kKilled{1000}, kLookAgain{1};

std::vector<std::string> environment_for(const StartCommand& command) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; entry++) {
    const std::string_view variable = *entry;
    if (!command.step || !shapes_steps(variable.substr(0, variable.find('=')))) out.emplace_back(variable);
  }
  return out;
}

// srun prints this, even with --quiet, for every step if tasks are not bound to cores.
constexpr std::string_view kHarmless = "lacks support for cpu binding";

}  // namespace

StarterProcess::StarterProcess(StartCommand command, const Inherited& inherited) : command_(std::move(command)) {
  Pipe in = make_pipe(), out = make_pipe();
  const auto variables = environment_for(command_);
  const Started started = start({.command = command_.words,
                                 .environment = variables,
                                 .in = in.read.get(),
                                 .out = out.write.get(),
                                 .err = out.write.get(),
                                 .secret = -1,
                                 .last_words = -1,
                                 .signal_mask = inherited.signal_mask,
                                 .open_files_limit = inherited.open_files_limit,
                                 .cores = nullptr});
  if (started.error)
    throw Error(ErrorCode::configuration, describe_start_problem(started.error, command_.words.front(), ""));
  pid_ = started.pid;
  to_ = std::move(in.write);
  from_ = std::move(out.read);
  set_nonblocking(to_);
  set_nonblocking(from_);
}

StarterProcess::~StarterProcess() {
  kill();
  const auto limit = std::chrono::steady_clock::now() + kKilled;
  while (!ended() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(kLookAgain);
}

void StarterProcess::kill() {
  if (!ended()) ::kill(pid_, SIGKILL);
}

void StarterProcess::watch(PollSet& polls) {
  if (to_ && !input_.empty()) polls.add(to_.get(), POLLOUT, [this](short) { write_some(); });
  if (from_) polls.add(from_.get(), POLLIN, [this](short) { read_some(); });
}

void StarterProcess::write_some() {
  const ssize_t written = write(to_.get(), input_.data(), input_.size());
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (written > 0) input_.erase(0, std::size_t(written));
  if (written < 0 || input_.empty()) to_.close();
}

void StarterProcess::read_some() {
  std::array<char, 4096> bytes;
  const ssize_t got = read(from_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return from_.close();
  said_.append(bytes.data(), std::size_t(got));
  if (said_.size() > kMaxSaid) said_.erase(0, said_.size() - kMaxSaid);
}

bool StarterProcess::ended() {
  if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return ended_;
}

std::string StarterProcess::said() {
  for (ssize_t before = -1; from_ && before != ssize_t(said_.size());) {
    before = ssize_t(said_.size());
    read_some();
  }
  std::string out;
  std::istringstream lines(said_);
  for (std::string line; std::getline(lines, line);)
    if (!trimmed(line).empty() && line.find(kHarmless) == std::string::npos)
      out += (out.empty() ? "" : "; ") + printable(trimmed(line));
  return out;
}

std::string StarterProcess::how_it_ended() {
  const std::string how = WIFSIGNALED(status_) ? "was killed by " + signal_text(WTERMSIG(status_))
                                               : text("exited with status ", WEXITSTATUS(status_));
  const std::string words = said();
  return text("`", command_.shown, "` ", how, words.empty() ? "" : ": ", words);
}

}  // namespace anello::launch
