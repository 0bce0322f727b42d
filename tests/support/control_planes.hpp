// The control planes of a world's ranks, all in this process, over loopback; without any data links.
#pragma once
#include <gmock/gmock.h>

#include <asio/co_spawn.hpp>
#include <asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ring/base/text.hpp"
#include "ring/control/control_plane.hpp"
#include "ring/net/event_loop.hpp"

namespace anello {

using std::chrono::milliseconds;

inline std::chrono::steady_clock::time_point in(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

inline Identity identity_of(int rank, int size, std::vector<std::string> further = {}) {
  return {.job = "control",
          .rank = rank,
          .size = size,
          .host = text("host", rank),
          .address = "127.0.0.1",
          .further_addresses = std::move(further)};
}

// One rank. Its destructor closes all connections without a goodbye, as the kernel does for a killed process.
class Plane {
 public:
  Plane(int rank, int size, milliseconds silence_limit, std::vector<std::string> further = {})
      : peer_connections(background.context(), identity_of(rank, size, std::move(further)), {}, rejected_connections),
        rank_(rank),
        size_(size),
        silence_limit_(silence_limit) {}
  ~Plane() { background.stop(); }

  // Opens the rank with its own control plane; with `has_control` false, the test itself sends for the rank.
  void open(const std::vector<net::Endpoint>& peers, bool has_control = true) {
    std::vector<std::string> hosts;
    for (const net::Endpoint& peer : peers) hosts.push_back(peer.host);
    if (has_control)
      control.emplace(background.context(), peer_connections, identity_of(rank_, size_), hosts, recorders,
                      silence_limit_, [](const auto&) {});
    recorders.add(group->id, group->name, group->members, recorder);
    if (control) control->enroll(group);
    peer_connections.open(peers, [this](const net::Claim& claim, net::PeerConnections::Socket socket) {
      if (control && claim.role == net::Role::launcher)
        control->receive_abort(std::move(socket));
      else if (control)
        control->accepted(claim.from, std::move(socket));
    });
  }

  // Opens a control connection on which the test sends.
  net::PeerConnections::Socket dial(int peer) {
    std::optional<net::PeerConnections::Socket> socket;
    asio::co_spawn(background.context(), dial(peer, socket), asio::use_future).get();
    return std::move(*socket);
  }

  std::shared_ptr<const link::GroupInfo> group =
      std::make_shared<const link::GroupInfo>(link::GroupInfo{.name = "the world"});
  std::shared_ptr<trace::FlightRecorder> recorder = std::make_shared<trace::FlightRecorder>();
  trace::FlightRecorders recorders;
  net::EventLoop background;
  trace::RejectedConnections rejected_connections;
  net::PeerConnections peer_connections;
  std::optional<control::ControlPlane> control;

 private:
  asio::awaitable<void> dial(int peer, std::optional<net::PeerConnections::Socket>& socket) {
    socket.emplace(co_await peer_connections.connect(peer, net::Role::control, 0, 0, in(milliseconds(5000))));
  }

  int rank_, size_;
  milliseconds silence_limit_;
};

class ControlPlanes {
 public:
  // The last `silent` ranks have no control plane.
  explicit ControlPlanes(int size, int silent = 0, milliseconds silence_limit = milliseconds(60000)) {
    std::vector<net::Endpoint> peers;
    for (int rank = 0; rank < size; rank++) {
      planes_.push_back(std::make_unique<Plane>(rank, size, silence_limit));
      peers.push_back(planes_.back()->peer_connections.endpoint());
    }
    for (int rank = 0; rank < size; rank++) planes_[std::size_t(rank)]->open(peers, rank < size - silent);
  }

  // Connects all ranks that have a control plane. Throws the exception of the lowest rank that threw one.
  void connect(milliseconds limit = milliseconds(20000)) {
    std::vector<std::future<void>> all;
    for (const auto& plane : planes_)
      if (plane && plane->control)
        all.push_back(std::async(std::launch::async, [&plane, limit] { plane->control->connect(in(limit)); }));
    for (auto& one : all) one.wait();
    for (auto& one : all) one.get();
  }

  int size() const { return int(planes_.size()); }
  Plane& plane(int rank) { return *planes_[std::size_t(rank)]; }
  control::ControlPlane& operator[](int rank) { return *plane(rank).control; }
  // Does the same as OperationRunner.
  void begin(int rank, const Signature& signature) {
    if (!plane(rank).recorder->begin(signature, "", 0)) plane(rank).control->needs(signature);
  }
  void kill(int rank) { planes_[std::size_t(rank)].reset(); }

  // Returns the error of each living rank that has a control plane.
  std::vector<Error> errors() const {
    std::vector<Error> all;
    for (const auto& plane : planes_)
      if (plane && plane->control) all.push_back(plane->control->error());
    return all;
  }
  bool any_failed() const {
    for (const auto& plane : planes_)
      if (plane && plane->control && plane->control->failed()) return true;
    return false;
  }

 private:
  std::vector<std::unique_ptr<Plane>> planes_;
};

// Expects that every living rank has this error.
inline void expect_errors(const ControlPlanes& world, ErrorCode code, int culprit, const std::string& what) {
  const std::vector<Error> errors = world.errors();
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.rank(), culprit) << error.what();
    EXPECT_EQ(error.message(), errors[0].message());
    EXPECT_THAT(error.message(), testing::HasSubstr(what));
  }
}

}  // namespace anello
