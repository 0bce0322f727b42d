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
#include "ring/net/mesh.hpp"
#include "ring/net/wait.hpp"

namespace anello {

// Where shared memory is tried.
struct Sharing {
  std::vector<bool> with;  // by rank: true on both sides of a pair or on none
  std::size_t pipe_bytes = 0;
  bool required = false;  // TCP is no way out
};

class DataLinks {
 public:
  using Failed = std::function<void(int peer, std::string why)>;  // on the background thread

  // `bell` rings when a link is there, and when a peer moved on in shared memory.
  DataLinks(asio::io_context& context, Mesh& mesh, int rank, Sharing sharing, int connections, Bell& bell,
            Failed failed);
  DataLinks(const DataLinks&) = delete;
  DataLinks& operator=(const DataLinks&) = delete;

  // By the thread that moves data: the link to `peer`, or null while it is being made.
  Link* find(int peer);
  void accepted(int peer, std::uint32_t lane, Mesh::Socket socket);  // on the background thread

 private:
  asio::awaitable<void> dial(int peer);
  asio::awaitable<bool> agree(int peer, Mesh::Socket socket);
  void add_lane(int peer, std::uint32_t lane, Mesh::Socket socket);
  void arrive(int peer, std::unique_ptr<Link> link);
  void collect();

  asio::io_context& context_;
  Mesh& mesh_;
  int rank_;
  Sharing sharing_;
  std::size_t connections_;
  Bell& bell_;
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
};

}  // namespace anello
