#include "rendezvous/launch/processes/keeper.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/launch/base/pending_signals.hpp"
#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/job/binding.hpp"
#include "rendezvous/launch/job/environment.hpp"
#include "rendezvous/launch/processes/descendants.hpp"
#include "rendezvous/launch/processes/messages.hpp"
#include "rendezvous/launch/processes/process.hpp"
#include "rendezvous/launch/processes/supervisor.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRound{10}, kKillLimit{10000}, kSignalIsTaken{1000};
// How long, and how often, the keeper looks for processes that an ended process has left behind. A single look may miss
// them: a process that executes a program has no environment for a moment. A process that was killed has no environment
// either, but its children must still be adopted.
constexpr milliseconds kSearch{2000}, kSearchRound{100};

// The variables of a process that has ended, by which its children are found.
struct Leftovers {
  std::vector<std::string> marks;
  Clock::time_point sought_until;
};

class Keeper {
 public:
  explicit Keeper(KeeperConfig config)
      : config_(std::move(config)),
        parent_(getppid()),
        pids_(std::size_t(config_.here.count), -1),
        starts_(std::size_t(config_.here.count), 0),
        child_ended_({SIGCHLD}) {}

  void run() {
    while (!done_) {
      // poll(2) ignores -1, which means that there is no descriptor.
      pollfd entries[] = {
          {config_.channel.get(), POLLIN, 0}, {child_ended_.fd(), POLLIN, 0}, {config_.lifeline.get(), POLLIN, 0}};
      const milliseconds round = killing_ || watched_signal_ != 0 ? kRound
                                 : leftovers_.empty()             ? milliseconds(-1)
                                                                  : kSearchRound;
      poll(entries, std::size(entries), int(round.count()));
      if (entries[2].revents != 0) continue_agent();
      receive_orders();
      reap();
      kill_leftovers();
      watch_signal();
      if (killing_) signal_all(SIGKILL);
    }
  }

 private:
  void continue_agent() {
    config_.lifeline.close();
    if (getppid() == parent_) kill(parent_, SIGCONT);
  }

  void receive_orders() {
    bool launcher_died = false;
    while (const auto order = receive_message<Order>(config_.channel, launcher_died)) {
      const bool mine = config_.here.has(order->rank);
      if (order->kind == Order::Kind::start) start_ranks(order->value);
      if (order->kind == Order::Kind::start_rank && mine && !complete_) start_rank(order->rank - config_.here.first);
      if (order->kind == Order::Kind::kill_rank && mine) kill_rank(order->rank - config_.here.first);
      if (order->kind == Order::Kind::signal) pass_on(order->value);
      if (order->kind == Order::Kind::kill) killing_ = true;
      if (order->kind == Order::Kind::kill) start_no_more();
    }
    if (!launcher_died) return;
    end_children({}, kKillLimit);
    done_ = true;
  }

  void start_ranks(int port) {
    places_ = {net::host_port(config_.rendezvous_host, unsigned(port)), config_.master};
    if (config_.job.elastic) return;
    for (int local = 0; local < config_.here.count; local++)
      if (!start_rank(local)) break;
    start_no_more();
  }

  // Call this when no further rank will be started. Closes the pipes in this process, so that the pipes end when the
  // ranks end.
  void start_no_more() {
    complete_ = true;
    config_.ranks.clear();
    config_.last_words.close();
  }

  bool start_rank(int local) {
    const int rank = config_.here.first + local;
    const RankEnds& ends = config_.ranks[std::size_t(local)];
    const auto variables = rank_environment(config_.job, config_.here, rank, places_, starts_[std::size_t(local)]++);
    const Descriptor secret = config_.job.secret.empty() ? Descriptor() : make_memory_file(config_.job.secret);
    const cpu_set_t cores = cores_of(local, config_.here.count, config_.job.elastic.has_value());
    const Started rank_process = start({.command = config_.job.command,
                                        .environment = variables,
                                        .in = (ends.in ? ends.in : nothing_).get(),
                                        .out = ends.out.get(),
                                        .err = (ends.err ? ends.err : ends.out).get(),
                                        .secret = secret.get(),
                                        .last_words = config_.last_words.get(),
                                        .signal_mask = config_.signal_mask,
                                        .open_files_limit = config_.open_files_limit,
                                        .cores = config_.job.bind ? &cores : nullptr});
    pids_[std::size_t(local)] = rank_process.pid;
    if (rank_process.error)
      send_message(config_.channel, Report{Report::Kind::not_started, rank, -1, rank_process.error});
    else
      send_message(config_.channel, Report{Report::Kind::started, rank, rank_process.pid});
    return !rank_process.error;
  }

  void kill_rank(int local) {
    const pid_t rank = pids_[std::size_t(local)];
    if (rank > 0) kill(-rank, SIGKILL);
  }

  void pass_on(int signal) {
    signal_all(signal);
    if (ends_programs(signal)) start_no_more();
    if (!ends_programs(signal) || !config_.here.has(0)) return;
    watched_signal_ = signal;
    watched_until_ = Clock::now() + kSignalIsTaken;
  }

  // Reports when rank 0 has received the signal, because only then the launcher ends rank 0's input from a terminal. If
  // a program at a prompt saw the end of its input first, it would get the signal while it is leaving, and would print
  // an error.
  void watch_signal() {
    if (watched_signal_ == 0) return;
    const pid_t rank_0 = pids_.front();
    if (rank_0 > 0 && is_pending(rank_0, watched_signal_) && Clock::now() < watched_until_) return;
    watched_signal_ = 0;
    send_message(config_.channel, Report{Report::Kind::signal_taken, 0});
  }

  // If ranks end at about the same time, waitpid() returns them in any order. So the most likely cause is reported
  // first.
  void reap() {
    std::vector<Report> ended;
    int status = 0;
    pid_t pid;
    while (child_ended_.next()) continue;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
      const auto rank = std::ranges::find(pids_, pid);
      if (rank == pids_.end()) continue;
      const int number = config_.here.first + int(rank - pids_.begin());
      if (WIFSTOPPED(status)) send_message(config_.channel, Report{Report::Kind::stopped, number, pid, status});
      if (WIFCONTINUED(status)) send_message(config_.channel, Report{Report::Kind::continued, number, pid});
      if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;
      ended.push_back({Report::Kind::exited, number, pid, status});
      *rank = -1;
      if (config_.job.elastic) clear_place(pid, number);
    }
    std::ranges::stable_sort(ended, std::greater(), [](const Report& end) { return likely_cause(end.status); });
    for (const Report& end : ended) send_message(config_.channel, end);
    if (pid < 0 && complete_) done_ = true;  // no child is left, and none will be started
  }

  // Kills the processes that a process of an elastic job leaves behind, because another process may take its place.
  // This process has adopted them. It finds processes in other groups and sessions by their environment.
  void clear_place(pid_t process, int place) {
    kill(-process, SIGKILL);
    leftovers_.push_back(
        {{text("ANELLO_PLACE=", place), text("ANELLO_RESTART=", starts_of(place) - 1)}, Clock::now() + kSearch});
  }

  // Kills leftovers again and again: a process that is killed may leave others behind, which this process adopts later.
  void kill_leftovers() {
    if (leftovers_.empty()) return;
    const auto now = Clock::now();
    for (const pid_t child : children()) {
      if (std::ranges::find(pids_, child) != pids_.end()) continue;
      for (Leftovers& one : leftovers_) {
        if (!has_variables(child, one.marks)) continue;
        kill(child, SIGKILL);
        one.sought_until = now + kSearch;
      }
    }
    std::erase_if(leftovers_, [now](const Leftovers& one) { return now >= one.sought_until; });
  }

  int starts_of(int place) const { return starts_[std::size_t(place - config_.here.first)]; }

  // The process id of a rank is not reused before the rank is reaped, and so the id of its group is not reused either.
  // An adopted orphan may be in the group of a rank that was already reaped, so each orphan gets its own signal. A rank
  // that has moved to another group also gets its own signal.
  void signal_all(int signal) {
    for (pid_t rank : pids_) {
      if (rank > 0) send_signal(-rank, signal);
      if (rank > 0 && getpgid(rank) != rank) send_signal(rank, signal);
    }
    for (pid_t child : children())
      if (std::ranges::find(pids_, child) == pids_.end()) send_signal(child, signal);
  }

  // Continues the process after the signal, because a stopped process receives most signals only when it continues.
  static void send_signal(pid_t process, int signal) {
    kill(process, signal);
    if (ends_programs(signal)) kill(process, SIGCONT);
  }

  KeeperConfig config_;
  const pid_t parent_;
  std::vector<pid_t> pids_;  // by local rank; -1: not started or ended
  std::vector<int> starts_;  // by local rank; how often it was started
  MeetingPlaces places_;
  std::vector<Leftovers> leftovers_;
  Signals child_ended_;
  const Descriptor nothing_ = open_nothing();
  bool complete_ = false;  // true once this process will start no further rank
  bool killing_ = false, done_ = false;
  int watched_signal_ = 0;  // the signal whose arrival at rank 0 the keeper watches; 0: the keeper watches none
  Clock::time_point watched_until_{};
};

std::vector<int> descriptors_of(const KeeperConfig& config) {
  std::vector<int> out = {config.channel.get(), config.last_words.get()};
  if (config.lifeline) out.push_back(config.lifeline.get());
  for (const RankEnds& ends : config.ranks)
    for (const Descriptor* end : {&ends.in, &ends.out, &ends.err})
      if (*end) out.push_back(end->get());
  return out;
}

}  // namespace

void run_keeper(KeeperConfig config) {
  try {
    close_all_but(descriptors_of(config));
    const pid_t launcher = getppid();
    setsid();
    std::signal(SIGCHLD, SIG_DFL);
    adopt_orphans();
    rename_process(config.argv, "keeper", text("keeper: ends all ranks when process ", launcher, " dies"));
    Keeper(std::move(config)).run();
    _exit(0);
  } catch (const std::exception& error) {
    log(Severity::error, text("keeper: ", error.what()));
    _exit(1);
  }
}

}  // namespace anello::launch
