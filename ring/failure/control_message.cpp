#include "ring/failure/control_message.hpp"

#include <algorithm>
#include <bit>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/failure/rank_runs.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using Type = ControlMessage::Type;
using State = StallAnswer::State;

constexpr std::string_view kWhat = "control";

[[noreturn]] void reject(const std::string& why) {
  throw Error(ErrorCode::protocol, text(kWhat, " message: ", why));
}

int decode_rank(Reader& reader, int world) {
  const int rank = reader.i32();
  if (rank < 0 || rank >= world) reject(text("rank ", rank, " of ", world));
  return rank;
}

bool decode_flag(Reader& reader) {
  const unsigned flag = reader.u8();
  if (flag > 1) reject(text("a flag is ", flag));
  return flag == 1;
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
  Straggler straggler{.rank = decode_rank(reader, world)};
  for (auto* time : {&straggler.own, &straggler.theirs, &straggler.period}) *time = milliseconds(reader.u32());
  return straggler;
}

void encode(const NamedSignature& call, Writer& writer) {
  writer.u64(call.group);
  EncodedSignature bytes;
  anello::encode(call, bytes);
  writer.raw({bytes.data(), bytes.size()});
  writer.u8(call.hidden.known).u64(std::bit_cast<std::uint64_t>(call.hidden.postscale)).u64(call.hidden.token);
  writer.str(std::string_view(call.name).substr(0, ControlMessage::kMaxCallNameBytes));
}
NamedSignature decode_call(Reader& reader) {
  const std::uint64_t group = reader.u64();
  NamedSignature call(decode_signature(reader.raw(kSignatureBytes)));
  call.group = group;
  call.hidden.known = decode_flag(reader);
  call.hidden.postscale = std::bit_cast<double>(reader.u64());
  call.hidden.token = reader.u64();
  call.name = reader.str(ControlMessage::kMaxCallNameBytes);
  return call;
}

void encode(const std::optional<NamedSignature>& call, Writer& writer) {
  writer.u8(call.has_value());
  if (call) encode(*call, writer);
}
std::optional<NamedSignature> decode_optional_call(Reader& reader) {
  return decode_flag(reader) ? std::optional(decode_call(reader)) : std::nullopt;
}

void encode(const StallKey& stall, Writer& writer) {
  writer.u64(stall.group).u64(stall.sequence).u32(std::uint32_t(stall.period.count()));
  writer.u8(stall.overdue).u32(stall.attempt);
}
StallKey decode_stall_key(Reader& reader) {
  StallKey stall{.group = reader.u64(), .sequence = reader.u64(), .period = milliseconds(reader.u32())};
  stall.overdue = decode_flag(reader);
  stall.attempt = reader.u32();
  return stall;
}

void encode(const StallAnswer& answer, Writer& writer) {
  writer.u8(std::uint8_t(answer.state));
  encode(answer.last, writer);
  encode(answer.waits_in, writer);
  writer.str(answer.waits_in_group).str(answer.reason);
}
StallAnswer decode_stall_answer(Reader& reader) {
  StallAnswer answer;
  answer.state = State(reader.u8());
  if (answer.state < State::waits || answer.state > State::refused) reject(text("unknown state ", int(answer.state)));
  answer.last = decode_optional_call(reader);
  answer.waits_in = decode_optional_call(reader);
  answer.waits_in_group = reader.str(ControlMessage::kMaxNameBytes);
  answer.reason = reader.str(ControlMessage::kMaxReasonBytes);
  return answer;
}

// Writes an empty list if the ranks need more than kMaxRuns runs.
void encode_ranks(const std::vector<int>& ranks, Writer& writer) {
  std::vector<RankRun> runs = runs_of(ranks);
  if (runs.size() > ControlMessage::kMaxRuns) runs.clear();
  writer.u16(std::uint16_t(runs.size()));
  for (const RankRun& run : runs) writer.i32(run.first).i32(run.step).u32(run.count);
}
RankRun decode_run(std::vector<int>& ranks, Reader& reader, int world) {
  const std::int32_t first = reader.i32(), step = reader.i32();
  const std::uint32_t count = reader.u32();
  if (count > std::size_t(world) - ranks.size()) reject(text("names more than the ", world, " ranks"));
  std::int64_t rank = first;
  for (std::uint32_t k = 0; k < count; k++, rank += step) {
    if (rank < 0 || rank >= world) reject(text("rank ", rank, " of ", world));
    ranks.push_back(int(rank));
  }
  return {first, step, count};
}
std::vector<int> decode_ranks(Reader& reader, int world) {
  const std::size_t count = reader.u16();
  if (count > ControlMessage::kMaxRuns) reject(text(count, " runs of ranks"));
  std::vector<RankRun> runs(count);
  std::vector<int> ranks;
  for (RankRun& run : runs) run = decode_run(ranks, reader, world);
  if (runs != runs_of(ranks)) reject("its ranks are not written with the fewest possible runs");
  return ranks;
}

bool has_verdict(Type type) {
  return type == Type::proposal || type == Type::decision;
}
bool is_about_a_stall(Type type) {
  return type == Type::stalled || type == Type::answer;
}
bool is_about_a_call(Type type) {
  return type == Type::waiting || type == Type::stalled || type == Type::called || type == Type::refused;
}
std::size_t max_calls(Type type) {
  if (type == Type::goodbye) return ControlMessage::kMaxCalls;
  return is_about_a_call(type) ? 1 : 0;
}

}  // namespace

std::size_t max_ids(std::string_view body) {
  constexpr std::size_t kCountBytes = 2, kIdBytes = 8;
  return (ControlMessage::kMaxBytes - kCountBytes - body.size()) / kIdBytes;
}

std::string encode(const Envelope& envelope) {
  Writer writer;
  writer.u16(std::uint16_t(envelope.ids.size()));
  for (const ControlMessageId& id : envelope.ids) writer.i32(id.origin).u32(id.number);
  return std::move(writer.raw(envelope.body)).take();
}

Envelope decode_envelope(std::string_view bytes, int world) {
  if (bytes.size() > ControlMessage::kMaxBytes) reject(text(bytes.size(), " bytes"));
  Reader reader(kWhat, bytes);
  Envelope envelope;
  const std::size_t ids = reader.u16();
  if (ids == 0) reject("from no rank");
  for (std::size_t k = 0; k < ids; k++) {
    const int origin = decode_rank(reader, world);
    envelope.ids.push_back({origin, reader.u32()});
  }
  envelope.body = bytes.substr(bytes.size() - reader.left());
  return envelope;
}

std::string encode(const ControlMessage& message) {
  const std::string body = encode_body(message);
  return encode(Envelope{{{message.origin, message.number}}, body});
}

ControlMessage decode_control_message(std::string_view bytes, int world) {
  const Envelope envelope = decode_envelope(bytes, world);
  if (envelope.ids.size() != 1) reject("of several ranks");
  ControlMessage message = decode_body(envelope.body, world);
  message.origin = envelope.ids.front().origin;
  message.number = envelope.ids.front().number;
  return message;
}

std::string encode_body(const ControlMessage& message) {
  Writer writer;
  writer.u8(std::uint8_t(message.type));
  if (has_verdict(message.type))
    writer.u8(std::uint8_t(message.verdict.code)).i32(message.verdict.culprit).str(message.verdict.message);
  if (message.type == Type::slow) encode(message.straggler, writer);
  if (message.type == Type::goodbye)
    writer.u64(message.group).u64(message.completed).u8(message.by_exception).u32(message.members_of_group);
  if (is_about_a_stall(message.type)) {
    encode(message.stall, writer);
    encode(message.answer, writer);
  }
  if (message.type == Type::stalled) {
    writer.str(message.group_name);
    encode_ranks(message.members, writer);
  }
  if (message.type == Type::called) encode_ranks(message.contradicted, writer);
  for (const NamedSignature& call : message.calls) encode(call, writer);
  return std::move(writer).take();
}

ControlMessage decode_body(std::string_view body, int world) {
  Reader reader(kWhat, body);
  ControlMessage message;
  message.type = Type(reader.u8());
  if (message.type < Type::proposal || message.type > Type::refused) reject(text("unknown type ", int(message.type)));
  if (has_verdict(message.type)) message.verdict = decode_verdict(reader, world);
  if (message.type == Type::slow) message.straggler = decode_straggler(reader, world);
  if (message.type == Type::goodbye) {
    message.group = reader.u64();
    message.completed = reader.u64();
    message.by_exception = decode_flag(reader);
    message.members_of_group = reader.u32();
  }
  if (is_about_a_stall(message.type)) {
    message.stall = decode_stall_key(reader);
    message.answer = decode_stall_answer(reader);
  }
  if (message.type == Type::stalled) {
    message.group_name = reader.str(ControlMessage::kMaxNameBytes);
    message.members = decode_ranks(reader, world);
  }
  if (message.type == Type::called) message.contradicted = decode_ranks(reader, world);
  while (reader.left() > 0 && message.calls.size() < max_calls(message.type))
    message.calls.push_back(decode_call(reader));
  reader.finish();
  if (message.calls.empty() && is_about_a_call(message.type)) reject("it names no operation, but its type needs one");
  return message;
}

}  // namespace anello::failure
