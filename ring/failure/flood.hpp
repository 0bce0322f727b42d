// Brings control messages to all ranks. A rank sends each message of its own, and each message that it receives for the
// first time, to all its neighbours (control_graph.hpp); so a message reaches every rank that is connected to its
// sender at all. Origin and number identify a message. Of each origin the flood remembers which of the newest 64
// numbers have come; an older one counts as received.
//
// Most ranks leave together, and their goodbyes say the same; so do most ranks that say what they called. So a rank
// passes such a message on only 10 ms after it came: those of equal content that wait then travel as one. When anything
// else is sent, or this rank leaves as well, they go first. It puts bytes into an outbox and knows no sockets. Pure:
// time is passed in; one thread.
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
  using Time = std::chrono::milliseconds;  // since any fixed point
  // By then a message that was under way has arrived everywhere, where nothing is broken.
  static constexpr Time kDeliveryLimit{100};
  static constexpr Time kWait{10};
  // A goodbye, which waits in each rank that passes it on: in a world of 4096 ranks on 5 of them.
  static constexpr Time kGoodbyeLimit = 2 * kDeliveryLimit;

  Flood(int rank, int size);

  // Numbers this rank's message and puts it into the outbox.
  void send(ControlMessage message);

  // The messages that are new: none, one, or equal ones of several ranks. They are then in the outbox, or wait. Throws
  // Error{protocol} if the bytes are not a message of a world of this size; they are not passed on.
  std::vector<ControlMessage> receive(std::string_view bytes, Time now);

  // Whether these bytes contain the origin's message of that number, or a later one. Throws as receive().
  bool contains(std::string_view bytes, const ControlMessageId& message) const;
  std::uint32_t newest() const { return number_; }  // of this rank's messages; 0: it has sent none

  // Messages as bytes, in order, for every neighbour. Empties the outbox.
  std::vector<std::string> take_outbox();

  void pass_on();                                      // what waits, into the outbox
  void tick(Time now);                                 // call when due() has come
  std::optional<Time> due() const { return due_at_; }  // nothing: nothing waits

 private:
  struct Received {
    std::uint32_t newest = 0;
    std::uint64_t window = 0;  // bit i: number newest - i has come
  };
  struct Waiting {
    std::vector<ControlMessageId> ids;
    std::string body;
  };
  bool has_come(const ControlMessageId& id) const;
  void note(const ControlMessageId& id);  // it has come
  void add(const ControlMessageId& id, std::string_view body);

  int rank_;
  std::uint32_t number_ = 0;
  std::vector<Received> received_;                       // by origin
  std::vector<Waiting> waiting_;                         // in order, to be passed on
  std::unordered_map<std::string, std::size_t> places_;  // by body: its last place in waiting_
  std::unordered_map<int, std::size_t> last_places_;     // by origin: where its newest message waits
  std::optional<Time> due_at_;
  std::vector<std::string> outbox_;
};

}  // namespace anello::failure
