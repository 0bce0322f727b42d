#include "rendezvous/launch/run/run.hpp"

#include <csignal>

#include "rendezvous/launch/run/attempt.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

// Returns the first signal that ends a job, if it comes before `pause` has passed.
std::optional<int> signal_within(std::chrono::milliseconds pause, Signals& signals) {
  const auto until = Clock::now() + pause;
  std::optional<int> ending;
  while (!ending && Clock::now() < until) {
    PollSet polls;
    polls.until(until);
    polls.add(signals.fd(), POLLIN, [&](short) {
      while (const auto signal = signals.next()) {
        if (*signal == SIGTSTP) stop_until_continued();
        if (*signal != SIGTSTP && *signal != SIGUSR1 && *signal != SIGUSR2) ending = signal;
      }
    });
    polls.wait();
  }
  return ending;
}

}  // namespace

int run(const Job& job, const RendezvousHooks& hooks, char** argv) {
  open_missing_standard_descriptors();
  std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD is ignored, waitpid() does not find the keeper
  LauncherProcess launcher{.argv = argv,
                           .limit = job.timeout ? std::optional(Clock::now() + *job.timeout) : std::nullopt};
  for (Job next = job;; next.restart++) {
    if (next.restart > 0) next.name = text(job.name, ".", next.restart);
    int exit_code = 0;
    std::optional<Restart> restart;
    {
      Attempt attempt(next, hooks, launcher);
      exit_code = attempt.run(hooks.open(next));
      restart = attempt.restart();
    }
    hooks.close();
    if (!restart) return exit_code;
    next = std::move(restart->job);
    // During a pause there is no rank that could receive another signal.
    if (const auto signal = signal_within(restart->pause, launcher.signals)) return 128 + *signal;
  }
}

}  // namespace anello::launch
