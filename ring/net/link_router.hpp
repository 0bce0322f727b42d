// Gives an accepted data connection to the links of its group. A peer may be ahead: a connection for a group that this
// rank has not made yet is kept until it does.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "ring/net/data_links.hpp"

namespace anello::net {

class LinkRouter {
 public:
  explicit LinkRouter(asio::io_context& context) : context_(context) {}

  // Any thread.
  void enroll(std::shared_ptr<DataLinks> links);
  void remove(std::uint64_t group);

  void accepted(const Claim& claim, PeerConnections::Socket socket);  // on the background thread

 private:
  static constexpr std::size_t kMaxWaiting = 1024;
  struct Waiting {
    Claim claim;
    PeerConnections::Socket socket;
  };

  asio::io_context& context_;
  // Touched on the background thread only.
  std::map<std::uint64_t, std::shared_ptr<DataLinks>> groups_;
  std::vector<Waiting> waiting_;
};

}  // namespace anello::net
