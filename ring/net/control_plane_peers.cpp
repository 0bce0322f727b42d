// The control plane's connections with ranks that were not its neighbours at the start: those that remain neighbours
// when others have left, and pings of ranks that an operation waits for.
#include "ring/net/accept.hpp"
#include "ring/net/control_plane.hpp"

namespace anello::net {

using asio::awaitable;
using std::chrono::steady_clock;

namespace {
constexpr std::chrono::milliseconds kMendLimit{100};
}

// A rank that does not answer at once has left.
awaitable<void> ControlPlane::mend(int peer) {
  try {
    accepted(peer, co_await peer_connections_.connect(peer, Role::control, 0, 0, steady_clock::now() + kMendLimit));
  } catch (const std::exception&) {
    detector_.unreachable(peer);
    flush();
  }
}

// One after another, so that many peers cost few descriptors. If one does not answer, the world ends.
awaitable<void> ControlPlane::ping_all() {
  pinging_ = true;
  while (!to_ping_.empty() && !leaving_) {
    const int peer = to_ping_.extract(to_ping_.begin()).value();
    if (!neighbours_.contains(peer) && !detector_.has_left(peer)) co_await ping_one(peer);
  }
  pinging_ = false;
}

// A rank that left in good order does not listen either; then its goodbye comes, unless no rank could pass it on.
awaitable<void> ControlPlane::ping_one(int peer) {
  constexpr std::chrono::milliseconds kBetween{20};
  const auto end = steady_clock::now() + heartbeats_.limit();
  heartbeats_.add(peer, now());
  flush();
  auto answer = PeerConnections::Answer::none;
  while (answer == PeerConnections::Answer::none && steady_clock::now() < end) {
    answer = co_await peer_connections_.ping(peer);
    if (answer == PeerConnections::Answer::none) co_await pause(kBetween);
  }
  if (answer == PeerConnections::Answer::none || neighbours_.contains(peer)) co_return;
  heartbeats_.remove(peer);
  if (answer == PeerConnections::Answer::refusal)
    detector_.suspect(peer, 0, "no process accepts connections at its address any more", now());
  flush();
}

}  // namespace anello::net
