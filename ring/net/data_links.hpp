// The data links of one group, opened when an operation first needs them: the higher rank connects, the lower accepts.
// Ranks of one host then try to replace the connection by shared memory; others open the configured number of
// connections. Connecting happens on the background thread; a finished link leaves its event loop and belongs to the
// thread that moves the group's data.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ring/base/descriptor.hpp"
#include "ring/link/group_info.hpp"
#include "ring/link/link.hpp"
#include "ring/net/connections.hpp"

namespace anello::net {

// Where shared memory is tried.
struct Sharing {
  std::vector<bool> with;  // by rank: true on both sides of a pair or on none
  std::size_t pipe_bytes = 0;
  bool required = false;  // TCP instead is an error
};

class DataLinks : public std::enable_shared_from_this<DataLinks> {
 public:
  // On the background thread. The rank is one in the world, perhaps this one.
  using Failed = std::function<void(int rank, std::string why)>;

  // Make it shared: connecting goes on for a while after close(). `rank` is this one in the group, `sharing` is by rank
  // in the group. The group's bell rings when a link is ready, and when a peer moved data in shared memory.
  DataLinks(asio::io_context& context, PeerConnections& peer_connections, std::shared_ptr<const link::GroupInfo> group,
            int rank, Sharing sharing, int connections, Failed failed);
  DataLinks(const DataLinks&) = delete;
  DataLinks& operator=(const DataLinks&) = delete;

  std::uint64_t group() const { return group_->id; }

  // By the thread that moves data: the link to the group's `peer`, or null while it is being made.
  link::Link* find(int peer);
  void accepted(const Claim& claim, PeerConnections::Socket socket);  // on the background thread
  // Closes all links. Call from the thread that moves data, after the last operation.
  void close();

 private:
  asio::awaitable<void> dial(int peer);
  asio::awaitable<bool> agree(int peer, PeerConnections::Socket socket);
  void add_lane(int peer, std::uint32_t lane, PeerConnections::Socket socket);
  void arrive(int peer, std::unique_ptr<link::Link> link);
  void report(int peer, const std::exception& why);
  void collect();
  int world_rank(int peer) const { return group_->members[std::size_t(peer)]; }
  // The higher rank in the world connects.
  bool dials(int peer) const { return world_rank(peer) < world_rank(rank_); }

  asio::io_context& context_;
  PeerConnections& peer_connections_;
  std::shared_ptr<const link::GroupInfo> group_;
  int rank_;
  Sharing sharing_;
  std::size_t connections_;
  Failed failed_;
  std::vector<std::unique_ptr<link::Link>> links_;
  std::vector<bool> asked_;
  std::map<int, std::map<std::uint32_t, Descriptor>> lanes_;  // of links that are not complete, by peer

  struct Arrival {
    int peer;
    std::unique_ptr<link::Link> link;
  };
  std::mutex mutex_;  // guards what follows
  std::vector<Arrival> arrivals_;
  bool closed_ = false;
};

}  // namespace anello::net
