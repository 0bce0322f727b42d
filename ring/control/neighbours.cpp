#include "ring/control/neighbours.hpp"

#include <utility>

#include "ring/base/wire.hpp"

namespace anello::control {
namespace {

constexpr std::chrono::milliseconds kStragglerPeriod{10000};

net::MessageChannel::Message shared_message(net::MessageKind kind, std::string_view body) {
  return std::make_shared<const std::string>(net::message(kind, body));
}

net::MessageChannel::Message heartbeat(std::chrono::milliseconds slept) {
  return shared_message(net::MessageKind::beat, Writer().u64(std::uint64_t(slept.count())).bytes());
}

}  // namespace

Neighbours::Neighbours(std::chrono::milliseconds silence_limit)
    : heartbeats_(silence_limit), stragglers_(kStragglerPeriod) {}

void Neighbours::add(int peer, Channel channel, bool proven, Time now) {
  channels_.emplace(peer, std::move(channel));
  heartbeats_.add(peer, now);
  if (!proven) unproven_.insert(peer);
}

bool Neighbours::remove(int peer) {
  channels_.at(peer)->close();
  channels_.erase(peer);
  heartbeats_.remove(peer);
  stragglers_.remove(peer);
  return unproven_.erase(peer) > 0;
}

void Neighbours::close(int peer) {
  if (const auto found = channels_.find(peer); found != channels_.end()) found->second->close();
}

void Neighbours::received(int peer, Time now) {
  heartbeats_.received(peer, now);
  unproven_.erase(peer);
}

void Neighbours::send(int peer, std::string_view frame) {
  channels_.at(peer)->send(shared_message(net::MessageKind::frame, frame));
}

void Neighbours::send_to_all(std::string_view frame) {
  const auto bytes = shared_message(net::MessageKind::frame, frame);
  for (const auto& [peer, channel] : channels_) channel->send(bytes);
}

void Neighbours::finish_all(std::chrono::milliseconds limit) {
  for (const auto& [peer, channel] : channels_) channel->finish(limit);
}

void Neighbours::send_heartbeats(std::chrono::milliseconds slept) {
  const auto bytes = heartbeat(slept);
  for (const auto& [peer, channel] : channels_)
    if (!channel->queued()) channel->send(bytes);
}

void Neighbours::send_heartbeat(int peer, std::chrono::milliseconds slept) {
  channels_.at(peer)->send(heartbeat(slept));
}

}  // namespace anello::control
