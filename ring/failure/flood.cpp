#include "ring/failure/flood.hpp"

#include <utility>

namespace anello::failure {

Flood::Flood(int rank, int size) : rank_(rank), received_(std::size_t(size)) {}

bool Flood::is_new(int origin, std::uint32_t number) {
  Received& from = received_[std::size_t(origin)];
  if (number > from.newest) {
    const std::uint32_t ahead = number - from.newest;
    from.window = ahead < 64 ? from.window << ahead : 0;
    from.newest = number;
  }
  const std::uint32_t behind = from.newest - number;
  if (behind >= 64 || (from.window >> behind & 1)) return false;
  from.window |= std::uint64_t(1) << behind;
  return true;
}

void Flood::send(ControlMessage message) {
  message.origin = rank_;
  message.number = ++number_;
  is_new(rank_, number_);
  outbox_.push_back(encode(message));
}

std::optional<ControlMessage> Flood::receive(std::string_view bytes) {
  ControlMessage message = decode_control_message(bytes, int(received_.size()));
  if (!is_new(message.origin, message.number)) return std::nullopt;
  outbox_.emplace_back(bytes);
  return message;
}

std::vector<std::string> Flood::take_outbox() {
  return std::exchange(outbox_, {});
}

}  // namespace anello::failure
