#include "rendezvous/elastic/succession.hpp"

#include <unistd.h>

#include <utility>
#include <vector>

#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::elastic {

using rendezvous::Lineage;
using rendezvous::Peer;
using rendezvous::Peers;
using rendezvous::StandingConnection;
using std::chrono::milliseconds;

namespace {

constexpr int kMaxWorld = 1000;  // ranks; the addresses of more would not fit into an exchange
constexpr milliseconds kSearchLimit{500}, kBetweenSearches{20};

ElasticLimits limits_of(const rendezvous::Inherited& terms) {
  return {.min = terms.min,
          .max = terms.max,
          .first = terms.min,
          .patience = terms.patience,
          .silence = terms.silence,
          .may_be_succeeded = true};
}

}  // namespace

void Succession::listen(const Identity& identity) try {
  if (server_) return;
  ServerOptions options;
  options.listen_address = identity.address;
  options.job = identity.job;
  options.secret = identity.secret;
  options.elastic = limits_of(place_.inherited);
  options.heir = true;
  options.start_timeout = settings_.start_timeout;
  server_ = net::at_first_free(net::parse_port_range(settings_.port_range), [&](std::uint16_t port) {
    options.port = port;
    return std::make_unique<RendezvousServer>(options);
  });
} catch (const Error& error) {
  log(Severity::warning, text("this process cannot go on as the rendezvous server if that ends: ", error.what()));
}

void Succession::starts(StandingConnection& server) {
  if (place_.inherited.max == 0 || place_.size > kMaxWorld) {
    lineage_ = {};
    return;
  }
  const Identity& identity = server.identity();
  listen(identity);
  const Peer self{identity.address, server_ ? server_->port() : std::uint16_t(0), std::uint32_t(getpid())};
  const auto own_worlds = place_.rank == 0 ? lineage_.worlds : std::vector<Peers>();
  Peers peers;
  std::vector<Peers> earlier, none;
  for (const std::string& blob : server.exchange(encode_peer(self, own_worlds)))
    peers.push_back(decode_peer(blob, peers.empty() ? earlier : none));
  lineage_.starts(place_.generation, place_.rank, std::move(peers), std::move(earlier));
  if (server_) server_->inherit(lineage_, limits_of(place_.inherited), place_.generation, place_.begun);
}

void Succession::trains() {
  if (!lineage_.exists()) return;
  searches_ = false;
  lineage_.trains();
  place_.begun = true;
  if (server_) server_->inherit(lineage_, limits_of(place_.inherited), place_.generation, true);
}

std::unique_ptr<StandingConnection> Succession::join(int rank, const Identity& identity) const {
  const Peer& peer = lineage_.newest().at(std::size_t(rank));
  Settings settings = settings_;
  settings.rendezvous = net::host_port(peer.address, peer.port);
  settings.rank = lineage_.rank;
  const rendezvous::Transfer transfer{
      .to = {.where = describe(peer), .listens = true, .rank = rank, .generation = lineage_.generation},
      .identity = identity,
      .limit = kSearchLimit,
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
  const auto deadline = std::chrono::steady_clock::now() + settings_.start_timeout;
  if (std::exchange(searches_, true)) rendezvous::Interruption::sleep(kBetweenSearches);
  serves_ = false;
  if (server_) server_->step_back();
  for (;;) {
    for (int rank = 0; rank < int(lineage_.newest().size()); rank++) {
      rendezvous::Interruption::check();
      if (rank == lineage_.rank && server_) {
        server_->inherit(lineage_, limits_of(place_.inherited), place_.generation, place_.begun);
        server_->succeed();
        serves_ = true;
        log(Severity::warning,
            text(
                "this process goes on as the rendezvous server of the job; for processes that join: ANELLO_RENDEZVOUS=",
                net::host_port(identity.address, server_->port())));
      }
      if (auto connection = rank == lineage_.rank && !server_ ? nullptr : join(rank, identity)) return connection;
      if (serves_) break;
    }
    if (rendezvous::time_left(deadline).count() == 0)
      throw Error(ErrorCode::rendezvous, "the rendezvous server has ended, and no process can go on as the server");
    rendezvous::Interruption::sleep(kBetweenSearches);
  }
}

void Succession::finish() {
  const auto deadline = std::chrono::steady_clock::now() + settings_.start_timeout;
  while (serves_ && !server_->elastic_status().processes.empty() && rendezvous::time_left(deadline).count() > 0)
    rendezvous::Interruption::sleep(kBetweenSearches);
}

}  // namespace anello::elastic
