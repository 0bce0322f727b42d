#include "rendezvous/join/meeting.hpp"

#include <unistd.h>

#include <algorithm>

#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/join/job_ports.hpp"
#include "rendezvous/join/reachable_addresses.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/hmac.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kOwnServerLimit{500};  // maximum time for a server on this host to answer which job it serves
constexpr milliseconds kLeaveLimit{500};      // maximum time for the last rank to leave
// Limits for the other ranks to join and to receive the reason why the start has failed. A busy machine may start ranks
// late. kShortReasonLimit is used if the user waits for the end.
constexpr milliseconds kReasonLimit{3000}, kMinReasonLimit{500}, kShortReasonLimit{50};
constexpr std::size_t kMaxSpaceName = 200;  // characters of the space's name that become part of the job's name
constexpr std::string_view kLoopback = "127.0.0.1", kAddressKey = "anello-address", kSecretKey = "anello-secret",
                           kNoSecret = "none", kJobKey = "anello-job";

// Calls `attempt` with the address and one port after another, until a call does not throw Error{network}. Returns its
// result.
template <class Attempt>
auto listen_on_first(const std::string& address, const std::vector<std::uint16_t>& ports, Attempt attempt) {
  for (std::size_t i = 0;; i++) {
    try {
      return attempt(net::HostPort{address, ports.at(i)});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::network || i + 1 == ports.size()) throw;
      log(Severity::info, error.what());
    }
  }
}

bool means_this_host(const std::string& host) {
  return host == "localhost" || net::is_loopback(host);
}

// True if ranks may come in two ways. If the user has set the variables by hand, LOCAL_WORLD_SIZE may be missing on
// some ranks. The ranks that have LOCAL_WORLD_SIZE look for the job on their host, and the other ranks look at
// MASTER_ADDR.
bool serves_both_ways(const Placement& way) {
  return way.way == Way::master && way.exported && way.serves;
}

// Returns the secret of a file. A job on one host can start without a file, so an unusable file is not an error for
// such a job.
std::string shared_secret(const Placement& way, const Settings& settings) try {
  const std::string secret = read_any_secret(settings);
  if (way.one_host) net::require_authentication(secret);
  return secret;
} catch (const Error& error) {
  if (!way.one_host) throw;
  log(Severity::warning, text(error.what(), "; ranks of this host without LOCAL_WORLD_SIZE cannot join"));
  return {};
}

// Listens on the local socket for ranks of a job whose variables were set by hand. Another job, with another secret,
// may have the socket's name. This is an error only if all ranks are on this host. Otherwise ranks can also come by
// MASTER_ADDR.
std::unique_ptr<LocalListener> listen_if_possible(const Placement& way, const std::string& place,
                                                  const Invitation& invitation, std::function<bool()> open) try {
  return std::make_unique<LocalListener>(place, invitation, std::move(open));
} catch (const Error& error) {
  if (way.one_host) throw;
  log(Severity::info, error.what());
  return nullptr;
}

std::vector<std::uint16_t> any_port(const Settings& settings) {
  return settings.port_range.empty() ? std::vector<std::uint16_t>{0} : job_ports(settings.job, settings.port_range);
}

// Leaves enough descriptors for the ranks, which have up to two connections each, even if other programs connect.
std::size_t max_half_open() {
  return std::clamp(net::free_descriptors() / 4, std::size_t(8), ServerOptions().max_half_open);
}

// Thrown if another process of this job has this port.
struct PortTaken {
  std::uint16_t port;
};

void require_same(const char* what, int of_manager, int known, const std::string& manager) {
  if (known >= 0 && of_manager != known)
    throw Error(ErrorCode::configuration,
                text(manager, " says ", what, " ", of_manager, ", but the environment says ", known));
}

// Returns the job's name: the launcher's name `job`, followed by the user's name `given` unless that is the default.
std::string with_name(const std::string& job, const std::string& given) {
  return given == Settings().job ? job : text(job, "-", given);
}

// Replaces characters of a job's name, so that it is a valid value in a key-value space.
std::string space_value(std::string name) {
  for (char& c : name)
    if (c <= ' ' || c > '~' || c == '=' || c == ';') c = '_';
  return name.empty() ? "_" : name;
}

}  // namespace

Meeting::Meeting(const JoinPlan& plan, const MeetingHooks& hooks)
    : given_job_(plan.settings.job), settings_(plan.settings), deadline_(Clock::now() + plan.settings.start_timeout) {
  for (const Placement& way : plan.ways)
    if (meet(way, hooks)) return;
  throw Error(ErrorCode::configuration, text("this is ", plan.ways.at(0).task(),
                                             ", and it cannot join the others: ", refusals_, "; ", kRemedies));
}

Meeting::~Meeting() = default;

bool Meeting::refuse(std::string_view what, std::string_view why) {
  refusals_ += text(refusals_.empty() ? "" : "; ", what, ": ", why);
  return false;
}

// Returns false if this way to meet cannot be used here.
bool Meeting::meet(const Placement& way, const MeetingHooks& hooks) {
  where_ = way.launcher;
  on_loopback_ = way.one_host || means_this_host(way.host);
  server_rank_ = way.way == Way::first_host ? -1 : 0;
  by_hand_ = way.way == Way::master && way.exported;
  try {
    if (way.way == Way::pmi || way.way == Way::pmix) {
      const auto space = hooks.open_space(way.way, settings_.start_timeout);
      if (!space) return refuse(way.launcher, "no connection with it is open");
      meet_in(*space);
      return true;
    }
    if (way.one_host && !serves_both_ways(way)) {
      meet_on_this_host(way);
      return true;
    }
    if (way.way == Way::first_host && net::read_secret(settings_).empty()) {
      meet_by_munge(way, hooks.munge());
      return true;
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    refuse(way.launcher, error.what());
    if (way.way != Way::first_host) return false;
  }
  secret_ = shared_secret(way, settings_);
  if (secret_.empty() && !on_loopback_)
    return refuse(
        "there is no secret in " + home_secret_path(),
        text("`anello secret` makes one, if all hosts share that folder; ANELLO_SECRET_FILE names another one",
             way.exported ? "; if all ranks are on this host, set LOCAL_WORLD_SIZE for all of them" : ""));
  if (secret_.empty())
    meet_on_this_host(way);
  else
    meet_at(way);
  return true;
}

void Meeting::name_job(const std::string& job) {
  settings_.job = with_name(job, given_job_);
}

void Meeting::start_server(const std::string& address, const std::vector<std::uint16_t>& ports, bool may_be_ours) {
  ServerOptions options;
  options.job = settings_.job;
  options.secret = secret_;
  options.size = settings_.size;
  options.start_timeout = settings_.start_timeout;
  options.may_be_mixed = by_hand_;
  files_.emplace();
  options.max_half_open = max_half_open();
  server_ = listen_on_first(address, ports, [&](const net::HostPort& at) {
    options.listen_address = at.host;
    options.port = at.port;
    try {
      return std::make_unique<RendezvousServer>(options);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::network && may_be_ours && is_of_this_job(at.port)) throw PortTaken{at.port};
      throw;
    }
  });
}

// Starts a server with a new secret, if this build can use one.
void Meeting::start_own_server() {
  secret_ = net::make_secret();
  if (secret_.empty())
    log(Severity::warning, "this build has no OpenSSL, so nothing keeps other users of this host out of the job");
  start_server(on_loopback_ ? std::string(kLoopback) : net::any_address(), any_port(settings_), false);
}

void Meeting::meet_in(KeyValueSpace& space) {
  if (!on_loopback_) net::require_authentication("any");
  listens_ = true;
  require_same("size", space.size(), settings_.size, where_);
  require_same("rank", space.rank(), settings_.rank, where_);
  settings_.size = space.size();
  settings_.rank = space.rank();
  const std::string managers_name = "manager-" + space.name().substr(0, kMaxSpaceName);
  settings_.job = with_name(managers_name, space_value(given_job_));
  if (space.rank() == 0) {
    start_own_server();
    space.put(std::string(kAddressKey), reachable_addresses(settings_.iface, server_->port(), on_loopback_));
    space.put(std::string(kSecretKey), secret_.empty() ? std::string(kNoSecret) : secret_);
    space.put(std::string(kJobKey), space_value(given_job_));
  }
  space.fence();
  settings_.rendezvous = space.get(std::string(kAddressKey));
  secret_ = space.get(std::string(kSecretKey));
  if (secret_ == kNoSecret) secret_.clear();
  require_job_of_rank_0(managers_name, space.get(std::string(kJobKey)));
}

// Fences have no names. So if ranks start several worlds in different orders, they meet at the same fence. In that
// case, all ranks get an error that explains this.
void Meeting::require_job_of_rank_0(const std::string& managers_name, const std::string& job) {
  if (job == space_value(given_job_)) return;
  const Error why(
      ErrorCode::configuration,
      text("rank ", settings_.rank, " starts a world of job '", given_job_, "', but rank 0 starts one of job '", job,
           "': all ranks must start their worlds in the same order, with equal ANELLO_JOB"),
      settings_.rank);
  try {
    Settings of_rank_0 = settings_;
    of_rank_0.job = with_name(managers_name, job);
    RendezvousClient::report_failure(of_rank_0, secret_, server(), why);
  } catch (const Error& error) {
    log(Severity::info, text("the other ranks could not be informed: ", error.what()));
  }
  throw why;
}

// Another process may already listen for a job with this name. Then this rank joins at that process's server, as any
// other rank does, and the server informs all ranks that two processes have rank 0. If all ranks of the start at that
// server have already joined, this rank waits until that start is over.
void Meeting::meet_on_this_host(const Placement& way) {
  on_loopback_ = listens_ = true;
  name_job(way.job);
  if (way.serves) start_own_server();
  const std::string place = with_name(way.place, given_job_);
  bool has_knocked = false;
  const auto ask = [&](milliseconds limit) {
    if (way.serves && listen_on_this_host(place)) return invitation();
    const Invitation found = receive_local_invitation(place, limit);
    if (found.job != settings_.job && !std::exchange(has_knocked, true)) knock(found);
    return found;
  };
  const char* const why = way.one_host ? "" : ", because this rank has no secret file";
  const InvitationSource local{text("the local socket of user ", geteuid(), why), ask};
  std::string tried;
  accept(find_invitation(settings_.job, local, deadline_, tried), tried);
  if (local_listener_) return;
  server_.reset();
  files_.reset();
}

// Connects to the server of another run of this job, which refuses this rank. If that server's own ranks do not join,
// its report mentions the refused rank.
void Meeting::knock(const Invitation& other) const try {
  Settings mine = settings_;
  mine.rendezvous = net::host_port(other.host, other.port);
  mine.start_timeout = kOwnServerLimit;
  RendezvousClient::try_server(mine, other.secret, server());
} catch (const Error& error) {
  log(Severity::info, error.what());
}

// Returns false if a process of this user already listens at this place.
bool Meeting::listen_on_this_host(const std::string& place) {
  if (local_listener_) return true;
  try {
    local_listener_ = std::make_unique<LocalListener>(place, invitation(), server_is_open());
    return true;
  } catch (const NameTaken& taken) {
    log(Severity::info, taken.what());
    return false;
  }
}

void Meeting::meet_by_munge(const Placement& way, std::shared_ptr<Munge> munge) {
  net::require_authentication("any");
  listens_ = true;
  name_job(way.job);
  const std::vector<std::uint16_t> ports = job_ports(way.place, settings_.port_range);
  if (way.serves) {
    start_own_server();
    settings_.rendezvous = net::host_port(way.host, server_->port());
    listener_ = listen_on_first(net::any_address(), ports, [&](const net::HostPort& at) {
      return std::make_unique<CredentialListener>(at, munge, invitation(), server_is_open(), max_half_open());
    });
    return;
  }
  std::vector<net::HostPort> places;
  for (const std::uint16_t port : ports) places.push_back({way.host, port});
  std::string tried;
  accept(find_invitation(settings_.job, places, *munge, deadline_, tried), tried);
}

// Returns the invitation to this process's server.
Invitation Meeting::invitation() const {
  return {settings_.job, secret_, server_->port(), std::string(kLoopback)};
}

// Returns a function that returns false when all ranks have joined. From then on no rank is invited, because the next
// program of this Slurm step must find its own server.
std::function<bool()> Meeting::server_is_open() const {
  return [server = server_.get()] {
    const ServerStats stats = server->stats();
    return !stats.starting && stats.worlds_formed == 0;
  };
}

void Meeting::accept(const std::optional<Invitation>& found, const std::string& tried) {
  if (!found)
    throw Error(ErrorCode::network,
                text("no rendezvous of ", where_, " within ", seconds(settings_.start_timeout), "; tried ", tried, "; ",
                     server_rank_ < 0 ? "the first task of its first host" : "rank 0",
                     " runs it, and has not been started, has ended, or is slow: see its output"),
                server_rank_);
  secret_ = found->secret;
  settings_.rendezvous = net::host_port(found->host, found->port);
}

// The server listens on one of the job's ports, now or later. It listens on all addresses, even if this rank reaches it
// by loopback, because other ranks may use this host's name.
void Meeting::meet_at(const Placement& way) {
  name_job(way.job);
  std::vector<std::uint16_t> ports = job_ports(way.place, settings_.port_range);
  if (way.port != 0) ports.insert(ports.begin(), way.port);
  try {
    if (way.serves) start_server(net::any_address(), ports, true);
    if (server_) ports = {server_->port()};
  } catch (const PortTaken& taken) {
    ports = {taken.port};
  }
  if (server_ && serves_both_ways(way))
    local_listener_ = listen_if_possible(way, with_name(way.place, given_job_), invitation(), server_is_open());
  // The name of a container may not be resolvable.
  const std::string host = way.one_host && way.serves ? std::string(kLoopback) : way.host;
  for (const std::uint16_t port : ports)
    settings_.rendezvous += text(settings_.rendezvous.empty() ? "" : ",", net::host_port(host, port));
}

// True if the process that listens at this port serves a job with this name and secret.
bool Meeting::is_of_this_job(std::uint16_t port) const {
  Settings theirs = settings_;
  theirs.rendezvous = net::host_port(kLoopback, port);
  theirs.start_timeout = kOwnServerLimit;
  try {
    RendezvousClient::try_server(theirs, secret_, {where_, false, true, server_rank_});
    return true;
  } catch (const Error&) {
    return false;
  }
}

void Meeting::conclude(const Error& why) {
  if (!server_) return;
  server_->conclude(why, settings_.rank);
  // Waits only a short time for ranks that have not joined within start_timeout.
  const auto limit = std::clamp(time_left(deadline_), kMinReasonLimit, kReasonLimit);
  server_->wait_until_concluded(Interruption::asked() ? kShortReasonLimit : limit);
}

void Meeting::wait_for_others(std::uint32_t generation) {
  const auto deadline = Clock::now() + settings_.start_timeout + kLeaveLimit;
  while (server_ && time_left(deadline).count() > 0) {
    Interruption::check();
    if (server_->wait_until_over(generation, Interruption::slice(time_left(deadline)))) break;
  }
  listener_.reset();
  local_listener_.reset();
  server_.reset();
  files_.reset();
}

}  // namespace anello::rendezvous
