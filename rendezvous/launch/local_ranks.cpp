#include "rendezvous/launch/local_ranks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/launch/descendants.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

// For each rank: both ends of two pipes, two files, and a connection to the rendezvous.
constexpr unsigned long kFilesPerRank = 7, kOtherFiles = 32;

}  // namespace

void raise_open_files_limit(int ranks) {
  const OpenFilesLimit files = open_files_limit();
  const unsigned long needed = kFilesPerRank * static_cast<unsigned long>(ranks) + kOtherFiles;
  if (needed > files.max)
    throw Error(ErrorCode::configuration, text(ranks, " ranks need ", needed, " open files, but only ", files.max,
                                               " are allowed; raise the limit (ulimit -n) or start fewer ranks"));
  set_open_files_limit(files.max);
}

LocalRanks::LocalRanks(const Job& job, const HostRanks& here, std::string rendezvous_host, std::vector<RankEnds> ends,
                       const Inherited& inherited, RankEvents events)
    : events_(std::move(events)) {
  Pipe channel = make_channel(), last_words = make_channel();
  adopt_orphans();
  keeper_ = fork();
  if (keeper_ < 0) throw system_error("starting the keeper process");
  if (keeper_ == 0)
    run_keeper({job, here, std::move(rendezvous_host), std::move(channel.read), std::move(last_words.write),
                std::move(ends), inherited.signal_mask, inherited.open_files_limit, inherited.argv});
  channel_ = std::move(channel.write);
  last_words_ = std::move(last_words.read);
}

LocalRanks::~LocalRanks() {
  channel_.close();
  waitpid(keeper_, nullptr, gave_up_ ? WNOHANG : 0);
}

void LocalRanks::start(std::uint16_t port) {
  send_message(channel_, Order{Order::Kind::start, port});
}

void LocalRanks::watch(PollSet& polls) {
  if (!ended_) polls.add(channel_.get(), POLLIN, [this](short) { receive(); });
}

void LocalRanks::receive() {
  // A rank sends its last word before it exits.
  while (const auto word = receive_last_word(last_words_)) events_.last_word(*word);
  while (const auto report = receive_message<Report>(channel_, ended_)) events_.reported(*report);
  if (ended_) events_.ended();
}

}  // namespace anello::launch
