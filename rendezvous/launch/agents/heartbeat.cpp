#include "rendezvous/launch/agents/heartbeat.hpp"

#include <utility>

#include "rendezvous/launch/agents/lifeline.hpp"

namespace anello::launch {
namespace {

constexpr std::chrono::milliseconds kBeat{500};

}  // namespace

Heartbeat::Heartbeat(std::chrono::milliseconds limit) : max_unanswered_(long(lifeline_limit(limit) / kBeat)) {}

bool Heartbeat::asks(Time now) {
  if (now < next_) return false;
  next_ = now + kBeat;
  if (waits_) unanswered_++;
  return !std::exchange(waits_, true);
}

void Heartbeat::answered() {
  waits_ = false;
  unanswered_ = 0;
}

}  // namespace anello::launch
