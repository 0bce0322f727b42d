#include "rendezvous/meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "rendezvous/describe.hpp"
#include "rendezvous/home_secret.hpp"
#include "rendezvous/job_ports.hpp"
#include "rendezvous/reachable_addresses.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kOwnServerLimit{500};                     // for a server of this host to say whose it is
constexpr milliseconds kReasonLimit{500};                        // for other ranks to read why the start has failed
constexpr int kCredentialsForARank = 16, kMoreCredentials = 64;  // ranks ask again if the answer takes long
constexpr std::size_t kMaxSpaceName = 200;                       // of a process manager, as part of a job's name
constexpr std::string_view kLoopback = "127.0.0.1", kAddressKey = "anello-address", kSecretKey = "anello-secret",
                           kNoSecret = "none";

// Calls `attempt` with the address and each of the ports, until it does not throw Error{network}.
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

// Variables that were set by hand may be missing on some ranks. Those with LOCAL_WORLD_SIZE look for the job on
// their host, the others at MASTER_ADDR.
bool serves_both_ways(const Placement& way) {
  return way.way == Way::master && way.exported && way.serves;
}

// That of a file. A job on one host starts without one too, so there it is no error if it cannot be used.
std::string shared_secret(const Placement& way, const Settings& settings) try {
  const std::string secret = read_any_secret(settings);
  if (way.one_host) net::require_authentication(secret);
  return secret;
} catch (const Error& error) {
  if (!way.one_host) throw;
  log(Severity::warning, text(error.what(), "; ranks of this host that lack LOCAL_WORLD_SIZE cannot join"));
  return {};
}

// Of a job with variables set by hand, which ranks also reach by MASTER_ADDR: if not all ranks are on this host,
// another job, with another secret, may have the local socket of this name.
std::unique_ptr<LocalListener> listen_if_possible(const Placement& way, const Invitation& invitation,
                                                  std::function<bool()> open) try {
  return std::make_unique<LocalListener>(invitation, std::move(open));
} catch (const Error& error) {
  if (way.one_host) throw;
  log(Severity::info, error.what());
  return nullptr;
}

std::vector<std::uint16_t> any_port(const Settings& settings) {
  return settings.port_range.empty() ? std::vector<std::uint16_t>{0} : job_ports(settings.job, settings.port_range);
}

void require_same(const char* what, int of_manager, int known, const std::string& manager) {
  if (known >= 0 && of_manager != known)
    throw Error(ErrorCode::configuration,
                text(manager, " says ", what, " ", of_manager, ", but the environment says ", known));
}

}  // namespace

int next_world_number() {
  static std::atomic<int> worlds = 0;
  return ++worlds;
}

Meeting::Meeting(const JoinPlan& plan, const MeetingHooks& hooks)
    : given_job_(plan.settings.job),
      settings_(plan.settings),
      deadline_(Clock::now() + plan.settings.start_timeout),
      world_number_(hooks.world_number()) {
  for (const Placement& way : plan.ways)
    if (meet(way, hooks)) return;
  throw Error(ErrorCode::configuration, text("this is ", plan.ways.at(0).task(),
                                             ", and it cannot join the others: ", refusals_, "; ", kRemedies));
}

Meeting::~Meeting() {
  if (server_ && !over_) std::this_thread::sleep_for(kReasonLimit);
}

bool Meeting::refuse(std::string_view what, std::string_view why) {
  refusals_ += text(refusals_.empty() ? "" : "; ", what, ": ", why);
  return false;
}

// False if this way cannot be used here.
bool Meeting::meet(const Placement& way, const MeetingHooks& hooks) {
  where_ = way.launcher;
  on_loopback_ = way.one_host || means_this_host(way.host);
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
  const bool named = given_job_ != Settings().job;
  settings_.job = text(job, named ? "-" + given_job_ : "", world_number_ > 1 ? text("-", world_number_) : "");
}

void Meeting::start_server(const std::string& address, const std::vector<std::uint16_t>& ports, bool may_be_ours) {
  ServerOptions options;
  options.job = settings_.job;
  options.secret = secret_;
  options.size = settings_.size;
  options.start_timeout = settings_.start_timeout;
  server_ = listen_on_first(address, ports, [&](const net::HostPort& at) {
    options.listen_address = at.host;
    options.port = at.port;
    try {
      return std::make_unique<RendezvousServer>(options);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::network && may_be_ours) require_other_job(at.port);
      throw;
    }
  });
}

// With a secret of its own, if this build can use one.
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
  name_job("manager-" + space.name().substr(0, kMaxSpaceName));
  if (space.rank() == 0) {
    start_own_server();
    space.put(std::string(kAddressKey), reachable_addresses(settings_.iface, server_->port(), on_loopback_));
    space.put(std::string(kSecretKey), secret_.empty() ? std::string(kNoSecret) : secret_);
  }
  space.fence();
  settings_.rendezvous = space.get(std::string(kAddressKey));
  secret_ = space.get(std::string(kSecretKey));
  if (secret_ == kNoSecret) secret_.clear();
}

void Meeting::meet_on_this_host(const Placement& way) {
  on_loopback_ = listens_ = true;
  name_job(way.job);
  if (way.serves) {
    start_own_server();
    settings_.rendezvous = net::host_port(kLoopback, server_->port());
    local_listener_ = std::make_unique<LocalListener>(invitation(), server_is_open());
    return;
  }
  const auto ask = [&](milliseconds limit) { return receive_local_invitation(settings_.job, limit); };
  const char* const why = way.one_host ? "" : ", because this rank has no secret file";
  const InvitationSource local{text("the local socket of user ", geteuid(), why), ask};
  accept_invitation([local] { return std::vector{local}; });
}

void Meeting::meet_by_munge(const Placement& way, std::shared_ptr<Munge> munge) {
  net::require_authentication("any");
  listens_ = true;
  name_job(way.job);
  const std::vector<std::uint16_t> ports = job_ports(way.job, settings_.port_range);
  if (way.serves) {
    start_own_server();
    const CredentialListener::Limits limits{server_is_open(), kCredentialsForARank * settings_.size + kMoreCredentials};
    settings_.rendezvous = net::host_port(way.host, server_->port());
    listener_ = listen_on_first(net::any_address(), ports, [&](const net::HostPort& at) {
      return std::make_unique<CredentialListener>(at, munge, invitation(), limits);
    });
    return;
  }
  accept_invitation(CredentialSources(way.host, ports, *munge));
}

// To this process's server.
Invitation Meeting::invitation() const {
  return {settings_.job, secret_, server_->port(), {}};
}

// No more invitations when all ranks have joined: the next program of this step is to find its own server.
std::function<bool()> Meeting::server_is_open() const {
  return [server = server_.get()] {
    const ServerStats stats = server->stats();
    return !stats.starting && stats.worlds_formed == 0;
  };
}

void Meeting::accept_invitation(const InvitationSources& sources) {
  std::string tried;
  const std::optional<Invitation> found = find_invitation(settings_.job, sources, deadline_, tried);
  if (!found)
    throw Error(ErrorCode::network,
                text("no rendezvous of ", where_, " within ", seconds(settings_.start_timeout), "; tried ", tried,
                     "; the first task of ", on_loopback_ ? "this" : "its first", " host should run it"));
  secret_ = found->secret;
  settings_.rendezvous = net::host_port(found->host, found->port);
}

// The server listens on one of these ports, or will. On all addresses, also if this rank reaches it by loopback: others
// may know this host by its name.
void Meeting::meet_at(const Placement& way) {
  name_job(way.job);
  std::vector<std::uint16_t> ports = job_ports(way.job, settings_.port_range);
  if (way.port != 0) ports.insert(ports.begin(), way.port);
  if (way.serves) {
    start_server(net::any_address(), ports, true);
    ports = {server_->port()};
  }
  if (serves_both_ways(way)) local_listener_ = listen_if_possible(way, invitation(), server_is_open());
  // The name of a container may resolve nowhere.
  const std::string host = way.one_host && way.serves ? std::string(kLoopback) : way.host;
  for (const std::uint16_t port : ports)
    settings_.rendezvous += text(settings_.rendezvous.empty() ? "" : ",", net::host_port(host, port));
}

// Ranks of this job would meet those of another one that has the same name and secret.
void Meeting::require_other_job(std::uint16_t port) const {
  Settings theirs = settings_;
  theirs.rendezvous = net::host_port(kLoopback, port);
  theirs.start_timeout = kOwnServerLimit;
  try {
    RendezvousClient::try_server(theirs, secret_, {where_, false, true});
  } catch (const Error&) {
    return;
  }
  throw second_of_a_job(settings_.job, text("at port ", port));
}

void Meeting::wait_for_others() {
  over_ = !server_ || server_->wait_until_over(settings_.start_timeout + kReasonLimit);
  listener_.reset();
  local_listener_.reset();
  server_.reset();
}

}  // namespace anello::rendezvous
