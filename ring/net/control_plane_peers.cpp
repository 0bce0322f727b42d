// The control plane's connections with ranks that were not its neighbours at the start: those that remain neighbours
// when others have left, and pings of ranks that an operation waits for.
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

// Any answer will do, also a refusal.
awaitable<void> ControlPlane::ping_one(int peer) {
  const auto end = steady_clock::now() + heartbeats_.limit();
  heartbeats_.add(peer, now());
  flush();
  for (bool answered = false; !answered && steady_clock::now() < end;) {
    try {
      co_await peer_connections_.connect(peer, Role::ping, 0, 0, steady_clock::now());
      answered = true;
    } catch (const Error& e) {
      answered = e.code() != ErrorCode::timed_out;
    }
    if (answered && !neighbours_.contains(peer)) heartbeats_.remove(peer);
  }
}

}  // namespace anello::net
