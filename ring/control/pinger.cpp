#include "ring/control/pinger.hpp"

#include <algorithm>
#include <optional>

#include "ring/base/text.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/spawn.hpp"

namespace anello::control {

using asio::awaitable;
using std::chrono::steady_clock;
using Answer = net::PeerConnections::Answer;

namespace {

constexpr std::chrono::milliseconds kBetween{20};  // between two pings

failure::FailureDetector::Time now() {
  return std::chrono::duration_cast<failure::FailureDetector::Time>(steady_clock::now().time_since_epoch());
}

}  // namespace

void Pinger::ping(int peer) {
  to_ping_.insert(peer);
  if (!pinging_) net::spawn(around_.context, ping_all());
}

void Pinger::lost_unproven(int peer) {
  if (to_ping_if_lost_.erase(peer) > 0) ping(peer);
}

// Pings one rank after another, so that many pings need few descriptors. If a rank does not answer, the world ends.
awaitable<void> Pinger::ping_all() {
  pinging_ = true;
  while (!to_ping_.empty() && !stopped_) {
    const int peer = to_ping_.extract(to_ping_.begin()).value();
    if (around_.neighbours.is_unproven(peer)) to_ping_if_lost_.insert(peer);
    if (!around_.neighbours.has(peer) && !around_.detector.has_left(peer)) co_await ping_one(peer);
    for (std::size_t way = 1; way < around_.connections.ways(peer); way++) co_await ping_way(peer, way);
  }
  pinging_ = false;
}

// A rank that has left in good order also refuses connections. But its goodbye then arrives, unless no rank remained to
// pass the goodbye on.
awaitable<void> Pinger::ping_one(int peer) {
  failure::HeartbeatMonitor& heartbeats = around_.neighbours.heartbeats();
  const auto end = steady_clock::now() + heartbeats.limit();
  heartbeats.add(peer, now());
  around_.flush();
  auto answer = Answer::none;
  while (answer == Answer::none && steady_clock::now() < end) {
    answer = co_await around_.connections.ping(peer, 0, net::kConnectHandshakeLimit);
    if (answer == Answer::none) co_await net::pause(kBetween);
  }
  if (answer == Answer::none || around_.neighbours.has(peer)) co_return;
  heartbeats.remove(peer);
  if (answer == Answer::refusal)
    around_.detector.suspect(peer, 0, "no process accepts connections at its address any more", now());
  around_.flush();
}

// Pings over an interface other than the first. Only the first interface carries heartbeats, and it has just been found
// to work. So if this other interface is silent, the network is at fault and not the rank. If this process stood still,
// the limit begins again, because this process has not read what the peer sent in that time.
awaitable<void> Pinger::ping_way(int peer, std::size_t way) {
  const auto limit = around_.neighbours.heartbeats().limit();
  const auto began = steady_clock::now();
  const auto is_over = [&] { return stopped_ || around_.detector.has_left(peer); };
  auto answer = Answer::any;
  while (!is_over() && steady_clock::now() < std::max(began, resumed_) + limit) {
    answer = co_await around_.connections.ping(peer, way, limit);
    if (answer != Answer::none) break;
    co_await net::pause(kBetween);
    around_.check_standstill();
  }
  if (is_over() || answer == Answer::any) co_return;
  const std::string place = around_.connections.place(peer, way);
  const auto host_of = [&](int rank) -> const std::string& { return around_.hosts[std::size_t(rank)]; };
  if (answer == Answer::refusal)
    around_.detector.suspect(peer, 0, text("no process accepts connections at ", place, " any more"), now());
  else
    around_.detector.propose(
        {ErrorCode::rank_silent, peer,
         text("rank ", peer, " on ", host_of(peer), " has not answered at ", place, " for ", limit.count(),
              " ms, while it answers at its first address: rank ", around_.rank, " on ", host_of(around_.rank),
              " does not reach it over this interface; repair it, or leave it out of ANELLO_IFACE")},
        now());
  around_.flush();
}

}  // namespace anello::control
