#include "rendezvous/launch/agents/remote_ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "rendezvous/launch/job/master.hpp"
#include "rendezvous/launch/job/remote_environment.hpp"
#include "rendezvous/launch/job/step_environment.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

using Kind = AgentMessage::Kind;

constexpr std::chrono::milliseconds kStartersEnd{5000}, kLook{5}, kStarterSays{100}, kAgentsLastBytes{5000},
    kMasterLimit{5000};
constexpr int kMaxHosts = 1 << 16;                     // maximum number of hosts if hosts are discovered
constexpr int kShellNotFound = 127, kSshFailed = 255;  // exit statuses of a shell, and of ssh itself

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace

RemoteRanks::RemoteRanks(const Job& job, std::vector<RankEnds> ends, const Inherited& inherited, RankEvents events)
    : job_(job), inherited_(inherited), events_(std::move(events)) {
  std::size_t next = 0;
  for (const HostRanks& ranks : job_.layout) {
    hosts_.push_back({.ranks = ranks});
    for (int local = 0; local < ranks.count; local++) take_ends(hosts_.size() - 1, local, std::move(ends[next++]));
  }
  for (StartCommand& command : start_commands(job_, own_program(), is_this_host)) {
    for (const int host : command.hosts) hosts_[std::size_t(host)].here = command.here;
    starters_.push_back(std::make_unique<StarterProcess>(std::move(command), inherited));
  }
}

// Waits for the starters, each of which ends when its agents have ended. The wait has a limit, because the starter of a
// lost host may never end.
RemoteRanks::~RemoteRanks() {
  if (!started_) cancel();
  for (Host& host : hosts_) end(host);
  const auto deadline = Clock::now() + kStartersEnd;
  const auto all_ended = [&] { return std::ranges::all_of(starters_, [](auto& one) { return one->ended(); }); };
  while (!all_ended() && Clock::now() < deadline) std::this_thread::sleep_for(kLook);
}

std::string RemoteRanks::were_lost(std::size_t hosts) {
  return hosts == 1 ? "was lost: " : "were lost: ";
}

void RemoteRanks::take_ends(std::size_t host, int local_rank, RankEnds ends) {
  separate_errors_ = bool(ends.err);
  hosts_[host].outputs.push_back(make_sink(host, output_stream(local_rank), std::move(ends.out)));
  hosts_[host].outputs.push_back(make_sink(host, error_stream(local_rank), std::move(ends.err)));
  if (!ends.in) return;
  input_ = std::make_unique<RelaySource>(std::move(ends.in), [this, host](std::string_view bytes) {
    send(hosts_[host], {.kind = Kind::input, .bytes = std::string(bytes)});
  });
}

std::unique_ptr<RelaySink> RemoteRanks::make_sink(std::size_t host, int stream, Descriptor to) {
  return std::make_unique<RelaySink>(std::move(to), [this, host, stream](std::size_t bytes) {
    send(hosts_[host], {.kind = Kind::output_taken, .number = stream, .value = int(bytes)});
  });
}

void RemoteRanks::start(std::uint16_t port) {
  const Settings settings = Settings::from_environment();
  const bool loopback = all_on_this_host(job_);
  port_ = port;
  deadline_ = Clock::now() + settings.start_timeout;
  silence_limit_ = settings.silence_limit;
  const int hosts = job_.hosts_may_change() ? kMaxHosts : int(hosts_.size());
  listener_.emplace(net::Credentials{job_.name, job_.secret}, hosts, loopback && !job_.hosts_may_change(),
                    settings.port_range);
  give_tasks();
}

void RemoteRanks::give_tasks() {
  for (const auto& starter : starters_) give_task(*starter);
}

void RemoteRanks::give_task(StarterProcess& starter) {
  const StartCommand& command = starter.command();
  AgentTask task = make_task(job_, folder_, listener_->port());
  task.separate_errors = separate_errors_;
  task.by_ssh = job_.remote->starter == Starter::ssh && !command.here;
  if (!command.here) task.environment = remote_environment(job_.exported);
  if (command.step) std::ranges::copy(variables_that_shape_steps(), std::back_inserter(task.environment));
  starter.give(encode(task));
}

// If the starter cannot be started, the host is lost.
void RemoteRanks::add_host(const HostRanks& ranks, std::vector<RankEnds> ends) try {
  const std::size_t number = hosts_.size();
  hosts_.push_back({.ranks = ranks, .due = Clock::now() + Settings::from_environment().start_timeout});
  for (int local = 0; local < ranks.count; local++) take_ends(number, local, std::move(ends[std::size_t(local)]));
  StartCommand command = start_command(job_, int(number), own_program(), is_this_host);
  hosts_[number].here = command.here;
  starters_.push_back(std::make_unique<StarterProcess>(std::move(command), inherited_));
  give_task(*starters_.back());
} catch (const Error& error) {
  hosts_.back().failure = error.message();
}

// The host's keeper starts no rank any more, so the agent ends when no process is left.
void RemoteRanks::release(const HostRanks& ranks) {
  for (Host& host : hosts_) {
    if (host.over || host.ranks.first != ranks.first) continue;
    host.started ? send_order(host, {Order::Kind::kill}) : leave_out(host);
  }
}

void RemoteRanks::watch(PollSet& polls) {
  if (listener_) polls.add(listener_->fd(), POLLIN, [](short) {});
  if (!started_) polls.until(deadline_);
  polls.add(starter_ended_.fd(), POLLIN, [](short) {});
  for (const auto& starter : starters_) starter->watch(polls);
  for (Host& host : hosts_) {
    for (const auto& sink : host.outputs) sink->watch(polls);
    if (host.due && !host.over) polls.until(*host.due);
    if (host.over || !host.connected()) continue;
    host.messages->watch(polls, [this, &host](std::string_view bytes) { receive(host, bytes); });
    host.lifeline->watch(polls);
    if (host.gone) polls.until(*host.gone + kStarterSays);
    if (host.none_left && !ended_) polls.until(*host.none_left + kStarterSays);
    if (started_ && !ended_) polls.until(host.heartbeat->next());
  }
  if (started_ && input_ && !hosts_.front().over) input_->watch(polls);
}

void RemoteRanks::tick() {
  if (ended_ && std::ranges::all_of(hosts_, &Host::over)) return;
  if (listener_) take_arrivals();
  ask_for_master();
  if (master_ && !started_) start_ranks();
  for (Host& host : hosts_) look_after(host);
  look_at_starters();
  lose_gone_hosts();
  lose_silent_hosts();
  if (!started_ && !ended_ && Clock::now() >= deadline_) lose_mute_hosts();
  lose_late_hosts();
  if (ended_ || !std::ranges::all_of(hosts_, [this](const Host& host) { return no_rank_left(host); })) return;
  if (job_.elastic && !ending_) return;  // after the loss of all hosts, the supervisor decides whether the job ends
  ended_ = true;
  last_bytes_ = Clock::now();
  events_.ended({});
}

void RemoteRanks::take_arrivals() {
  while (auto arrival = listener_->next()) {
    if (std::size_t(arrival->host) >= hosts_.size()) continue;
    Host& host = hosts_[std::size_t(arrival->host)];
    if (host.over) continue;
    host.address = arrival->address;
    if (arrival->lane == kMessageLane) host.messages = std::make_unique<MessageStream>(std::move(arrival->socket));
    if (arrival->lane == kLifelineLane)
      host.lifeline = std::make_unique<Lifeline>(std::move(arrival->socket), silence_limit_);
    if (!host.connected()) continue;
    host.heartbeat.emplace(silence_limit_);
    host.due.reset();
    if (started_) start_host(host);
  }
}

// When no host is awaited any more, asks the agent of the first host that is left for the master. An elastic job goes
// on without hosts that are lost before the start, and does not wait for hosts that are added later.
void RemoteRanks::ask_for_master() {
  if (started_ || (asked_ && !hosts_[*asked_].over)) return;
  if (!std::ranges::all_of(hosts_, [](const Host& one) { return one.over || one.connected() || one.due; })) return;
  const auto first = std::ranges::find_if(hosts_, [](const Host& one) { return !one.over && one.connected(); });
  if (first == hosts_.end()) return;
  asked_ = std::size_t(first - hosts_.begin());
  deadline_ = std::max(deadline_, Clock::now() + kMasterLimit);  // the start may have waited for other hosts until now
  if (!job_.hosts_may_change()) listener_.reset();               // frees the port, because there may be few ports
  send(*first, {.kind = Kind::find_master, .bytes = is_here(*first) ? rendezvous_host(*first) : ""});
}

void RemoteRanks::start_ranks() {
  started_ = true;
  for (Host& host : hosts_)
    if (!host.over && host.connected()) start_host(host);
}

void RemoteRanks::start_host(Host& host) {
  host.started = true;
  send(host, {.kind = Kind::master, .bytes = encode(*master_)});
  send(host, {.kind = Kind::start, .number = port_, .bytes = rendezvous_host(host)});
  for (const Order& early : std::exchange(host.early, {})) send_order(host, early);
}

// True if the host is this host, even if its name was not recognised.
bool RemoteRanks::is_here(const Host& host) const {
  return host.here || net::is_loopback(host.address);
}

// If there are ranks on other hosts, ranks on this host must not use loopback: other ranks reach a rank at the address
// from which it connected to the rendezvous.
std::string RemoteRanks::rendezvous_host(const Host& host) const {
  if (!is_here(host)) return host.address;
  const auto is_elsewhere = [this](const Host& one) { return !one.over && !one.address.empty() && !is_here(one); };
  const auto elsewhere = std::ranges::find_if(hosts_, is_elsewhere);
  if (elsewhere != hosts_.end()) return elsewhere->address;
  if (!job_.hosts_may_change()) return host.address;
  const std::vector<std::string> own = net::addresses_for_other_hosts(host.address, net::local_interfaces());
  return own.empty() ? host.address : own.front();  // other hosts need this address if they are listed later
}

void RemoteRanks::receive(Host& host, std::string_view bytes) try {
  const AgentMessage message = decode_message(bytes);
  answered(host);
  if (message.kind == Kind::answer) return;
  last_bytes_ = Clock::now();
  if (message.kind == Kind::cores) events_.cores_known(host.ranks, message.value / 1000.0);
  if (message.kind == Kind::master && asked_ && &host == &hosts_[*asked_]) master_ = decode_master(message.bytes);
  if (message.kind == Kind::report && host.ranks.has(message.rank))
    events_.reported({Report::Kind(message.number), message.rank, pid_t(message.pid), message.value});
  if (message.kind == Kind::last_word)
    if (const auto word = world::decode_last_word(message.bytes)) events_.last_word(*word);
  if (message.kind == Kind::output && std::size_t(message.number) < host.outputs.size())
    host.outputs[std::size_t(message.number)]->arrived(message.bytes);
  if (message.kind == Kind::input_taken && input_) input_->taken(std::size_t(message.value));
  if (message.kind == Kind::none_left) host.none_left = Clock::now();
  if (message.kind == Kind::done) host.done = true;
  if (message.kind == Kind::failed) host.failure = printable(message.bytes);
} catch (const Error& error) {
  host.failure = error.what();
}

void RemoteRanks::look_after(Host& host) {
  if (host.over) return;
  if (!host.failure.empty()) return lose({&host}, "cannot run its ranks: " + host.failure);
  if (!host.connected()) return;
  if (host.messages->closed() && host.done) return end(host);
  // A broken lifeline counts only until the agent has reported that no rank is left. After that the agent may have
  // ended, and its last messages may still be on their way.
  const bool cut = host.lifeline->broken() && !host.none_left;
  if (!host.gone && (host.messages->closed() || cut)) host.gone = Clock::now();
}

// True if the starter's end is no failure of this host. The starter's end may be noticed before the last messages of
// the starter's agents have arrived.
bool RemoteRanks::has_ended_well(const Host& host, const StarterProcess& starter) const {
  return host.connected() && (starter.status() == 0 || (host.none_left && !host.gone));
}

// True if no rank is left on the host, and the host is not lost. A scheduler that ends an agent may have ended the
// agent's ranks just before; then the host is lost. So the result is true only if the agent still runs a moment after
// its report that no rank is left.
bool RemoteRanks::no_rank_left(const Host& host) const {
  return host.over || (host.none_left && !host.gone && Clock::now() >= *host.none_left + kStarterSays);
}

void RemoteRanks::look_at_starters() {
  while (starter_ended_.next()) continue;
  for (const auto& starter : starters_) {
    if (!starter->ended()) continue;
    std::vector<Host*> lost;
    for (const int number : starter->command().hosts) {
      Host& host = hosts_[std::size_t(number)];
      if (!host.over && !has_ended_well(host, *starter)) lost.push_back(&host);
    }
    if (lost.empty()) continue;
    const bool connected = lost.front()->connected();
    lose(lost, text(connected ? were_lost(lost.size()) : "cannot be used: ", starter->how_it_ended(),
                    connected ? "" : remedy(*starter)));
  }
}

// Waits a moment before it reports a lost agent: the reason is often in the starter's output or exit status, which may
// come a little later.
void RemoteRanks::lose_gone_hosts() {
  for (const auto& starter : starters_) {
    std::vector<Host*> gone;
    bool due = false;
    for (const int number : starter->command().hosts) {
      Host& host = hosts_[std::size_t(number)];
      if (host.over || !host.gone) continue;
      gone.push_back(&host);
      due = due || Clock::now() >= *host.gone + kStarterSays;
    }
    if (!due) continue;
    const std::string said = starter->said();
    const Host& host = *gone.front();
    const std::string& error = host.messages->closed() ? host.messages->error() : host.lifeline->error();
    lose(gone, text(were_lost(gone.size()),
                    error.empty() ? "its agent was ended" : error + "; it is down, or the network is cut",
                    said.empty() ? "" : text("; `", starter->command().shown, "` says: ", said)));
  }
}

void RemoteRanks::end(Host& host) {
  host.over = true;
  host.messages.reset();
  host.lifeline.reset();
  for (const auto& sink : host.outputs)
    if (sink->open()) sink->arrived({});
}

void RemoteRanks::lose(const std::vector<Host*>& hosts, const std::string& why) {
  std::vector<std::string> names;
  for (Host* host : hosts) {
    names.push_back(host->ranks.host);
    leave_out(*host);
  }
  for (Host* host : hosts)
    if (!ended_) events_.host_lost({host->ranks, host == hosts.front() ? text(list_hosts(names), " ", why) : ""});
}

void RemoteRanks::lose_mute_hosts() {
  std::vector<Host*> mute;
  for (Host& host : hosts_)
    if (!host.over && !host.due && (!host.connected() || (asked_ && &host == &hosts_[*asked_]))) mute.push_back(&host);
  lose_mute(mute);
}

// Reports the hosts as lost that were added after the start, and whose agents have not connected in time.
void RemoteRanks::lose_late_hosts() {
  std::vector<Host*> late;
  for (Host& host : hosts_)
    if (!host.over && host.due && Clock::now() >= *host.due) late.push_back(&host);
  lose_mute(late);
}

void RemoteRanks::lose_mute(const std::vector<Host*>& mute) {
  if (!mute.empty())
    lose(mute, text(mute.size() == 1 ? "has" : "have", " not answered in time (ANELLO_START_TIMEOUT)"));
}

// Returns the remedy if a starter has ended before its agent connected.
std::string RemoteRanks::remedy(const StarterProcess& starter) const {
  const int code = WIFEXITED(starter.status()) ? WEXITSTATUS(starter.status()) : 0;
  if (code == kShellNotFound) return text("; Anello must be there as ", own_program(), " or in PATH");
  if (code != kSshFailed || job_.remote->starter != Starter::ssh) return {};
  return text("; `", starter.command().shown, " true` must work without a password or a question");
}

// Ends the job before it has started any rank.
void RemoteRanks::cancel() {
  started_ = true;
  listener_.reset();
  for (Host& host : hosts_) end(host);
  for (const auto& starter : starters_) starter->kill();
}

// Ends the connection of a host without a report.
void RemoteRanks::leave_out(Host& host) {
  end(host);
  for (const auto& starter : starters_)
    if (starter->command().hosts == std::vector<int>{int(&host - hosts_.data())}) starter->kill();
}

void RemoteRanks::order(const Order& order) {
  const bool ends =
      order.kind == Order::Kind::kill || (order.kind == Order::Kind::signal && order.value != SIGSTOP &&
                                          order.value != SIGCONT && order.value != SIGUSR1 && order.value != SIGUSR2);
  ending_ = ending_ || ends;
  if (!started_ && ends) return cancel();
  for (Host& host : hosts_) {
    if (order.rank >= 0 && !host.ranks.has(order.rank)) continue;
    if (!host.started && ends) leave_out(host);
    if (host.started)
      send_order(host, order);
    else if (order.rank >= 0)
      host.early.push_back(order);
  }
}

void RemoteRanks::send_order(Host& host, const Order& order) {
  send(host, {.kind = Kind::order, .number = int(order.kind), .rank = order.rank, .value = order.value});
}

void RemoteRanks::send(Host& host, const AgentMessage& message) {
  if (host.messages) host.messages->send(encode(message));
}

bool RemoteRanks::output_may_come() const {
  return std::ranges::any_of(hosts_, [](const Host& host) { return !host.over; }) &&
         Clock::now() < last_bytes_ + kAgentsLastBytes;
}

}  // namespace anello::launch
