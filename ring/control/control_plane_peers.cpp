// The control plane's connections: to its neighbours at the start, to new neighbours when others have left, and pings
// of ranks for which an operation waits.
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
constexpr std::chrono::milliseconds kBetween{20};  // between two pings
}  // namespace

void ControlPlane::connect(steady_clock::time_point deadline,
                           const std::function<void(std::chrono::milliseconds)>& check) {
  constexpr std::chrono::milliseconds kBetweenChecks{50}, kWaitForCause{300};
  for (const int peer : expected_)
    if (peer < rank_) net::spawn(context_, dial(peer, deadline));

  MutexLock lock(mutex_);
  const auto ready = [this]() ANELLO_REQUIRES(mutex_) {
    return start_error_ || verdict_ || connected_.size() == expected_.size();
  };
  while (!changed_.wait_for(lock, kBetweenChecks, ready) && steady_clock::now() < deadline) {
    lock.unlock();
    check({});
    lock.lock();
  }
  // A rank whose connection ended may have given up because another rank died: `check` may find out which.
  if (start_error_ || (verdict_ && verdict_->code == ErrorCode::rank_dead)) {
    lock.unlock();
    check(kWaitForCause);
    lock.lock();
  }
  const bool in_time = ready();
  if (start_error_) throw *start_error_;
  if (verdict_) throw Error(verdict_->code, verdict_->message, verdict_->culprit);
  if (in_time) return;
  std::string missing;
  for (const int peer : expected_)
    if (std::find(connected_.begin(), connected_.end(), peer) == connected_.end())
      missing += text(missing.empty() ? "" : ", ", "rank ", peer, " on ", hosts_[std::size_t(peer)]);
  throw Error(ErrorCode::rendezvous, text("no connection with ", missing, " before ANELLO_START_TIMEOUT ran out"));
}

awaitable<void> ControlPlane::dial(int peer, steady_clock::time_point deadline) {
  try {
    net::PeerConnections::Socket socket = co_await peer_connections_.connect(peer, net::Role::control, 0, 0, deadline);
    accepted(peer, std::move(socket));
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    const MutexLock lock(mutex_);
    start_error_ = error ? *error : Error(ErrorCode::network, e.what(), rank_);
    changed_.notify_all();
  }
}

// A rank that connects because others have left may leave before it has sent anything. So that this does not look like
// a death, both sides send a heartbeat at once. A rank that connects at the start when the world has failed gets the
// reason.
void ControlPlane::accepted(int peer, net::PeerConnections::Socket socket) {
  if (leaving_ && !detector_.verdict()) return;
  if (neighbours_.contains(peer))
    return log(Severity::info, text("dropped a second control connection of rank ", peer));
  auto neighbour = std::make_shared<net::MessageChannel>(std::move(socket));
  neighbours_.emplace(peer, neighbour);
  net::spawn(context_, receive_messages(peer, neighbour));
  heartbeats_.add(peer, now());
  detector_.connected(peer);
  if (std::find(expected_.begin(), expected_.end(), peer) == expected_.end()) {
    unproven_.insert(peer);
    neighbour->send(heartbeat());
  } else {
    const MutexLock lock(mutex_);
    connected_.push_back(peer);
  }
  flush();
  if (sent()) neighbour->finish(kMaxIfFailed);
}

awaitable<void> ControlPlane::receive_messages(int peer, Shared neighbour) {
  std::string how;
  try {
    for (;;) {
      const std::string message =
          co_await net::read_message(neighbour->socket(), kMaxMessageBytes, "its control connection");
      check_standstill();
      heartbeats_.received(peer, now());
      unproven_.erase(peer);
      to_ping_if_lost_.erase(peer);
      handle(peer, message);
      flush();
    }
  } catch (const Error& e) {
    how = e.what();
    if (e.code() != ErrorCode::network) {
      how = text("it sent an invalid ", how);
      detector_.propose({e.code(), peer, text("rank ", peer, " on ", hosts_[std::size_t(peer)], ": ", how)}, now());
      flush();  // before the connection is closed, so that other ranks get the message before they see the end
    }
  }
  disconnected(peer, how);
}

void ControlPlane::disconnected(int peer, const std::string& how) {
  neighbours_.at(peer)->close();
  neighbours_.erase(peer);
  heartbeats_.remove(peer);
  stragglers_.remove(peer);
  if (unproven_.erase(peer) > 0)
    detector_.unreachable(peer);
  else if (!leaving_)
    detector_.lost(peer, how, now());
  flush();
  if (to_ping_if_lost_.erase(peer) > 0) ping(peer);
}

// Connects to a new neighbour. If it does not answer soon, it has left.
awaitable<void> ControlPlane::mend(int peer) {
  try {
    accepted(peer,
             co_await peer_connections_.connect(peer, net::Role::control, 0, 0, steady_clock::now() + kMendLimit));
  } catch (const std::exception&) {
    detector_.unreachable(peer);
    flush();
  }
}

// Pings one rank after another, so that many pings need few descriptors. If a rank does not answer, the world ends.
awaitable<void> ControlPlane::ping_all() {
  pinging_ = true;
  while (!to_ping_.empty() && !leaving_) {
    const int peer = to_ping_.extract(to_ping_.begin()).value();
    if (unproven_.contains(peer)) to_ping_if_lost_.insert(peer);
    if (!neighbours_.contains(peer) && !detector_.has_left(peer)) co_await ping_one(peer);
    for (std::size_t way = 1; way < peer_connections_.ways(peer); way++) co_await ping_way(peer, way);
  }
  pinging_ = false;
}

// A rank that left in good order does not listen either. Then its goodbye arrives, unless no rank could pass it on.
awaitable<void> ControlPlane::ping_one(int peer) {
  const auto end = steady_clock::now() + heartbeats_.limit();
  heartbeats_.add(peer, now());
  flush();
  auto answer = net::PeerConnections::Answer::none;
  while (answer == net::PeerConnections::Answer::none && steady_clock::now() < end) {
    answer = co_await peer_connections_.ping(peer, 0, net::kConnectHandshakeLimit);
    if (answer == net::PeerConnections::Answer::none) co_await net::pause(kBetween);
  }
  if (answer == net::PeerConnections::Answer::none || neighbours_.contains(peer)) co_return;
  heartbeats_.remove(peer);
  if (answer == net::PeerConnections::Answer::refusal)
    detector_.suspect(peer, 0, "no process accepts connections at its address any more", now());
  flush();
}

// Pings over another interface than the first, which alone carries heartbeats. The first one has just been found to
// work, so if this one is silent, the rank is not. If this process stood still, the limit begins again, because it has
// not read what the peer sent meanwhile.
awaitable<void> ControlPlane::ping_way(int peer, std::size_t way) {
  using Answer = net::PeerConnections::Answer;
  const auto began = steady_clock::now();
  const auto is_in_time = [&] { return steady_clock::now() < std::max(began, resumed_) + heartbeats_.limit(); };
  auto answer = Answer::any;
  while (!leaving_ && !detector_.has_left(peer) && is_in_time()) {
    answer = co_await peer_connections_.ping(peer, way, heartbeats_.limit());
    if (answer != Answer::none) break;
    co_await net::pause(kBetween);
    check_standstill();
  }
  if (leaving_ || detector_.has_left(peer) || answer == Answer::any) co_return;
  const std::string place = peer_connections_.place(peer, way);
  if (answer == Answer::refusal)
    detector_.suspect(peer, 0, text("no process accepts connections at ", place, " any more"), now());
  else
    detector_.propose({ErrorCode::rank_silent, peer,
                       text("rank ", peer, " on ", hosts_[std::size_t(peer)], " has not answered at ", place, " for ",
                            heartbeats_.limit().count(), " ms, while it answers at its first address: rank ", rank_,
                            " on ", hosts_[std::size_t(rank_)],
                            " does not reach it over this interface; repair it, or leave it out of ANELLO_IFACE")},
                      now());
  flush();
}

}  // namespace anello::control
