// Makes the links of one group on the background thread: connects to lower ranks, and accepts the connections of higher
// ranks. Two ranks of one host then try to replace the connection by shared memory. Two ranks of different hosts open
// the configured number of connections over each interface that both hosts have. A peer may need the link before this
// rank has made the group. So the maker may exist before the group, and it answers the peer at once: a link never waits
// for the other side's program. A finished link is no longer part of the event loop.
#pragma once
#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ring/base/descriptor.hpp"
#include "ring/base/mutex.hpp"
#include "ring/link/bell.hpp"
#include "ring/link/link.hpp"
#include "ring/net/connections.hpp"

namespace anello::net {

// The options that all groups of a world have in common.
struct LinkOptions {
  // By world rank of a peer: true if this rank and the peer may share memory. Both ranks of a pair have the same value.
  std::vector<bool> shares_memory;
  std::size_t pipe_bytes = 0;
  bool memory_required = false;  // true: using TCP instead of shared memory is an error
  std::size_t connections = 1;   // connections over each interface between two ranks that do not share memory
};

struct LinkContext {
  // Called on the background thread. The Error's rank is the rank at fault, which may be this rank.
  using Failed = std::function<void(std::uint64_t group, const Error& why)>;

  asio::io_context& context;
  PeerConnections& peer_connections;
  int rank;
  LinkOptions options;
  Failed failed;
  mutable bool has_warned = false;  // true if a warning that memory is not shared was logged; for the background thread
};

class LinkMaker : public std::enable_shared_from_this<LinkMaker> {
 public:
  // A LinkMaker must be owned by a shared_ptr, because connecting may go on after close(). `context` must outlive the
  // event loop's thread.
  LinkMaker(const LinkContext& context, std::uint64_t group) : context_(context), group_(group) {}
  LinkMaker(const LinkMaker&) = delete;
  LinkMaker& operator=(const LinkMaker&) = delete;

  // The group's bell. It rings when a link is ready, and when a peer has moved data in shared memory.
  const std::shared_ptr<link::Bell>& bell() const { return bell_; }

  // Call when this rank makes the group. Failures before that are not reported yet, because no operation needs a link.
  void begin();
  // Connects to a lower world rank, for a link that an operation needs. Any thread.
  void connect(int peer);
  void accepted(const Claim& claim, PeerConnections::Socket socket);  // called on the background thread

  // The links that were finished since the last call of take(), by world rank. For the thread that moves the group's
  // data.
  struct Made {
    int peer;
    std::unique_ptr<link::Link> link;
  };
  std::vector<Made> take();
  // Call when no operation needs a link any more. Any thread.
  void close();

 private:
  // `alive` keeps this object alive until the coroutine's end.
  asio::awaitable<void> dial(int peer, std::shared_ptr<LinkMaker> alive);
  asio::awaitable<bool> agree(int peer, PeerConnections::Socket socket, std::shared_ptr<LinkMaker> alive);
  asio::awaitable<std::unique_ptr<link::Link>> share_memory(int peer, PeerConnections::Socket& socket);
  std::size_t lanes_to(int peer) const { return context_.options.connections * context_.peer_connections.ways(peer); }
  void add_lane(int peer, std::uint32_t lane, PeerConnections::Socket socket);
  void add(int peer, std::unique_ptr<link::Link> link);
  void report(int peer, const std::exception& why);
  bool closed() const;

  const LinkContext& context_;
  const std::uint64_t group_;
  const std::shared_ptr<link::Bell> bell_ = std::make_shared<link::Bell>();
  std::map<int, std::map<std::uint32_t, Descriptor>> lanes_;  // connections of links that are not complete, by peer

  mutable Mutex mutex_;
  std::vector<Made> made_ ANELLO_GUARDED_BY(mutex_);
  std::vector<Error> early_failures_ ANELLO_GUARDED_BY(mutex_);
  bool begun_ ANELLO_GUARDED_BY(mutex_) = false, closed_ ANELLO_GUARDED_BY(mutex_) = false;
};

}  // namespace anello::net
