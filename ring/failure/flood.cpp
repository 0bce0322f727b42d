#include "ring/failure/flood.hpp"

#include <utility>

namespace anello::failure {

Flood::Flood(int rank, int size) : rank_(rank), received_(std::size_t(size)) {}

bool Flood::has_come(int origin, std::uint32_t number) const {
  const Received& from = received_[std::size_t(origin)];
  if (number > from.newest) return false;
  const std::uint32_t behind = from.newest - number;
  return behind >= 64 || (from.window >> behind & 1);
}

void Flood::note(int origin, std::uint32_t number) {
  Received& from = received_[std::size_t(origin)];
  if (number > from.newest) {
    const std::uint32_t ahead = number - from.newest;
    from.window = ahead < 64 ? from.window << ahead : 0;
    from.newest = number;
  }
  from.window |= std::uint64_t(1) << (from.newest - number);
}

void Flood::send(ControlMessage message) {
  message.origin = rank_;
  message.number = ++number_;
  outbox_.push_back(encode(message));
}

std::optional<ControlMessage> Flood::receive(std::string_view bytes) {
  const int world = int(received_.size());
  const ControlMessageId id = decode_control_message_id(bytes, world);
  if (id.origin == rank_) return std::nullopt;              // its own, which came back
  if (has_come(id.origin, id.number)) return std::nullopt;  // most messages: each comes from every neighbour
  ControlMessage message = decode_control_message(bytes, world);
  note(id.origin, id.number);
  outbox_.emplace_back(bytes);
  return message;
}

std::vector<std::string> Flood::take_outbox() {
  return std::exchange(outbox_, {});
}

}  // namespace anello::failure
