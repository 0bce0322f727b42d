#include "ring/failure/control_message.hpp"

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello {
namespace {

constexpr std::string_view kWhat = "control";

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::protocol, text(kWhat, " message: ", why));
}

Verdict decode_verdict(Reader& reader, int world) {
  Verdict verdict;
  verdict.code = ErrorCode(reader.u8());
  verdict.culprit = reader.i32();
  verdict.message = reader.str(ControlMessage::kMaxMessageBytes);
  if (name(verdict.code) == "?") refuse(text("no error has the code ", int(verdict.code)));
  if (verdict.culprit < -1 || verdict.culprit >= world) refuse(text("rank ", verdict.culprit, " of ", world));
  return verdict;
}

void encode(const Straggler& lag, Writer& writer) {
  writer.i32(lag.rank);
  for (const auto time : {lag.own, lag.theirs, lag.period}) writer.u32(std::uint32_t(time.count()));
}
Straggler decode_lag(Reader& reader, int world) {
  Straggler lag{.rank = reader.i32()};
  if (lag.rank < 0 || lag.rank >= world) refuse(text("rank ", lag.rank, " of ", world));
  for (auto* time : {&lag.own, &lag.theirs, &lag.period}) *time = std::chrono::milliseconds(reader.u32());
  return lag;
}

using Type = ControlMessage::Type;

bool has_verdict(Type type) {
  return type == Type::proposal || type == Type::decision;
}
bool is_of_a_group(Type type) {
  return type == Type::goodbye || type == Type::absent;
}
std::size_t max_signatures(Type type) {
  if (type == Type::goodbye) return ControlMessage::kMaxSignatures;
  return has_verdict(type) || type == Type::slow ? 0 : 1;
}

}  // namespace

std::string encode(const ControlMessage& frame) {
  Writer writer;
  writer.i32(frame.origin).u32(frame.number).u8(std::uint8_t(frame.type));
  if (has_verdict(frame.type))
    writer.u8(std::uint8_t(frame.verdict.code)).i32(frame.verdict.culprit).str(frame.verdict.message);
  if (frame.type == Type::slow) encode(frame.lag, writer);
  if (is_of_a_group(frame.type)) writer.u64(frame.group).u64(frame.completed).u64(frame.sequence);
  for (const Signature& signature : frame.signatures) {
    writer.u64(signature.group);
    const auto bytes = encode(signature);
    writer.raw({bytes.data(), bytes.size()});
  }
  return std::move(writer).take();
}

ControlMessage decode_control_message(std::string_view bytes, int world) {
  Reader reader(kWhat, bytes);
  ControlMessage frame;
  frame.origin = reader.i32();
  frame.number = reader.u32();
  frame.type = Type(reader.u8());
  if (frame.origin < 0 || frame.origin >= world) refuse(text("from rank ", frame.origin, " of ", world));
  if (frame.type < Type::proposal || frame.type > Type::slow) refuse(text("unknown type ", int(frame.type)));
  if (has_verdict(frame.type)) frame.verdict = decode_verdict(reader, world);
  if (frame.type == Type::slow) frame.lag = decode_lag(reader, world);
  if (is_of_a_group(frame.type)) {
    frame.group = reader.u64();
    frame.completed = reader.u64();
    frame.sequence = reader.u64();
  }
  while (reader.left() > 0 && frame.signatures.size() < max_signatures(frame.type)) {
    const std::uint64_t group = reader.u64();
    frame.signatures.push_back(decode_signature(reader.raw(kSignatureBytes)));
    frame.signatures.back().group = group;
  }
  reader.finish();
  const bool needs_one = frame.type == Type::waiting || frame.type == Type::stalled;
  if (needs_one && frame.signatures.empty()) refuse("waiting, but in no operation");
  return frame;
}

}  // namespace anello
