// The data links of one group, opened when an operation first needs them: the higher rank connects, the lower accepts.
// Ranks of one host then try to go over to shared memory; others make as many connections as are wanted. Connecting
// happens on the background thread; a finished link leaves its event loop and belongs to the thread that moves the
// group's data.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ring/link/link.hpp"
#include "ring/link/waiter.hpp"
#include "ring/net/connections.hpp"

namespace anello {

// Where shared memory is tried.
struct Sharing {
  std::vector<bool> with;  // by rank: true on both sides of a pair or on none
  std::size_t pipe_bytes = 0;
  bool required = false;  // TCP is no way out
};

class DataLinks : public std::enable_shared_from_this<DataLinks> {
 public:
  using Failed =
      std::function<void(int rank, std::string why)>;  // by rank in the world, maybe this one; on the background thread

  struct Members {
    std::uint64_t group = 0;
    int rank = 0;            // this one's in the group
    std::vector<int> ranks;  // the members' in the world
  };
  // Make it shared: connecting goes on for a while when nobody wants the links any more. `sharing` is by rank in the
  // group. `bell` rings when a link is there, and when a peer moved on in shared memory.
  DataLinks(asio::io_context& context, PeerConnections& peer_connections, Members members, Sharing sharing,
            int connections, std::shared_ptr<Bell> bell, Failed failed);
  DataLinks(const DataLinks&) = delete;
  DataLinks& operator=(const DataLinks&) = delete;

  std::uint64_t group() const { return members_.group; }

  // By the thread that moves data: the link to the group's `peer`, or null while it is being made.
  Link* find(int peer);
  void accepted(const Claim& claim, PeerConnections::Socket socket);  // on the background thread
  // By the thread that moves data, which needs none any more: closes all that there are.
  void close();

 private:
  asio::awaitable<void> dial(int peer);
  asio::awaitable<bool> agree(int peer, PeerConnections::Socket socket);
  void add_lane(int peer, std::uint32_t lane, PeerConnections::Socket socket);
  void arrive(int peer, std::unique_ptr<Link> link);
  void report(int peer, const std::exception& why);
  void collect();
  int world_rank(int peer) const { return members_.ranks[std::size_t(peer)]; }
  // The higher rank in the world connects.
  bool dials(int peer) const { return world_rank(peer) < world_rank(members_.rank); }

  asio::io_context& context_;
  PeerConnections& peer_connections_;
  Members members_;
  Sharing sharing_;
  std::size_t connections_;
  std::shared_ptr<Bell> bell_;
  Failed failed_;
  asio::io_context never_run_;  // gives the sockets their type; nobody waits on it
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<bool> asked_;
  std::map<int, std::map<std::uint32_t, asio::ip::tcp::socket>> lanes_;  // of links that are not complete, by peer

  struct Arrival {
    int peer;
    std::unique_ptr<Link> link;
  };
  std::mutex mutex_;  // over what follows
  std::vector<Arrival> arrivals_;
  bool closed_ = false;
};

}  // namespace anello
