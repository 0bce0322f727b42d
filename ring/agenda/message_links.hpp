// Messages between a rank and its neighbours in the tree of an agenda, over links of a group: each is its length (u32,
// little-endian), then as many bytes. Used by the thread that has the agenda's baton; never blocks.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ring/link/waiter.hpp"
#include "ring/net/data_links.hpp"

namespace anello::agenda {

class MessageLinks {
 public:
  // `links` is null in a world of one; then there are no neighbours. `members` are the group's ranks in the world, for
  // errors.
  MessageLinks(std::shared_ptr<net::DataLinks> links, const std::vector<int>& neighbours,
               const std::vector<int>& members);

  // Queues a message for a neighbour.
  void send(int neighbour, std::string message);
  bool sending() const;      // something is queued
  void drop(int neighbour);  // what is queued for it

  // Sends what the links take now. True if something was sent. Throws Error{network} with the neighbour.
  bool send_some();
  // Receives what has come from one neighbour, and appends its complete messages. True if something came. Throws
  // Error{network, protocol} with the neighbour.
  bool receive_some(int neighbour, std::vector<std::string>& messages);
  // Gives the waiter what the next call of send_some() waits for, and of receive_some() if that follows. False if
  // something can move already.
  bool want(link::Waiter& waiter, bool receives);

 private:
  struct Neighbour {
    int rank, world_rank;
    std::string out;  // from `sent` on still to be sent
    std::size_t sent = 0;
    std::string in;  // the beginning of a message
  };
  Neighbour& find(int rank);
  link::Link* link(const Neighbour& neighbour) { return links_ ? links_->find(neighbour.rank) : nullptr; }

  std::shared_ptr<net::DataLinks> links_;
  std::vector<Neighbour> neighbours_;
  std::array<std::byte, 16 << 10> buffer_;
};

}  // namespace anello::agenda
