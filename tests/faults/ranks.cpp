#include "tests/faults/ranks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace anello::faults {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (const std::string& each : strings) all.push_back(const_cast<char*>(each.c_str()));
  all.push_back(nullptr);
  return all;
}

std::array<int, 2> pipe_of_ours() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return ends;
}

}  // namespace

void Ranks::start(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::vector<std::string> all = environment;
  for (char** each = environ; *each; each++)
    if (!std::string_view(*each).starts_with("ANELLO_")) all.emplace_back(*each);
  const auto in = pipe_of_ours(), out = pipe_of_ours();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  Rank rank{.in = in[1], .out = out[0]};
  const int failed =
      posix_spawn(&rank.pid, command[0].c_str(), &files, nullptr, pointers(command).data(), pointers(all).data());
  posix_spawn_file_actions_destroy(&files);
  close(in[0]);
  close(out[1]);
  ranks_.push_back(std::move(rank));
  if (failed != 0) throw std::runtime_error("cannot start " + command[0]);
}

Ranks::~Ranks() {
  for (Rank& rank : ranks_) {
    if (rank.pid > 0) {
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
    }
    if (rank.in >= 0) close(rank.in);
    if (rank.out >= 0) close(rank.out);
  }
}

void Ranks::signal(int rank, int number) const {
  kill(ranks_[std::size_t(rank)].pid, number);
}

void Ranks::end_input() {
  close(std::exchange(ranks_[0].in, -1));
}

void Ranks::read_some(std::chrono::milliseconds limit) {
  std::vector<pollfd> polled;
  for (const Rank& rank : ranks_) polled.push_back({rank.out, POLLIN, 0});
  if (poll(polled.data(), polled.size(), int(limit.count())) <= 0) return;
  for (std::size_t k = 0; k < polled.size(); k++) {
    if (polled[k].revents == 0) continue;
    std::array<char, 4096> piece;
    const ssize_t bytes = read(polled[k].fd, piece.data(), piece.size());
    if (bytes > 0)
      ranks_[k].said.append(piece.data(), std::size_t(bytes));
    else
      close(std::exchange(ranks_[k].out, -1));
  }
}

}  // namespace anello::faults
