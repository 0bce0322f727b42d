// Brings control messages to all ranks. A rank sends each message of its own, and each message that it receives for the
// first time, to all its neighbours (control_graph.hpp); so a message reaches every rank that is connected to its
// sender at all. Origin and number identify a message. Of each origin the flood remembers which of the newest 64
// numbers have come; an older one counts as received. It puts bytes into an outbox and knows no sockets. Pure; one
// thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/failure/control_message.hpp"

namespace anello::failure {

class Flood {
 public:
  // By then a message that was under way has arrived everywhere, where nothing is broken.
  static constexpr std::chrono::milliseconds kDeliveryLimit{100};

  Flood(int rank, int size);

  // Numbers this rank's message and puts it into the outbox.
  void send(ControlMessage message);

  // The message, which is then also in the outbox, to be passed on; nothing if it came before. Throws Error{protocol}
  // if the bytes are not a message of a world of this size; they are not passed on.
  std::optional<ControlMessage> receive(std::string_view bytes);

  // Messages as bytes, in order, for every neighbour. Empties the outbox.
  std::vector<std::string> take_outbox();

 private:
  struct Received {
    std::uint32_t newest = 0;
    std::uint64_t window = 0;  // bit i: number newest - i has come
  };
  bool has_come(int origin, std::uint32_t number) const;
  void note(int origin, std::uint32_t number);  // it has come

  int rank_;
  std::uint32_t number_ = 0;
  std::vector<Received> received_;  // by origin
  std::vector<std::string> outbox_;
};

}  // namespace anello::failure
