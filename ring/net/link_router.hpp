// Owns the makers of all groups' links. Gives an accepted data connection to the maker of its group. If this rank has
// not made the group yet, creates that maker.
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

  // Call when this rank makes the group. Returns the group's maker, with the connections that peers have already made.
  // Any thread. Throws Error{network} if no descriptor is left.
  std::shared_ptr<LinkMaker> begin(std::uint64_t group);
  // Call when this rank has left the group. Later connections for the group are closed. Allocates no memory. Any
  // thread.
  void remove(std::uint64_t group) noexcept;

  // True if the connection may be accepted. It always may if this rank has made the group. On the background thread.
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
  std::vector<std::uint64_t> left_ ANELLO_GUARDED_BY(mutex_);  // ring buffer of the groups that were left last
  std::size_t removed_ ANELLO_GUARDED_BY(mutex_) = 0,
                       early_ ANELLO_GUARDED_BY(mutex_) = 0;  // groups left so far; connections for later groups
};

}  // namespace anello::net
