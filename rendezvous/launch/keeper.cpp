#include "rendezvous/launch/keeper.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/launch/binding.hpp"
#include "rendezvous/launch/descendants.hpp"
#include "rendezvous/launch/environment.hpp"
#include "rendezvous/launch/messages.hpp"
#include "rendezvous/launch/process.hpp"
#include "rendezvous/launch/signals.hpp"
#include "rendezvous/launch/supervise.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr std::chrono::milliseconds kKillRound{10}, kKillLimit{10000};

class Keeper {
 public:
  explicit Keeper(KeeperConfig keeping)
      : keeping_(std::move(keeping)), pids_(std::size_t(keeping_.job.size), -1), child_ended_({SIGCHLD}) {}

  void run() {
    while (!done_) {
      pollfd entries[] = {{keeping_.channel.get(), POLLIN, 0}, {child_ended_.fd(), POLLIN, 0}};
      poll(entries, 2, killing_ ? int(kKillRound.count()) : -1);
      take_orders();
      reap();
      if (killing_) signal_all(SIGKILL);
    }
  }

 private:
  void take_orders() {
    bool launcher_died = false;
    while (const auto order = hear<Order>(keeping_.channel, launcher_died)) {
      if (order->kind == Order::Kind::start) start_ranks(std::uint16_t(order->value));
      if (order->kind == Order::Kind::signal) signal_all(order->value);
      if (order->kind == Order::Kind::kill) killing_ = true;
    }
    if (!launcher_died) return;
    end_children({}, kKillLimit);
    done_ = true;
  }

  void start_ranks(std::uint16_t port) {
    started_ = true;
    for (int rank = 0; rank < keeping_.job.size; rank++)
      if (!start_rank(rank, port)) break;
    keeping_.ranks.clear();  // else no pipe would ever end
  }

  bool start_rank(int rank, std::uint16_t port) {
    const RankEnds& ends = keeping_.ranks[std::size_t(rank)];
    const auto variables = rank_environment(keeping_.job, rank, port);
    const Descriptor secret = keeping_.job.secret.empty() ? Descriptor() : make_memory_file(keeping_.job.secret);
    const cpu_set_t cores = cores_of(rank, keeping_.job.size);
    const Started rank_process = start({.command = keeping_.job.command,
                                        .environment = variables,
                                        .in = (ends.in ? ends.in : nothing_).get(),
                                        .out = ends.out.get(),
                                        .err = (ends.err ? ends.err : ends.out).get(),
                                        .secret = secret.get(),
                                        .signal_mask = keeping_.signal_mask,
                                        .open_files_limit = keeping_.open_files_limit,
                                        .cores = keeping_.job.bind ? &cores : nullptr});
    pids_[std::size_t(rank)] = rank_process.pid;
    if (rank_process.error)
      tell(keeping_.channel, Report{Report::Kind::not_started, rank, -1, rank_process.error});
    else
      tell(keeping_.channel, Report{Report::Kind::started, rank, rank_process.pid});
    return !rank_process.error;
  }

  // Ends that are found together come in no order of their own: the one that looks like a cause goes first.
  void reap() {
    std::vector<Report> ended;
    int status = 0;
    pid_t pid;
    while (child_ended_.next()) continue;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      const auto rank = std::ranges::find(pids_, pid);
      if (rank == pids_.end()) continue;
      ended.push_back({Report::Kind::exited, int(rank - pids_.begin()), pid, status});
      *rank = -1;
    }
    std::ranges::stable_sort(ended, std::greater(), [](const Report& end) { return likely_cause(end.status); });
    for (const Report& end : ended) tell(keeping_.channel, end);
    if (pid < 0 && started_) done_ = true;  // no child is left
  }

  // A rank that has not been reaped still owns its number, and with it its group's. Orphans are signalled one by one.
  void signal_all(int signal) {
    for (pid_t rank : pids_)
      if (rank > 0) send_signal(-rank, signal);
    for (pid_t child : children())
      if (std::ranges::find(pids_, child) == pids_.end()) send_signal(child, signal);
  }

  // Who is stopped hears nothing until it goes on.
  static void send_signal(pid_t whom, int signal) {
    kill(whom, signal);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT) kill(whom, SIGCONT);
  }

  KeeperConfig keeping_;
  std::vector<pid_t> pids_;  // by rank; -1: not started or ended
  Signals child_ended_;
  const Descriptor nothing_ = open_nothing();
  bool started_ = false, killing_ = false, done_ = false;
};

std::vector<int> descriptors_of(const KeeperConfig& keeping) {
  std::vector<int> out = {keeping.channel.get()};
  for (const RankEnds& ends : keeping.ranks)
    for (const Descriptor* end : {&ends.in, &ends.out, &ends.err})
      if (*end) out.push_back(end->get());
  return out;
}

}  // namespace

void keep(KeeperConfig keeping) {
  try {
    close_all_but(descriptors_of(keeping));
    const pid_t launcher = getppid();
    setsid();
    std::signal(SIGCHLD, SIG_DFL);
    adopt_orphans();
    rename_process(keeping.argv, "keeper", text("keeper: ends all ranks when process ", launcher, " dies"));
    Keeper(std::move(keeping)).run();
    _exit(0);
  } catch (const std::exception& error) {
    log(Severity::error, text("keeper: ", error.what()));
    _exit(1);
  }
}

}  // namespace anello::launch
