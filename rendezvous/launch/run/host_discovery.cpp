#include "rendezvous/launch/run/host_discovery.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <array>
#include <cerrno>
#include <csignal>

#include "rendezvous/launch/base/shell_words.hpp"
#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/processes/process.hpp"
#include "rendezvous/launch/processes/start_problem.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kBetweenRuns{1000}, kRunLimit{10000}, kReapAgain{20};
constexpr std::size_t kMaxList = 1 << 20;
constexpr const char* kOption = "--host-discovery-script";

int slots_of(const Hosts& hosts, int per_host) {
  int slots = 0;
  for (const Host& host : hosts) slots += per_host > 0 ? per_host : host.slots.value_or(1);
  return slots;
}

}  // namespace

HostDiscovery::HostDiscovery(const std::string& command, const Inherited& inherited)
    : command_(split_words(kOption, command)), inherited_(inherited) {
  if (command_.empty()) throw Error(ErrorCode::configuration, text(kOption, ": the command is empty"));
}

HostDiscovery::~HostDiscovery() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void HostDiscovery::begin() {
  Pipe out = make_pipe();
  const Descriptor nothing = open_nothing();
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; entry++) variables.emplace_back(*entry);
  const Started started = start({.command = command_,
                                 .environment = variables,
                                 .in = nothing.get(),
                                 .out = out.write.get(),
                                 .err = STDERR_FILENO,
                                 .secret = -1,
                                 .last_words = -1,
                                 .signal_mask = inherited_.signal_mask,
                                 .open_files_limit = inherited_.open_files_limit,
                                 .cores = nullptr});
  const auto now = Clock::now();
  next_ = now + kBetweenRuns;
  if (started.error) return void(failure_ = describe_start_problem(started.error, command_.front(), ""));
  pid_ = started.pid;
  limit_ = now + kRunLimit;
  said_.clear();
  from_ = std::move(out.read);
  set_nonblocking(from_);
}

void HostDiscovery::watch(PollSet& polls) {
  if (from_) polls.add(from_.get(), POLLIN, [this](short) { read_some(); });
  if (pid_ > 0 && !from_) polls.until(Clock::now() + kReapAgain);
  polls.until(pid_ > 0 ? limit_ : next_);
}

void HostDiscovery::read_some() {
  std::array<char, 4096> bytes;
  const ssize_t got = read(from_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) said_.append(bytes.data(), std::size_t(got));
  if (got <= 0 || said_.size() > kMaxList) from_.close();
}

std::optional<Hosts> HostDiscovery::tick() {
  const auto now = Clock::now();
  if (pid_ < 0 && now >= next_) begin();
  if (pid_ < 0) return std::nullopt;
  const bool late = now >= limit_;
  if (from_ && !late) return std::nullopt;
  if (late || said_.size() > kMaxList) kill(-pid_, SIGKILL);
  from_.close();
  if (late) failure_ = text(kOption, " has run for more than ", kRunLimit.count() / 1000, " s");
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return std::nullopt;  // a program may close its output and go on
  pid_ = -1;
  return late ? std::nullopt : result(status);
}

std::optional<Hosts> HostDiscovery::result(int status) try {
  if (said_.size() > kMaxList)
    return failure_ = text(kOption, " has printed more than ", kMaxList, " bytes"), std::nullopt;
  if (WIFSIGNALED(status))
    return failure_ = text(kOption, " was killed by ", signal_text(WTERMSIG(status))), std::nullopt;
  if (status != 0) return failure_ = text(kOption, " exited with status ", WEXITSTATUS(status)), std::nullopt;
  Hosts hosts = parse_host_file(kOption, said_);
  failure_.clear();
  return hosts;
} catch (const Error& error) {
  failure_ = error.message();
  return std::nullopt;
}

Hosts discover_hosts(const std::string& command, int slots, int per_host, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  HostDiscovery discovery(command, {mask, open_files_limit().now, nullptr});
  std::string listed = "it has not ended yet";
  for (;;) {
    const std::optional<Hosts> hosts = discovery.tick();
    if (hosts && slots_of(*hosts, per_host) >= slots) return *hosts;
    if (hosts) listed = text("it lists ", slots_of(*hosts, per_host), " slots");
    if (std::chrono::steady_clock::now() >= deadline)
      throw Error(ErrorCode::configuration,
                  discovery.failure().empty()
                      ? text(kOption, ": ", listed, ", and the job begins with ", slots, " processes (-n)")
                      : discovery.failure());
    PollSet polls;
    discovery.watch(polls);
    polls.until(deadline);
    polls.wait();
  }
}

}  // namespace anello::launch
