#include "ring/failure/flood.hpp"

#include <algorithm>
#include <utility>

namespace anello::failure {

Flood::Flood(int rank, int size) : rank_(rank), received_(std::size_t(size)) {}

bool Flood::has_come(const ControlMessageId& id) const {
  if (id.origin == rank_) return true;  // true for this rank's own message, which a neighbour has sent back
  const Received& from = received_[std::size_t(id.origin)];
  if (id.number > from.newest) return false;
  const std::uint32_t behind = from.newest - id.number;
  return behind >= 64 || (from.window >> behind & 1);
}

void Flood::note(const ControlMessageId& id) {
  Received& from = received_[std::size_t(id.origin)];
  if (id.number > from.newest) {
    const std::uint32_t ahead = id.number - from.newest;
    from.window = ahead < 64 ? from.window << ahead : 0;
    from.newest = id.number;
  }
  from.window |= std::uint64_t(1) << (from.newest - id.number);
}

void Flood::send(ControlMessage message) {
  add({rank_, ++number_}, encode_body(message));
  pass_on();
}

std::vector<ControlMessage> Flood::receive(std::string_view bytes, Time now) {
  const int world = int(received_.size());
  Envelope envelope = decode_envelope(bytes, world);
  std::erase_if(envelope.ids, [this](const ControlMessageId& id) { return has_come(id); });
  // The usual case: all ids are already received, because each message comes from every neighbour.
  if (envelope.ids.empty()) return {};
  std::vector<ControlMessage> messages(1, decode_body(envelope.body, world));
  messages.resize(envelope.ids.size(), messages.front());
  for (std::size_t k = 0; k < messages.size(); k++) {
    const ControlMessageId& id = envelope.ids[k];
    messages[k].origin = id.origin;
    messages[k].number = id.number;
    note(id);
    add(id, envelope.body);
  }
  const ControlMessage::Type type = messages.front().type;
  if (type == ControlMessage::Type::goodbye || type == ControlMessage::Type::called)
    due_at_ = std::min(due_at_.value_or(Time::max()), now + kWait);
  else
    pass_on();
  return messages;
}

bool Flood::contains(std::string_view bytes, const ControlMessageId& message) const {
  const Envelope envelope = decode_envelope(bytes, int(received_.size()));
  return std::any_of(envelope.ids.begin(), envelope.ids.end(), [&](const ControlMessageId& id) {
    return id.origin == message.origin && id.number >= message.number;
  });
}

// Adds the id to a waiting entry with the same body. Makes a new entry if no entry has this body, or if the message
// would otherwise be sent before an earlier message of its origin.
void Flood::add(const ControlMessageId& id, std::string_view body) {
  const auto [place, is_new] = places_.try_emplace(std::string(body), waiting_.size());
  const auto last = last_places_.find(id.origin);
  const bool fits = !is_new && (last == last_places_.end() || last->second <= place->second) &&
                    waiting_[place->second].ids.size() < max_ids(body);
  if (!fits) {
    place->second = waiting_.size();
    waiting_.push_back({{}, place->first});
  }
  waiting_[place->second].ids.push_back(id);
  last_places_[id.origin] = place->second;
}

void Flood::pass_on() {
  for (const Waiting& each : waiting_) outbox_.push_back(encode(Envelope{each.ids, each.body}));
  waiting_.clear();
  places_.clear();
  last_places_.clear();
  due_at_.reset();
}

void Flood::tick(Time now) {
  if (due_at_ && *due_at_ <= now) pass_on();
}

std::vector<std::string> Flood::take_outbox() {
  return std::exchange(outbox_, {});
}

}  // namespace anello::failure
