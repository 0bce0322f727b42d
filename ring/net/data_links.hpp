// The data connections of one group, opened when an operation first needs them: the higher rank connects, the lower
// accepts. Connecting happens on the background thread; a finished connection leaves its event loop and belongs to the
// thread that moves the group's data.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ring/link/link.hpp"
#include "ring/net/mesh.hpp"
#include "ring/net/wait.hpp"

namespace anello {

class DataLinks {
 public:
  using Failed = std::function<void(int peer, std::string why)>;  // on the background thread

  // `bell` rings when a connection is there.
  DataLinks(asio::io_context& context, Mesh& mesh, int rank, int size, Bell& bell, Failed failed);
  ~DataLinks() { collect(); }  // what arrived and nobody asked for is closed too
  DataLinks(const DataLinks&) = delete;
  DataLinks& operator=(const DataLinks&) = delete;

  // By the thread that moves data: the link to `peer`, or null while it is being made.
  Link* find(int peer);
  void accepted(int peer, Mesh::Socket socket);  // on the background thread

 private:
  asio::awaitable<void> dial(int peer);
  void collect();

  asio::io_context& context_;
  Mesh& mesh_;
  int rank_;
  Bell& bell_;
  Failed failed_;
  asio::io_context never_run_;  // gives the sockets their type; nobody waits on it
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<bool> asked_;

  struct Arrival {
    int peer;
    asio::ip::tcp protocol;
    int descriptor;
  };
  std::mutex mutex_;  // over what follows
  std::vector<Arrival> arrivals_;
};

}  // namespace anello
