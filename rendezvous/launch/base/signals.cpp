#include "rendezvous/launch/base/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGALRM, SIGXCPU};

bool ignored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals(const std::vector<int>& wanted) {
  sigset_t all, readable;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
  sigemptyset(&readable);
  sigemptyset(&ignored_from_terminal_);
  for (int signal : wanted) {
    const bool by_key = signal == SIGINT || signal == SIGQUIT;
    if (!ignored(signal) || by_key) sigaddset(&readable, signal);
    if (!ignored(signal) || !by_key) continue;
    sigaddset(&ignored_from_terminal_, signal);
    // The ranks must not inherit that the signal is ignored, because the launcher passes the signal on to end them. The
    // terminal's keys cannot send the signal to the ranks, because the ranks' session has no terminal.
    std::signal(signal, SIG_DFL);
  }
  queue_ = Descriptor(signalfd(-1, &readable, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!queue_) throw system_error("making a descriptor for signals");
}

std::optional<int> Signals::next() {
  signalfd_siginfo info{};
  while (read(queue_.get(), &info, sizeof info) == sizeof info) {
    came_from_terminal_ = info.ssi_code == SI_KERNEL;
    if (!came_from_terminal_ || !sigismember(&ignored_from_terminal_, int(info.ssi_signo))) return int(info.ssi_signo);
  }
  return std::nullopt;
}

bool ends_programs(int signal) {
  return std::ranges::find(kEndingSignals, signal) != kEndingSignals.end();
}

std::vector<int> ending_signals_and(std::vector<int> others) {
  others.insert(others.end(), kEndingSignals.begin(), kEndingSignals.end());
  return others;
}

void stop_until_continued() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // the process stops here, if a shell could continue it
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

std::string signal_text(int signal) {
  const char* description = sigdescr_np(signal);
  return text("signal ", signal, " (", description ? description : "real-time signal", ")");
}

}  // namespace anello::launch
