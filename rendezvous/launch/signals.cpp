#include "rendezvous/launch/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

bool ignored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals(std::initializer_list<int> wanted) {
  sigset_t all, readable;
  sigfillset(&all);
  sigemptyset(&readable);
  for (int signal : wanted)
    if (!ignored(signal)) sigaddset(&readable, signal);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
  queue_ = Descriptor(signalfd(-1, &readable, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!queue_) throw system_error("making a descriptor for signals");
}

std::optional<int> Signals::next() {
  signalfd_siginfo info{};
  if (read(queue_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return int(info.ssi_signo);
}

std::string signal_text(int signal) {
  const char* description = sigdescr_np(signal);
  return text("signal ", signal, " (", description ? description : "real-time signal", ")");
}

}  // namespace anello::launch
