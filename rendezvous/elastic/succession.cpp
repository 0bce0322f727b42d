#include "rendezvous/elastic/succession.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/handshake.hpp"

namespace anello::elastic {

using rendezvous::Lineage;
using rendezvous::Peer;
using rendezvous::Peers;
using rendezvous::StandingConnection;
using std::chrono::milliseconds;

namespace {

constexpr int kMaxWorld = 1000;   // ranks; limited because each start sends all addresses to each rank
constexpr int kPortsOfARank = 2;  // one port for the world, and one for the succession
constexpr milliseconds kFirstLimit{500}, kBetweenSearches{20};
constexpr milliseconds kLastMessage{100};  // time in which the own server receives that this process has finished

ElasticLimits limits_of(const rendezvous::Inherited& terms) {
  return {.min = terms.min,
          .max = terms.max,
          .first = terms.min,
          .patience = terms.patience,
          .silence = terms.silence,
          .may_be_succeeded = true};
}

}  // namespace

Succession::Succession(const Settings& settings)
    : settings_(settings), search_time_(settings.start_timeout, kFirstLimit, net::kConnectHandshakeLimit) {}

// The ranks of this world will listen in the same range. Without this check, some of them would find no port.
void Succession::listen(const Identity& identity) try {
  const net::PortRange ports = net::parse_port_range(settings_.port_range);
  const int needed = kPortsOfARank * identity.local_size, given = ports.last - ports.first + 1;
  if (ports.last != 0 && given < needed && !serves_)
    return listen_no_more(text("ANELLO_PORT_RANGE='", settings_.port_range, "' has ", given, " ports for ",
                               identity.local_size, " ranks of this host; give it ", needed, " or more"));
  if (server_) return;
  ServerOptions options;
  options.listen_address = identity.address;
  options.job = identity.job;
  options.secret = identity.secret;
  options.elastic = limits_of(place_.inherited);
  options.heir = true;
  options.start_timeout = settings_.start_timeout;
  server_ = net::at_first_free(ports, [&](std::uint16_t port) {
    options.port = port;
    return std::make_unique<RendezvousServer>(options);
  });
} catch (const Error& error) {
  listen_no_more(error.what());
}

void Succession::listen_no_more(const std::string& why) {
  server_.reset();
  if (std::exchange(has_warned_, true)) return;
  log(Severity::warning, text("this process cannot go on as the rendezvous server if that ends: ", why));
}

void Succession::starts(StandingConnection& server) {
  if (place_.inherited.max == 0 || place_.size > kMaxWorld) {
    lineage_ = {};
    return;
  }
  const auto before = std::chrono::steady_clock::now();
  const Identity& identity = server.identity();
  listen(identity);
  const Peer self{identity.address, server_ ? server_->port() : std::uint16_t(0), std::uint32_t(getpid())};
  const auto own_worlds = place_.rank == 0 ? lineage_.worlds : std::vector<Peers>();
  rendezvous::Introductions all =
      rendezvous::introduce(self, own_worlds, [&server](std::string blob) { return server.exchange(std::move(blob)); });
  lineage_.starts(place_, std::move(all.peers), std::move(all.earlier), before);
  if (server_) server_->inherit(lineage_, limits_of(place_.inherited), place_.generation, place_.begun);
  if (std::exchange(announces_, false))
    log(Severity::warning,
        text("this process goes on as the rendezvous server of the job; for processes that join: ANELLO_RENDEZVOUS=",
             net::host_port(identity.address, self.port)));
}

void Succession::trains() {
  searches_ = false;
  search_time_.begin_anew();
  if (!lineage_.exists()) return;
  lineage_.trains();
  place_.begun = true;
  if (server_) server_->inherit(lineage_, limits_of(place_.inherited), place_.generation, true);
}

std::unique_ptr<StandingConnection> Succession::join(int rank, const Identity& identity, milliseconds limit) const {
  const Peer& peer = lineage_.newest().at(std::size_t(rank));
  Settings settings = settings_;
  settings.rendezvous = net::host_port(peer.address, peer.port);
  settings.rank = lineage_.rank;
  const rendezvous::Transfer transfer{.to = {.where = describe(peer),
                                             .listens = true,
                                             .rank = rank,
                                             .generation = lineage_.generation,
                                             .incarnation = lineage_.incarnation},
                                      .identity = identity,
                                      .limit = limit,
                                      .silence = place_.inherited.silence};
  try {
    return std::make_unique<StandingConnection>(settings, transfer);
  } catch (const Error& error) {
    if (error.message().find(rendezvous::kGoneOn) != std::string::npos)
      throw Error(ErrorCode::rendezvous, text("this process cannot enter another world: ", error.message()));
    log(Severity::info, text("rank ", rank, " does not go on as the server: ", error.what()));
    return nullptr;
  }
}

std::unique_ptr<StandingConnection> Succession::successor(const Identity& identity) {
  if (std::exchange(searches_, true)) rendezvous::Interruption::sleep(kBetweenSearches);
  serves_ = announces_ = false;
  if (server_) server_->step_back();
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_ptr<StandingConnection> connection = search(identity);
    const auto time = std::chrono::steady_clock::now() - begin + kBetweenSearches;
    search_time_.spend(std::chrono::ceil<milliseconds>(time));
    if (connection) return connection;
    rendezvous::Interruption::sleep(kBetweenSearches);
  }
}

// Tries the ranks of the last world once. Returns nothing if none of them can be reached.
std::unique_ptr<StandingConnection> Succession::search(const Identity& identity) {
  const auto deadline = std::chrono::steady_clock::now() + search_time_.left();
  const milliseconds each = search_time_.for_each_address();
  for (int rank = 0; rank < int(lineage_.newest().size()); rank++) {
    rendezvous::Interruption::check();
    const milliseconds left = rendezvous::time_left(deadline);
    if (left.count() == 0)
      throw Error(ErrorCode::rendezvous, "the rendezvous server has ended, and no process can go on as the server");
    const bool is_own = rank == lineage_.rank;
    if (is_own && server_) serve();
    if (lineage_.newest()[std::size_t(rank)].port == 0 || (is_own && !server_)) continue;
    if (auto connection = join(rank, identity, std::min(each, left))) return connection;
    if (serves_) break;
  }
  return nullptr;
}

void Succession::serve() {
  server_->inherit(lineage_, limits_of(place_.inherited), place_.generation, place_.begun);
  server_->succeed();
  serves_ = announces_ = true;
}

void Succession::finish() {
  if (serves_) serve_on();
  stop();
}

// True if another process of the newest world listens. Then the others find a server if this process ends.
bool Succession::can_be_succeeded() const {
  if (!lineage_.exists()) return false;
  const Peer& self = lineage_.newest().at(std::size_t(lineage_.rank));
  return std::ranges::any_of(lineage_.newest(), [&](const Peer& peer) { return peer.port != 0 && peer != self; });
}

// Goes on as the server of processes that still need a server. If none of them could take over, this process serves
// until the end.
void Succession::serve_on() {
  const auto begin = std::chrono::steady_clock::now();
  auto training_ends = begin;
  const bool hands_over = can_be_succeeded();
  if (hands_over) server_->hand_over();
  for (bool has_said = false;; std::this_thread::sleep_for(kBetweenSearches)) {
    const ElasticStatus status = server_->elastic_status();
    if (!status.finished) training_ends = std::chrono::steady_clock::now();
    const bool waits = rendezvous::time_left(training_ends + settings_.start_timeout).count() > 0;
    if (status.processes.empty() || !waits || rendezvous::Interruption::asked()) return;
    const bool has_left = !status.finished && std::chrono::steady_clock::now() - begin > kLastMessage;
    if (has_left && !std::exchange(has_said, true))
      log(Severity::warning,
          text("this process has left its job, and goes on as the rendezvous server until ",
               hands_over ? "another process has taken over" : "the others, which do not listen, have finished"));
  }
}

void Succession::stop() {
  server_.reset();
  lineage_ = {};
  serves_ = false;
}

}  // namespace anello::elastic
