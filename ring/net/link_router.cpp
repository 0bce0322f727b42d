#include "ring/net/link_router.hpp"

#include <algorithm>
#include <utility>

namespace anello::net {
namespace {

// The maximum number of connections for groups that this rank has not made yet. Each such connection needs at most
// three descriptors: the group's bell, the peer's bell and the connection itself.
std::size_t max_early() {
  constexpr std::size_t kMin = 4;
  return std::max(kMin, free_descriptors() / 8);
}

}  // namespace

LinkRouter::LinkRouter(asio::io_context& context, PeerConnections& peer_connections, int rank, LinkOptions options,
                       LinkContext::Failed failed)
    : context_{context, peer_connections, rank, std::move(options), std::move(failed)}, max_early_(max_early()) {
  left_.reserve(kMaxLeft);
}

std::shared_ptr<LinkMaker> LinkRouter::begin(std::uint64_t group) {
  const MutexLock lock(mutex_);
  Route& route = routes_[group];
  if (!route.maker) route.maker = std::make_shared<LinkMaker>(context_, group);
  early_ -= std::exchange(route.early_connections, 0);
  route.begun = true;
  route.maker->begin();
  return route.maker;
}

void LinkRouter::remove(std::uint64_t group) noexcept {
  const MutexLock lock(mutex_);
  routes_.erase(group);
  const std::size_t place = removed_++ % kMaxLeft;
  if (place == left_.size())
    left_.push_back(group);
  else
    left_[place] = group;
}

bool LinkRouter::has_left(std::uint64_t group) const {
  return std::find(left_.begin(), left_.end(), group) != left_.end();
}

bool LinkRouter::has_room(const Claim& claim) const {
  if (claim.role != Role::data) return true;
  const MutexLock lock(mutex_);
  const auto found = routes_.find(claim.group);
  if (found != routes_.end() && found->second.begun) return true;
  return early_ < max_early_ || has_left(claim.group);
}

void LinkRouter::accepted(const Claim& claim, PeerConnections::Socket socket) {
  std::shared_ptr<LinkMaker> maker;
  try {
    const MutexLock lock(mutex_);
    if (has_left(claim.group)) return;
    Route& route = routes_[claim.group];
    if (!route.maker) route.maker = std::make_shared<LinkMaker>(context_, claim.group);
    if (!route.begun) route.early_connections++, early_++;
    maker = route.maker;
  } catch (const Error& no_bell) {
    return context_.failed(claim.group, Error(no_bell.code(), no_bell.message(), context_.rank));
  }
  maker->accepted(claim, std::move(socket));
}

}  // namespace anello::net
