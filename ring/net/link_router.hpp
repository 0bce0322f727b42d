// The makers of all groups' links. Gives an accepted data connection to the maker of its group, and makes one if this
// rank has not made the group yet.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ring/net/link_maker.hpp"

namespace anello::net {

class LinkRouter {
 public:
  // The arguments of LinkContext.
  LinkRouter(asio::io_context& context, PeerConnections& peer_connections, int rank, LinkOptions options,
             LinkContext::Failed failed);

  // This rank makes the group: its maker, with what peers have connected already. Any thread. Throws Error{network} if
  // there is no descriptor left.
  std::shared_ptr<LinkMaker> begin(std::uint64_t group);
  // This rank has left the group: later connections for it are closed. Needs no memory. Any thread.
  void remove(std::uint64_t group) noexcept;

  // On the background thread. There is always room for a group that this rank has made.
  bool has_room(const Claim& claim) const;
  void accepted(const Claim& claim, PeerConnections::Socket socket);

 private:
  bool has_left(std::uint64_t group) const;

  static constexpr std::size_t kMaxLeft = 1024;  // groups that are remembered
  struct Route {
    std::shared_ptr<LinkMaker> maker;
    std::size_t early_connections = 0;
    bool begun = false;
  };

  LinkContext context_;
  const std::size_t max_early_;

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::uint64_t, Route> routes_;
  std::vector<std::uint64_t> left_;      // groups, each in the place of the oldest, once there are kMaxLeft
  std::size_t removed_ = 0, early_ = 0;  // groups; connections for groups that this rank has not made
};

}  // namespace anello::net
