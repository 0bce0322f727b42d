// Brings control messages to all ranks. A rank sends each message of its own to all its neighbours (control_graph.hpp),
// and passes on each message that it receives for the first time. So a message reaches every rank that has any path to
// its sender. Origin and number identify a message. For each origin, the flood records which of the newest 64 numbers
// have arrived; an older message counts as received.
//
// Most ranks leave together, and their goodbyes have the same content. Most messages about the ranks' calls also have
// equal contents. So a rank delays such messages by 10 ms before it passes them on, and joins messages with equal
// contents into one. Before it sends any other message, and before it leaves, it sends the delayed messages. The flood
// puts bytes into an outbox and uses no sockets. Pure: time is passed in; one thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ring/failure/control_message.hpp"

namespace anello::failure {

class Flood {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point
  // If nothing is broken, a message has arrived everywhere after this time.
  static constexpr Time kDeliveryLimit{100};
  static constexpr Time kWait{10};
  // A goodbye arrives everywhere after this time. Each rank that passes a goodbye on delays it; in a world of 4096
  // ranks, 5 ranks do this one after another.
  static constexpr Time kGoodbyeLimit = 2 * kDeliveryLimit;

  Flood(int rank, int size);

  // Numbers this rank's message and puts it into the outbox.
  void send(ControlMessage message);

  // Returns the messages that are new: none, one, or several with the same content from several ranks. Also puts them
  // into the outbox, or delays them. Throws Error{protocol}, and passes nothing on, if the bytes are not a message of a
  // world of this size.
  std::vector<ControlMessage> receive(std::string_view bytes, Time now);

  // True if these bytes contain `message`, or a later message of its origin. Throws like receive().
  bool contains(std::string_view bytes, const ControlMessageId& message) const;
  std::uint32_t newest() const { return number_; }  // number of this rank's newest message; 0: none was sent

  // Returns the messages for every neighbour as bytes, in order. Empties the outbox.
  std::vector<std::string> take_outbox();

  void pass_on();                                      // puts the delayed messages into the outbox
  void tick(Time now);                                 // call when due() has come
  std::optional<Time> due() const { return due_at_; }  // empty: no message is delayed

 private:
  struct Received {
    std::uint32_t newest = 0;
    std::uint64_t window = 0;  // bit i: number newest - i has arrived
  };
  struct Waiting {
    std::vector<ControlMessageId> ids;
    std::string body;
  };
  bool has_come(const ControlMessageId& id) const;
  void note(const ControlMessageId& id);  // records that this message has arrived
  void add(const ControlMessageId& id, std::string_view body);

  int rank_;
  std::uint32_t number_ = 0;
  std::vector<Received> received_;  // by origin
  std::vector<Waiting> waiting_;    // delayed messages, in order
  // By body: the index in waiting_ of the last entry with that body.
  std::unordered_map<std::string, std::size_t> places_;
  std::unordered_map<int, std::size_t> last_places_;  // by origin: the index in waiting_ of the origin's newest message
  std::optional<Time> due_at_;
  std::vector<std::string> outbox_;
};

}  // namespace anello::failure
