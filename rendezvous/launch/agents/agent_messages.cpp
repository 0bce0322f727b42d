#include "rendezvous/launch/agents/agent_messages.hpp"

#include <anello/error.hpp>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::launch {
std::string encode(const AgentMessage& message) {
  Writer out;
  out.u8(std::uint8_t(message.kind)).i32(message.number).i32(message.rank).i32(message.pid).i32(message.value);
  return std::move(out.raw(message.bytes)).take();
}

AgentMessage decode_message(std::string_view bytes) {
  Reader in("agent's message", bytes);
  const unsigned kind = in.u8();
  if (kind < unsigned(AgentMessage::Kind::start) || kind > unsigned(AgentMessage::Kind::done))
    throw Error(ErrorCode::protocol, text("agent's message: no kind ", kind));
  AgentMessage message{AgentMessage::Kind(kind)};
  message.number = in.i32();
  message.rank = in.i32();
  message.pid = in.i32();
  message.value = in.i32();
  message.bytes = in.raw(in.left());
  return message;
}

}  // namespace anello::launch
