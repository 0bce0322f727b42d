#include "rendezvous/launch/run.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "rendezvous/host.hpp"
#include "rendezvous/launch/descendants.hpp"
#include "rendezvous/launch/input.hpp"
#include "rendezvous/launch/keeper.hpp"
#include "rendezvous/launch/memory_events.hpp"
#include "rendezvous/launch/messages.hpp"
#include "rendezvous/launch/output.hpp"
#include "rendezvous/launch/poll_set.hpp"
#include "rendezvous/launch/process.hpp"
#include "rendezvous/launch/signals.hpp"
#include "rendezvous/launch/supervise.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

// For each rank: both ends of two pipes, two files, and a connection to the rendezvous.
constexpr unsigned long kFilesPerRank = 7, kOtherFiles = 32;
constexpr std::chrono::milliseconds kLastBytes{1000}, kEmergency{5000};

class Launcher {
 public:
  Launcher(const Job& job, const RendezvousHooks& hooks, char** argv)
      : job_(job),
        inherited_children_(children()),
        signals_({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}),
        rank_exited_(hooks.exited),
        output_(job.output_folder),
        supervisor_(job, rendezvous::host_name(),
                    {.order = [this](const Order& order) { send_message(channel_, order); },
                     .abort = hooks.abort,
                     .print = [this](const std::string& sentence) { output_.print(sentence); },
                     .out_of_memory_kills = out_of_memory_kills}) {
    std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD is ignored, waitpid() does not find the keeper
    start_keeper(argv);
  }

  // The keeper ends when its work is done, or when the channel closes.
  ~Launcher() {
    channel_.close();
    waitpid(keeper_, nullptr, supervisor_.gave_up() ? WNOHANG : 0);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  int run(std::uint16_t port) {
    send_message(channel_, Order{Order::Kind::start, port});
    while (!finished()) {
      PollSet polls;
      watch(polls);
      polls.wait();
      act();
    }
    return supervisor_.exit_code();
  }

 private:
  void start_keeper(char** argv);

  bool finished() const {
    return supervisor_.over() && output_.streams_closed() && (output_.written() || discard_output_);
  }

  void watch(PollSet& polls) {
    output_.watch(polls);
    if (!supervisor_.over()) input_.watch(polls, [this] { output_.line_typed(); });
    if (!supervisor_.over()) polls.add(channel_.get(), POLLIN, [this](short) { receive_reports(); });
    polls.add(signals_.fd(), POLLIN, [this](short) { take_signals(); });
    polls.until(supervisor_.next_tick());
    if (supervisor_.over() && !output_.streams_closed()) polls.until(last_bytes_until_);
  }

  void act() {
    const auto now = Clock::now();
    output_.tick();
    supervisor_.tick(now);
    if (output_.reader_gone()) supervisor_.reader_gone(now);
    if (const std::string why = output_.failure(); !why.empty()) supervisor_.output_failed(why, now);
    if (!supervisor_.over()) return;
    if (!ended_ && supervisor_.keeper_was_killed()) end_children(inherited_children_, kEmergency);
    // No process writes to the pipes any more. Read what they still hold, until nothing has come for kLastBytes.
    if (!ended_ || !output_.written()) last_bytes_until_ = now + kLastBytes;
    ended_ = true;
    if (now >= last_bytes_until_) output_.close_streams();
  }

  void receive_reports() {
    bool closed = false;
    // A rank sends its last word before it exits.
    while (const auto word = receive_last_word(last_words_)) supervisor_.received(*word);
    while (const auto report = receive_message<Report>(channel_, closed)) {
      if (report->kind == Report::Kind::exited) rank_exited_(report->rank);
      supervisor_.reported(*report, Clock::now());
    }
    if (closed) supervisor_.keeper_gone();
  }

  void take_signals() {
    while (const auto signal = signals_.next()) {
      if (*signal == SIGUSR1 || *signal == SIGUSR2)
        send_message(channel_, Order{Order::Kind::signal, *signal});
      else if (*signal == SIGTSTP)
        pause_all();
      else if (supervisor_.over())
        discard_output_ = true;
      else
        supervisor_.signalled(*signal, Clock::now());
    }
  }

  // Stops the ranks and then the launcher, as Ctrl-Z does with a foreground process group. Returns when the shell
  // continues the launcher.
  void pause_all() {
    send_message(channel_, Order{Order::Kind::signal, SIGSTOP});
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // the process stops here, unless no shell could continue it
    pthread_sigmask(SIG_BLOCK, &stop, nullptr);
    send_message(channel_, Order{Order::Kind::signal, SIGCONT});
  }

  const Job& job_;
  const std::vector<pid_t> inherited_children_;  // this process had them before it executed `anello`
  Signals signals_;
  const std::function<void(int)> rank_exited_;
  Output output_;
  Input input_;
  Descriptor channel_, last_words_;
  pid_t keeper_ = -1;
  Supervisor supervisor_;
  bool ended_ = false, discard_output_ = false;
  Clock::time_point last_bytes_until_{};
};

void Launcher::start_keeper(char** argv) {
  const OpenFilesLimit files = open_files_limit();
  const unsigned long needed = kFilesPerRank * static_cast<unsigned long>(job_.size) + kOtherFiles;
  if (needed > files.max)
    throw Error(ErrorCode::configuration, text(job_.size, " ranks need ", needed, " open files, but only ", files.max,
                                               " are allowed; raise the limit (ulimit -n) or start fewer ranks"));
  set_open_files_limit(std::max(files.now, needed));
  std::vector<RankEnds> ends;
  for (int rank = 0; rank < job_.size; rank++) {
    Output::Ends out = output_.add_rank(rank);
    ends.push_back({rank == 0 ? input_.rank_end() : Descriptor(), std::move(out.out), std::move(out.err)});
  }
  Pipe channel = make_channel(), last_words = make_channel();
  adopt_orphans();
  keeper_ = fork();
  if (keeper_ < 0) throw system_error("starting the keeper process");
  if (keeper_ == 0)
    run_keeper({job_, std::move(channel.read), std::move(last_words.write), std::move(ends), signals_.mask_before(),
                files.now, argv});
  channel_ = std::move(channel.write);
  last_words_ = std::move(last_words.read);
}

}  // namespace

int run(const Job& job, const RendezvousHooks& hooks, char** argv) {
  open_missing_standard_descriptors();
  Launcher launcher(job, hooks, argv);
  return launcher.run(hooks.open());
}

}  // namespace anello::launch
