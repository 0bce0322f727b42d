// Messages between a rank and its neighbours in the tree of an agenda, over links of a group. A message is its length
// (u32, little-endian), then that number of bytes. Used by the thread that has the agenda's baton; never blocks.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ring/agenda/agenda.hpp"
#include "ring/link/waiter.hpp"
#include "ring/net/data_links.hpp"

namespace anello::agenda {

class MessageLinks {
 public:
  // `links` is null in a world of one, which has no neighbours. `members`: world ranks, by rank in the group, for error
  // messages.
  MessageLinks(std::shared_ptr<net::DataLinks> links, const std::vector<int>& neighbours,
               const std::vector<int>& members);

  // Queues the agenda's messages for the neighbours.
  void queue(Agenda& agenda);
  // Queues the agenda's messages, then sends as many bytes as the links accept now. True if any byte was sent. Throws
  // Error{network} with the neighbour's rank.
  bool send(Agenda& agenda);
  // Gives the agenda the messages that have arrived. True if any data arrived. Throws like receive_some() and
  // Agenda::receive().
  bool receive(Agenda& agenda);

  // Queues a message for a neighbour.
  void send(int neighbour, std::string message);
  bool sending() const;      // true if something is queued
  void drop(int neighbour);  // drops the messages that are queued for the neighbour

  // Sends as many bytes as the links accept now. True if any byte was sent. Throws Error{network} with the neighbour's
  // rank.
  bool send_some();
  // Receives the data that has arrived from one neighbour, and appends the complete messages to `messages`. True if any
  // data arrived. Throws Error{network, protocol} with the neighbour's rank.
  bool receive_some(int neighbour, std::vector<std::string>& messages);
  // Adds to the waiter the events for which the next send_some() waits and, if `receives`, also the events for which
  // receive_some() waits. False if something can move already.
  bool want(link::Waiter& waiter, bool receives);

 private:
  struct Neighbour {
    int rank, world_rank;
    std::string out;  // bytes to send; the bytes before `sent` are sent already
    std::size_t sent = 0;
    std::string in;  // the beginning of a message whose rest has not arrived
  };
  Neighbour& find(int rank);
  link::Link* link(const Neighbour& neighbour) { return links_ ? links_->find(neighbour.rank) : nullptr; }

  std::shared_ptr<net::DataLinks> links_;
  std::vector<Neighbour> neighbours_;
  std::array<std::byte, 16 << 10> buffer_;
};

}  // namespace anello::agenda
