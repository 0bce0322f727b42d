#include "rendezvous/launch/processes/local_ranks.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/processes/descendants.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

// A rank needs both ends of two pipes, two files, and a connection to the rendezvous.
constexpr unsigned long kFilesPerRank = 7, kOtherFiles = 32;
constexpr unsigned long kMinFileBytes = 4096;  // the job's secret is a file in memory

const char* remedy_for(int signal) {
  switch (signal) {
    case SIGXFSZ:
      return "; raise the limit of file sizes (ulimit -f)";
    case SIGXCPU:
      return "; raise the limit of processor time (ulimit -t)";
    default:
      return "; to end a job, interrupt `anello run`";
  }
}

}  // namespace

void raise_open_files_limit(int ranks) {
  const OpenFilesLimit files = open_files_limit();
  const unsigned long needed = kFilesPerRank * static_cast<unsigned long>(ranks) + kOtherFiles;
  if (needed > files.max)
    throw Error(ErrorCode::configuration,
                text(ranks, " ranks need ", needed, " open files, but only ", files.max, " are allowed",
                     remedy_for_lack_of_files(EMFILE), " or start fewer ranks"));
  set_open_files_limit(files.max);
}

void check_this_host() {
  rlimit size{};
  getrlimit(RLIMIT_FSIZE, &size);
  if (size.rlim_cur < kMinFileBytes)
    throw Error(ErrorCode::configuration,
                text("files may have only ", size.rlim_cur, " bytes (ulimit -f), too few for the job's secret; ",
                     "raise the limit to ", kMinFileBytes, " bytes or more"));
  if (std::ranges::none_of(net::local_interfaces(), net::is_loopback, &net::Interface::address))
    throw Error(ErrorCode::configuration, kNoLoopback);
}

LocalRanks::LocalRanks(const Job& job, const HostRanks& here, std::string rendezvous_host, Master master,
                       std::vector<RankEnds> ends, const Inherited& inherited, RankEvents events, Descriptor lifeline)
    : events_(std::move(events)) {
  Pipe channel = make_channel(), last_words = make_channel();
  adopt_orphans();
  keeper_ = fork();
  if (keeper_ < 0) throw system_error("starting the process that supervises the ranks");
  if (keeper_ == 0)
    run_keeper({job, here, std::move(rendezvous_host), std::move(master), std::move(channel.read),
                std::move(last_words.write), std::move(ends), inherited.signal_mask, inherited.open_files_limit,
                inherited.argv, std::move(lifeline)});
  channel_ = std::move(channel.write);
  last_words_ = std::move(last_words.read);
}

LocalRanks::~LocalRanks() {
  channel_.close();
  if (keeper_ > 0) waitpid(keeper_, nullptr, gave_up_ ? WNOHANG : 0);
}

void LocalRanks::start(std::uint16_t port) {
  order({Order::Kind::start, port});
}

void LocalRanks::order(const Order& order) {
  orders_.push_back(order);
  send_orders();
}

// Does not wait for the keeper, because the keeper may be waiting until its reports are read.
void LocalRanks::send_orders() {
  while (!orders_.empty() && try_to_send(channel_, orders_.front())) orders_.pop_front();
}

void LocalRanks::watch(PollSet& polls) {
  if (ended_) return;
  polls.add(channel_.get(), orders_.empty() ? POLLIN : POLLIN | POLLOUT, [this](short ready) {
    if (ready & POLLOUT) send_orders();
    if (ready & ~POLLOUT) receive();
  });
  if (words_ended_) return;
  polls.add(last_words_.get(), POLLIN, [this](short ready) {
    receive_last_words();
    words_ended_ = (ready & POLLHUP) != 0;
  });
}

void LocalRanks::receive_last_words() {
  while (const auto word = receive_last_word(last_words_)) events_.last_word(*word);
}

void LocalRanks::receive() {
  // Reads the ranks' last words (last_word.hpp) first, because a rank sends its last word before it exits.
  receive_last_words();
  while (const auto report = receive_message<Report>(channel_, ended_)) events_.reported(*report);
  if (ended_) events_.ended(how_the_keeper_ended());
}

// The keeper closes its end of the channel when it exits. So this waits only until the kernel has ended the keeper.
std::string LocalRanks::how_the_keeper_ended() {
  int status = 0;
  const pid_t keeper = std::exchange(keeper_, -1);
  if (waitpid(keeper, &status, 0) != keeper || status == 0) return {};
  if (!WIFSIGNALED(status))
    return text("the process that supervises all ranks (pid ", keeper, ") exited with status ", WEXITSTATUS(status));
  return text("the process that supervises all ranks (pid ", keeper, ") was killed by ", signal_text(WTERMSIG(status)),
              remedy_for(WTERMSIG(status)));
}

}  // namespace anello::launch
