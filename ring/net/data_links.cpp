#include "ring/net/data_links.hpp"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/shm_negotiation.hpp"
#include "ring/net/striped_link.hpp"

namespace anello::net {

namespace {
constexpr std::chrono::seconds kConnectLimit{10};
}

DataLinks::DataLinks(asio::io_context& context, PeerConnections& peer_connections,
                     std::shared_ptr<const link::GroupInfo> group, int rank, Sharing sharing, int connections,
                     Failed failed)
    : context_(context),
      peer_connections_(peer_connections),
      group_(std::move(group)),
      rank_(rank),
      sharing_(std::move(sharing)),
      connections_(std::size_t(connections)),
      failed_(std::move(failed)) {
  links_.resize(sharing_.with.size());
  asked_.resize(sharing_.with.size());
}

link::Link* DataLinks::find(int peer) {
  auto& link = links_[std::size_t(peer)];
  if (link) return link.get();
  collect();
  if (!link && dials(peer) && !asked_[std::size_t(peer)]) {
    asked_[std::size_t(peer)] = true;
    asio::co_spawn(context_, dial(peer), asio::detached);
  }
  return link.get();
}

void DataLinks::collect() {
  const std::lock_guard lock(mutex_);
  for (Arrival& arrival : arrivals_) {
    auto& link = links_[std::size_t(arrival.peer)];
    if (link)
      log(Severity::info, text("dropped a second data connection of rank ", world_rank(arrival.peer)));
    else
      link = std::move(arrival.link);
  }
  arrivals_.clear();
}

// The first connection decides what the link is.
void DataLinks::accepted(const Claim& claim, PeerConnections::Socket socket) {
  const auto found = std::find(group_->members.begin(), group_->members.end(), claim.from);
  const int peer = int(found - group_->members.begin());
  if (found == group_->members.end())
    log(Severity::info, text("dropped a connection of rank ", claim.from, ", which is not in that group"));
  else if (claim.lane >= connections_)
    log(Severity::info,
        text("dropped connection ", claim.lane, " of rank ", claim.from, ", there are only ", connections_));
  else if (claim.lane == 0)
    asio::co_spawn(context_, agree(peer, std::move(socket)), asio::detached);
  else
    add_lane(peer, claim.lane, std::move(socket));
}

// After close() no operation needs the link, so nothing is reported.
void DataLinks::report(int peer, const std::exception& why) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
  }
  const int own = world_rank(rank_);
  const auto* error = dynamic_cast<const Error*>(&why);
  const auto* system = dynamic_cast<const asio::system_error*>(&why);
  if (system && system->code() == asio::error::no_descriptors)
    failed_(own, text(why.what(), "; raise the limit (ulimit -n)"));
  else
    failed_(error && error->rank() == own ? own : world_rank(peer), why.what());
}

void DataLinks::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  arrivals_.clear();
  links_.clear();
}

void DataLinks::add_lane(int peer, std::uint32_t lane, PeerConnections::Socket socket) {
  auto& lanes = lanes_[peer];
  lanes.emplace(lane, Descriptor(socket.release()));
  if (lanes.size() < connections_) return;
  std::vector<Descriptor> sockets;
  for (auto& [number, each] : lanes) sockets.push_back(std::move(each));
  lanes_.erase(peer);
  if (connections_ == 1)
    arrive(peer, std::make_unique<TcpLink>(std::move(sockets[0])));
  else
    arrive(peer, std::make_unique<StripedLink>(std::move(sockets)));
}

void DataLinks::arrive(int peer, std::unique_ptr<link::Link> link) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    arrivals_.push_back({peer, std::move(link)});
  }
  group_->bell->ring();
}

asio::awaitable<void> DataLinks::dial(int peer) {
  const auto alive = shared_from_this();
  try {
    const auto deadline = std::chrono::steady_clock::now() + kConnectLimit;
    if (co_await agree(peer, co_await peer_connections_.connect(world_rank(peer), Role::data, 0, group(), deadline)))
      co_return;
    for (std::uint32_t lane = 1; lane < connections_; lane++)
      add_lane(peer, lane, co_await peer_connections_.connect(world_rank(peer), Role::data, lane, group(), deadline));
  } catch (const std::exception& e) {
    report(peer, e);
  }
}

// Both sides run this, with the two ends of one connection. The connection becomes the link's first lane if they cannot
// share memory. True if the link needs no further connection.
asio::awaitable<bool> DataLinks::agree(int peer, PeerConnections::Socket socket) {
  const auto alive = shared_from_this();
  try {
    std::unique_ptr<link::Link> link;
    if (sharing_.with[std::size_t(peer)]) {
      if (dials(peer))
        link = co_await offer_memory(socket, sharing_.pipe_bytes, group_->bell->descriptor());
      else
        link = co_await take_memory(socket, group_->bell->descriptor());
      if (!link && sharing_.required)
        throw Error(ErrorCode::network, "no shared memory, and ANELLO_TRANSPORT=shm allows nothing else");
    }
    if (link) {
      arrive(peer, std::move(link));
      co_return true;
    }
    add_lane(peer, 0, std::move(socket));
    co_return connections_ == 1;
  } catch (const std::exception& e) {
    report(peer, e);
    co_return true;
  }
}

}  // namespace anello::net
