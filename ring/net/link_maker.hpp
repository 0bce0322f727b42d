// Makes the links of one group, on the background thread: it connects to lower ranks, and takes what higher ones have
// connected. Ranks of one host then try to replace the connection by shared memory; others open the configured number
// of connections over each interface that both have. A peer may be ahead: then the maker exists before this rank makes
// the group, and answers the peer at once, so that a link never waits for the program of the other side. A finished
// link has left the event loop.
#pragma once
#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ring/base/descriptor.hpp"
#include "ring/link/bell.hpp"
#include "ring/link/link.hpp"
#include "ring/net/connections.hpp"

namespace anello::net {

// What all groups of a world have in common.
struct LinkOptions {
  std::vector<bool> shares_memory;  // with that rank of the world; true on both sides of a pair or on none
  std::size_t pipe_bytes = 0;
  bool memory_required = false;  // TCP instead is an error
  std::size_t connections = 1;   // over each way between two ranks that do not share memory
};

struct LinkContext {
  // On the background thread. The Error's rank is the one at fault, perhaps this one.
  using Failed = std::function<void(std::uint64_t group, const Error& why)>;

  asio::io_context& context;
  PeerConnections& peer_connections;
  int rank;
  LinkOptions options;
  Failed failed;
  mutable bool has_warned = false;  // that memory is not shared; by the background thread
};

class LinkMaker : public std::enable_shared_from_this<LinkMaker> {
 public:
  // Make it shared: connecting goes on for a while after close(). `context` outlives the event loop's thread.
  LinkMaker(const LinkContext& context, std::uint64_t group) : context_(context), group_(group) {}
  LinkMaker(const LinkMaker&) = delete;
  LinkMaker& operator=(const LinkMaker&) = delete;

  // The group's bell; it rings when a link is ready, and when a peer moved data in shared memory.
  const std::shared_ptr<link::Bell>& bell() const { return bell_; }

  // This rank makes the group. Before that no operation needs a link, so failures are kept.
  void begin();
  // Connects to a lower rank of the world, for a link that an operation needs. Any thread.
  void connect(int peer);
  void accepted(const Claim& claim, PeerConnections::Socket socket);  // on the background thread

  // Links that were finished since the last call, by rank of the world. By the thread that moves the group's data.
  struct Made {
    int peer;
    std::unique_ptr<link::Link> link;
  };
  std::vector<Made> take();
  // No operation needs a link any more. Any thread.
  void close();

 private:
  // `alive` keeps this alive to the coroutine's end.
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
  std::map<int, std::map<std::uint32_t, Descriptor>> lanes_;  // of links that are not complete, by peer

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Made> made_;
  std::vector<Error> early_failures_;
  bool begun_ = false, closed_ = false;
};

}  // namespace anello::net
