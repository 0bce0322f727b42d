#include "ring/net/link_router.hpp"

#include <algorithm>
#include <asio/post.hpp>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::net {

void LinkRouter::enroll(std::shared_ptr<DataLinks> links) {
  asio::post(context_, [this, links = std::move(links)] {
    groups_[links->group()] = links;
    const auto for_it = std::stable_partition(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
      return waiting.claim.group != links->group();
    });
    for (auto waiting = for_it; waiting != waiting_.end(); ++waiting)
      links->accepted(waiting->claim, std::move(waiting->socket));
    waiting_.erase(for_it, waiting_.end());
  });
}

void LinkRouter::remove(std::uint64_t group) {
  asio::post(context_, [this, group] { groups_.erase(group); });
}

void LinkRouter::accepted(const Claim& claim, PeerConnections::Socket socket) {
  if (const auto group = groups_.find(claim.group); group != groups_.end())
    group->second->accepted(claim, std::move(socket));
  else if (waiting_.size() < kMaxWaiting)
    waiting_.push_back({claim, std::move(socket)});
  else
    log(Severity::info, text("dropped a connection of rank ", claim.from, ": ", kMaxWaiting,
                             " wait already for groups that this rank has not made"));
}

}  // namespace anello::net
