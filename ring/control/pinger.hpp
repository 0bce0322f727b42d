// Pings ranks for which an operation waits, over all interfaces that they use, to find out whether the network between
// these ranks and this rank still works. Used on the background thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ring/control/neighbours.hpp"
#include "ring/failure/failure_detector.hpp"
#include "ring/net/connections.hpp"

namespace anello::control {

class Pinger {
 public:
  // The objects that the pinger uses. They must outlive the pinger.
  struct Surroundings {
    asio::io_context& context;
    net::PeerConnections& connections;
    Neighbours& neighbours;
    failure::FailureDetector& detector;
    int rank;
    const std::vector<std::string>& hosts;  // by rank
    std::function<void()> flush;            // the pinger calls this after each event
    std::function<void()> check_standstill;
  };
  explicit Pinger(Surroundings surroundings) : around_(std::move(surroundings)) {}

  // A rank that does not answer within the silence limit counts as silent.
  void ping(int peer);
  // Call when the connection of a neighbour ended. Pings the neighbour now if its ping was put off because nothing had
  // arrived from it yet.
  void lost_unproven(int peer);
  void proven(int peer) { to_ping_if_lost_.erase(peer); }
  void stop() { stopped_ = true; }                                           // call when this rank leaves
  void resumed(std::chrono::steady_clock::time_point at) { resumed_ = at; }  // call after this process stood still

 private:
  asio::awaitable<void> ping_all();
  asio::awaitable<void> ping_one(int peer);
  asio::awaitable<void> ping_way(int peer, std::size_t way);

  Surroundings around_;
  std::set<int> to_ping_, to_ping_if_lost_;
  bool pinging_ = false, stopped_ = false;
  std::chrono::steady_clock::time_point resumed_{};
};

}  // namespace anello::control
