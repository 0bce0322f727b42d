// Which group's links an accepted data connection belongs to. A peer may be ahead: what comes for a group that this
// rank has not made yet is kept until it does.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "ring/net/data_links.hpp"

namespace anello {

class Switchboard {
 public:
  explicit Switchboard(asio::io_context& context) : context_(context) {}

  // Any thread.
  void enroll(std::shared_ptr<DataLinks> links);
  void part(std::uint64_t group);

  void accepted(const Claim& claim, Mesh::Socket socket);  // on the background thread

 private:
  static constexpr std::size_t kMostWaiting = 1024;
  struct Waiting {
    Claim claim;
    Mesh::Socket socket;
  };

  asio::io_context& context_;
  // Touched on the background thread only.
  std::map<std::uint64_t, std::shared_ptr<DataLinks>> groups_;
  std::vector<Waiting> waiting_;
};

}  // namespace anello
