// Has the makers of all groups' links. Gives an accepted data connection to the maker of its group, and creates that
// maker if this rank has not made the group yet.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/net/link_maker.hpp"

namespace anello::net {

class LinkRouter {
 public:
  // Takes the arguments of LinkContext.
  LinkRouter(asio::io_context& context, PeerConnections& peer_connections, int rank, LinkOptions options,
             LinkContext::Failed failed);

  // Call when this rank makes the group. Returns its maker, with the connections that peers have made already. Any
  // thread. Throws Error{network} if no descriptor is left.
  std::shared_ptr<LinkMaker> begin(std::uint64_t group);
  // Call when this rank has left the group: later connections for it are closed. Allocates no memory. Any thread.
  void remove(std::uint64_t group) noexcept;

  // On the background thread. There is always room for a group that this rank has made.
  bool has_room(const Claim& claim) const;
  void accepted(const Claim& claim, PeerConnections::Socket socket);

 private:
  bool has_left(std::uint64_t group) const ANELLO_REQUIRES(mutex_);

  static constexpr std::size_t kMaxLeft = 1024;  // groups that are remembered after this rank left them
  struct Route {
    std::shared_ptr<LinkMaker> maker;
    std::size_t early_connections = 0;
    bool begun = false;
  };

  LinkContext context_;
  const std::size_t max_early_;

  mutable Mutex mutex_;
  std::map<std::uint64_t, Route> routes_ ANELLO_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> left_ ANELLO_GUARDED_BY(mutex_);  // the last groups left, a ring buffer of kMaxLeft
  std::size_t removed_ ANELLO_GUARDED_BY(mutex_) = 0,
                       early_
                       ANELLO_GUARDED_BY(mutex_) = 0;  // groups; connections for groups that this rank has not made
};

}  // namespace anello::net
