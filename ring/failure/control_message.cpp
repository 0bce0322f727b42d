#include "ring/failure/control_message.hpp"

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::failure {
namespace {

constexpr std::string_view kWhat = "control";

[[noreturn]] void reject(const std::string& why) {
  throw Error(ErrorCode::protocol, text(kWhat, " message: ", why));
}

Verdict decode_verdict(Reader& reader, int world) {
  Verdict verdict;
  verdict.code = ErrorCode(reader.u8());
  verdict.culprit = reader.i32();
  verdict.message = reader.str(ControlMessage::kMaxMessageBytes);
  if (name(verdict.code) == "?") reject(text("no error has the code ", int(verdict.code)));
  if (verdict.culprit < -1 || verdict.culprit >= world) reject(text("rank ", verdict.culprit, " of ", world));
  return verdict;
}

void encode(const Straggler& straggler, Writer& writer) {
  writer.i32(straggler.rank);
  for (const auto time : {straggler.own, straggler.theirs, straggler.period}) writer.u32(std::uint32_t(time.count()));
}
Straggler decode_straggler(Reader& reader, int world) {
  Straggler straggler{.rank = reader.i32()};
  if (straggler.rank < 0 || straggler.rank >= world) reject(text("rank ", straggler.rank, " of ", world));
  for (auto* time : {&straggler.own, &straggler.theirs, &straggler.period})
    *time = std::chrono::milliseconds(reader.u32());
  return straggler;
}

using Type = ControlMessage::Type;

bool has_verdict(Type type) {
  return type == Type::proposal || type == Type::decision;
}
bool names_a_group(Type type) {
  return type == Type::goodbye || type == Type::absent;
}
std::size_t max_signatures(Type type) {
  if (type == Type::goodbye) return ControlMessage::kMaxSignatures;
  return has_verdict(type) || type == Type::slow ? 0 : 1;
}

}  // namespace

std::string encode(const ControlMessage& message) {
  Writer writer;
  writer.i32(message.origin).u32(message.number).u8(std::uint8_t(message.type));
  if (has_verdict(message.type))
    writer.u8(std::uint8_t(message.verdict.code)).i32(message.verdict.culprit).str(message.verdict.message);
  if (message.type == Type::slow) encode(message.straggler, writer);
  if (names_a_group(message.type))
    writer.u64(message.group).u64(message.completed).u64(message.sequence).u8(message.by_exception);
  if (message.type == Type::goodbye) writer.u32(message.members);
  for (const Signature& signature : message.signatures) {
    writer.u64(signature.group);
    const auto bytes = encode(signature);
    writer.raw({bytes.data(), bytes.size()});
  }
  return std::move(writer).take();
}

ControlMessage decode_control_message(std::string_view bytes, int world) {
  Reader reader(kWhat, bytes);
  ControlMessage message;
  message.origin = reader.i32();
  message.number = reader.u32();
  message.type = Type(reader.u8());
  if (message.origin < 0 || message.origin >= world) reject(text("from rank ", message.origin, " of ", world));
  if (message.type < Type::proposal || message.type > Type::slow) reject(text("unknown type ", int(message.type)));
  if (has_verdict(message.type)) message.verdict = decode_verdict(reader, world);
  if (message.type == Type::slow) message.straggler = decode_straggler(reader, world);
  if (names_a_group(message.type)) {
    message.group = reader.u64();
    message.completed = reader.u64();
    message.sequence = reader.u64();
    const unsigned by_exception = reader.u8();
    if (by_exception > 1) reject(text("1 and 0 say whether an exception was why, not ", by_exception));
    message.by_exception = by_exception == 1;
  }
  if (message.type == Type::goodbye) message.members = reader.u32();
  while (reader.left() > 0 && message.signatures.size() < max_signatures(message.type)) {
    const std::uint64_t group = reader.u64();
    message.signatures.push_back(decode_signature(reader.raw(kSignatureBytes)));
    message.signatures.back().group = group;
  }
  reader.finish();
  const bool needs_one = message.type == Type::waiting || message.type == Type::stalled;
  if (needs_one && message.signatures.empty()) reject("waiting, but in no operation");
  return message;
}

}  // namespace anello::failure
