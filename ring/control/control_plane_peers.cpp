// How the control plane connects: to its neighbours at the start, and to new neighbours after other ranks have left.
#include <algorithm>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/control/control_plane.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/spawn.hpp"

namespace anello::control {

using asio::awaitable;
using std::chrono::steady_clock;

namespace {
constexpr std::chrono::milliseconds kMendLimit{100};
}  // namespace

void ControlPlane::connect(steady_clock::time_point deadline,
                           const std::function<void(std::chrono::milliseconds)>& check) {
  constexpr std::chrono::milliseconds kBetweenChecks{50}, kWaitForCause{300};
  for (const int peer : expected_)
    if (peer < rank_) net::spawn(context_, dial(peer, deadline));

  while (!published_.wait_for_start(expected_.size(), kBetweenChecks) && steady_clock::now() < deadline) check({});
  // A peer may have closed its connection because another rank died. Then `check` may find the rank that died.
  if (published_.may_have_deeper_cause()) check(kWaitForCause);
  published_.throw_if_failed();
  const std::vector<int> connected = published_.connected();
  std::string missing;
  for (const int peer : expected_)
    if (std::find(connected.begin(), connected.end(), peer) == connected.end())
      missing += text(missing.empty() ? "" : ", ", "rank ", peer, " on ", hosts_[std::size_t(peer)]);
  if (missing.empty()) return;
  throw Error(ErrorCode::rendezvous, text("no connection with ", missing, " before ANELLO_START_TIMEOUT ran out"));
}

awaitable<void> ControlPlane::dial(int peer, steady_clock::time_point deadline) {
  try {
    net::PeerConnections::Socket socket = co_await peer_connections_.connect(peer, net::Role::control, 0, 0, deadline);
    accepted(peer, std::move(socket));
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    published_.start_failed(error ? *error : Error(ErrorCode::network, e.what(), rank_));
  }
}

// A rank that connects because others have left may itself leave before it has sent anything. Its neighbours must not
// take its leaving for a death, so both sides send a heartbeat at once. If the world has already failed when a rank
// connects at the start, that rank gets the reason.
void ControlPlane::accepted(int peer, net::PeerConnections::Socket socket) {
  if (leaving_ && !detector_.verdict()) return;
  if (neighbours_.has(peer)) return log(Severity::info, text("dropped a second control connection of rank ", peer));
  auto neighbour = std::make_shared<net::MessageChannel>(std::move(socket));
  const bool expected = std::find(expected_.begin(), expected_.end(), peer) != expected_.end();
  neighbours_.add(peer, neighbour, expected, now());
  net::spawn(context_, receive_messages(peer, neighbour));
  detector_.connected(peer);
  if (expected)
    published_.connected(peer);
  else
    neighbours_.send_heartbeat(peer, slept());
  flush();
  if (published_.sent()) neighbour->finish(kMaxIfFailed);
}

awaitable<void> ControlPlane::receive_messages(int peer, Neighbours::Channel neighbour) {
  std::string how;
  try {
    for (;;) {
      const std::string message =
          co_await net::read_message(neighbour->socket(), kMaxMessageBytes, "its control connection");
      check_standstill();
      neighbours_.received(peer, now());
      pinger_.proven(peer);
      handle(peer, message);
      flush();
    }
  } catch (const Error& e) {
    how = e.what();
    if (e.code() != ErrorCode::network) {
      how = text("it sent an invalid ", how);
      detector_.propose({e.code(), peer, text("rank ", peer, " on ", hosts_[std::size_t(peer)], ": ", how)}, now());
      flush();  // called before closing, so that other ranks read the message before the connection's end
    }
  }
  disconnected(peer, how);
}

void ControlPlane::disconnected(int peer, const std::string& how) {
  if (neighbours_.remove(peer))
    detector_.unreachable(peer);
  else if (!leaving_)
    detector_.lost(peer, how, now());
  flush();
  pinger_.lost_unproven(peer);
}

// Connects to a new neighbour. A neighbour that does not answer soon has left.
awaitable<void> ControlPlane::mend(int peer) {
  try {
    accepted(peer,
             co_await peer_connections_.connect(peer, net::Role::control, 0, 0, steady_clock::now() + kMendLimit));
  } catch (const std::exception&) {
    detector_.unreachable(peer);
    flush();
  }
}

}  // namespace anello::control
