// Owns the makers of all groups' links. Gives an accepted data connection to the maker of its group. Creates the maker
// if this rank has not made that group yet.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/net/link_maker.hpp"

namespace anello::net {

class LinkRouter {
 public:
  // The arguments are the members of LinkContext (link_maker.hpp).
  LinkRouter(asio::io_context& context, PeerConnections& peer_connections, int rank, LinkOptions options,
             LinkContext::Failed failed);

  // Call when this rank makes the group. Returns the group's maker, with the connections that peers have already made.
  // Any thread. Throws Error{network} if no descriptor is left.
  std::shared_ptr<LinkMaker> begin(std::uint64_t group);
  // Call when this rank has left the group. Later connections for the group are closed. Allocates no memory. Any
  // thread.
  void remove(std::uint64_t group) noexcept;

  // True if the connection may be accepted. This is always true if this rank has made the group. On the background
  // thread.
  bool has_room(const Claim& claim) const;
  void accepted(const Claim& claim, PeerConnections::Socket socket);

 private:
  bool has_left(std::uint64_t group) const ANELLO_REQUIRES(mutex_);

  static constexpr std::size_t kMaxLeft = 1024;  // maximum number of left groups that are remembered
  struct Route {
    std::shared_ptr<LinkMaker> maker;
    std::size_t early_connections = 0;
    bool begun = false;
  };

  LinkContext context_;
  const std::size_t max_early_;

  mutable Mutex mutex_;
  std::map<std::uint64_t, Route> routes_ ANELLO_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> left_ ANELLO_GUARDED_BY(mutex_);  // ring buffer of the groups that were left last
  // `removed_`: number of groups that this rank has left so far. `early_`: number of connections for groups that are
  // not made yet.
  std::size_t removed_ ANELLO_GUARDED_BY(mutex_) = 0, early_ ANELLO_GUARDED_BY(mutex_) = 0;
};

}  // namespace anello::net
