#include "rendezvous/protocol/protocol.hpp"

#include "rendezvous/protocol/delta_coding.hpp"
#include "ring/base/check.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::rendezvous {
namespace {

// The first byte of a body. Values are part of the protocol.
enum class Kind : std::uint8_t {
  join = 1,
  contribution,
  leave,
  fail,
  arrive,
  enter,
  begun,
  commits,
  present,
  done,
  retire,
  assigned = 17,
  gathered,
  failed,
  come_again,
  again,
  ask_presence,
  ask_commits,
  boundary,
  over
};

void write(Writer& out, std::chrono::milliseconds duration) {
  out.u64(duration.count() > 0 ? std::uint64_t(duration.count()) : 0);
}
void write(Writer& out, const Join& join) {
  out.u8(std::uint8_t(Kind::join)).str(join.host).str(join.machine).str(join.address).u32(join.pid).u32(join.parent);
  out.i32(join.rank).i32(join.size).i32(join.local_rank);
  write(out, join.patience);
  write(out, join.age);
  out.u8(join.elastic).i32(join.place);
}
void write(Writer& out, const Contribution& contribution) {
  ANELLO_CHECK(contribution.blob.size() <= kMaxBlobBytes);
  out.u8(std::uint8_t(Kind::contribution)).str(contribution.blob);
  write(out, contribution.patience);
}
void write(Writer& out, const Leave& leave) {
  out.u8(std::uint8_t(Kind::leave)).u16(leave.port);
}
void write(Writer& out, const Fail& fail) {
  out.u8(std::uint8_t(Kind::fail)).str(std::string_view(fail.reason).substr(0, kMaxReasonBytes)).i32(fail.rank);
}
void write(Writer& out, const Arrive&) {
  out.u8(std::uint8_t(Kind::arrive));
}
void write(Writer& out, const Enter& enter) {
  out.u8(std::uint8_t(Kind::enter)).u32(enter.generation);
}
void write(Writer& out, const Begun&) {
  out.u8(std::uint8_t(Kind::begun));
}
void write(Writer& out, const Commits& commits) {
  out.u8(std::uint8_t(Kind::commits)).u64(commits.count);
}
void write(Writer& out, const Present&) {
  out.u8(std::uint8_t(Kind::present));
}
void write(Writer& out, const Done&) {
  out.u8(std::uint8_t(Kind::done));
}
void write(Writer& out, const Retire&) {
  out.u8(std::uint8_t(Kind::retire));
}
void write(Writer& out, const Assigned& assigned) {
  out.u8(std::uint8_t(Kind::assigned)).u32(assigned.generation).i32(assigned.rank).i32(assigned.size);
  out.i32(assigned.local_rank).i32(assigned.local_size).i32(assigned.node_rank).i32(assigned.node_count);
  out.str(assigned.host).u64(assigned.incarnation).u8(assigned.begun);
  out.str(std::string_view(assigned.change).substr(0, kMaxReasonBytes));
  out.i32(assigned.inherited.min).i32(assigned.inherited.max);
  write(out, assigned.inherited.patience);
  write(out, assigned.inherited.silence);
}
void write(Writer& out, const Gathered& gathered) {
  out.u8(std::uint8_t(Kind::gathered));
  write_deltas(out, gathered.blobs);
}
void write(Writer& out, const Failed& failed) {
  out.u8(std::uint8_t(Kind::failed)).u8(std::uint8_t(failed.code)).i32(failed.rank);
  out.str(std::string_view(failed.message).substr(0, kMaxReasonBytes));
}
void write(Writer& out, const ComeAgain&) {
  out.u8(std::uint8_t(Kind::come_again));
}
void write(Writer& out, const Again& again) {
  out.u8(std::uint8_t(Kind::again)).str(std::string_view(again.reason).substr(0, kMaxReasonBytes));
}
void write(Writer& out, const AskPresence&) {
  out.u8(std::uint8_t(Kind::ask_presence));
}
void write(Writer& out, const AskCommits&) {
  out.u8(std::uint8_t(Kind::ask_commits));
}
void write(Writer& out, const Boundary& boundary) {
  out.u8(std::uint8_t(Kind::boundary)).u64(boundary.commit);
}
void write(Writer& out, const Over&) {
  out.u8(std::uint8_t(Kind::over));
}

template <class Message>
std::string encoded(const Message& message) {
  Writer out;
  std::visit([&](const auto& one) { write(out, one); }, message);
  return std::move(out).take();
}

std::int32_t bounded(std::string_view what, std::int32_t value, std::int32_t min, std::int32_t max) {
  if (value < min || value > max)
    throw Error(ErrorCode::protocol,
                text("rendezvous message: ", what, " ", value, " is not between ", min, " and ", max));
  return value;
}

// A longer duration is read as one day.
std::chrono::milliseconds read_duration(Reader& in) {
  constexpr std::chrono::milliseconds kDay = std::chrono::hours(24);
  const std::uint64_t count = in.u64();
  return count < std::uint64_t(kDay.count()) ? std::chrono::milliseconds(count) : kDay;
}

bool read_flag(Reader& in, std::string_view what) {
  return bounded(what, in.u8(), 0, 1) == 1;
}

Join read_join(Reader& in) {
  Join join;
  join.host = printable(in.str(kMaxNameBytes));
  join.machine = in.str(kMaxNameBytes);
  join.address = printable(in.str(kMaxNameBytes));
  join.pid = in.u32();
  join.parent = in.u32();
  join.rank = bounded("rank", in.i32(), -1, kMaxRanks - 1);
  join.size = in.i32();
  if (join.size != -1) bounded("world size", join.size, 1, kMaxRanks);
  join.local_rank = bounded("local rank", in.i32(), -1, kMaxRanks - 1);
  join.patience = read_duration(in);
  join.age = read_duration(in);
  join.elastic = read_flag(in, "elastic");
  join.place = bounded("place", in.i32(), -1, kMaxRanks - 1);
  return join;
}

Contribution read_contribution(Reader& in) {
  Contribution contribution;
  contribution.blob = in.str(kMaxBlobBytes);
  contribution.patience = read_duration(in);
  return contribution;
}

Assigned read_assigned(Reader& in) {
  Assigned assigned;
  assigned.generation = in.u32();
  assigned.rank = in.i32();
  assigned.size = bounded("world size", in.i32(), 1, kMaxRanks);
  bounded("rank", assigned.rank, 0, assigned.size - 1);
  assigned.local_rank = in.i32();
  assigned.local_size = bounded("local size", in.i32(), 1, kMaxRanks);
  bounded("local rank", assigned.local_rank, 0, assigned.local_size - 1);
  assigned.node_rank = in.i32();
  assigned.node_count = bounded("node count", in.i32(), 1, assigned.size);
  bounded("node rank", assigned.node_rank, 0, assigned.node_count - 1);
  assigned.host = printable(in.str(2 * kMaxNameBytes));
  assigned.incarnation = in.u64();
  assigned.begun = read_flag(in, "begun");
  assigned.change = printable(in.str(kMaxReasonBytes), kMaxReasonBytes);
  assigned.inherited.min = bounded("smallest world", in.i32(), 1, kMaxRanks);
  assigned.inherited.max = bounded("largest world", in.i32(), 0, kMaxRanks);
  assigned.inherited.patience = read_duration(in);
  assigned.inherited.silence = read_duration(in);
  return assigned;
}

Fail read_fail(Reader& in) {
  Fail fail;
  fail.reason = printable(in.str(kMaxReasonBytes), kMaxReasonBytes);
  fail.rank = bounded("rank", in.i32(), -1, kMaxRanks - 1);
  return fail;
}

Failed read_failed(Reader& in) {
  Failed failed;
  failed.code = ErrorCode(bounded("error code", in.u8(), int(ErrorCode::invalid_argument), int(ErrorCode::device)));
  failed.rank = bounded("rank", in.i32(), -1, kMaxRanks - 1);
  failed.message = printable(in.str(kMaxReasonBytes), kMaxReasonBytes);
  return failed;
}

Request read_request(Reader& in) {
  const unsigned kind = in.u8();
  switch (Kind(kind)) {
    case Kind::join:
      return read_join(in);
    case Kind::contribution:
      return read_contribution(in);
    case Kind::leave:
      return Leave{in.u16()};
    case Kind::fail:
      return read_fail(in);
    case Kind::arrive:
      return Arrive{};
    case Kind::enter:
      return Enter{in.u32()};
    case Kind::begun:
      return Begun{};
    case Kind::commits:
      return Commits{in.u64()};
    case Kind::present:
      return Present{};
    case Kind::done:
      return Done{};
    case Kind::retire:
      return Retire{};
    default:
      throw Error(ErrorCode::protocol, text("rendezvous message: unknown request ", kind));
  }
}

Reply read_reply(Reader& in) {
  const unsigned kind = in.u8();
  switch (Kind(kind)) {
    case Kind::assigned:
      return read_assigned(in);
    case Kind::gathered:
      return Gathered{read_deltas(in, {kMaxRanks, kMaxBlobBytes, kMaxReplyBytes})};
    case Kind::failed:
      return read_failed(in);
    case Kind::come_again:
      return ComeAgain{};
    case Kind::again:
      return Again{printable(in.str(kMaxReasonBytes), kMaxReasonBytes)};
    case Kind::ask_presence:
      return AskPresence{};
    case Kind::ask_commits:
      return AskCommits{};
    case Kind::boundary:
      return Boundary{in.u64()};
    case Kind::over:
      return Over{};
    default:
      throw Error(ErrorCode::protocol, text("rendezvous message: unknown reply ", kind));
  }
}

}  // namespace

void require_exchangeable(std::size_t blob_bytes) {
  if (blob_bytes > kMaxBlobBytes)
    throw Error(ErrorCode::invalid_argument,
                text("the blob has ", blob_bytes, " bytes; the rendezvous exchanges at most ", kMaxBlobBytes));
}

std::string encode(const Request& request) {
  return encoded(request);
}
std::string encode(const Reply& reply) {
  return encoded(reply);
}
Request decode_request(std::string_view body) {
  Reader in("rendezvous", body);
  Request request = read_request(in);
  in.finish();
  return request;
}
Reply decode_reply(std::string_view body) {
  Reader in("rendezvous", body);
  Reply reply = read_reply(in);
  in.finish();
  return reply;
}

}  // namespace anello::rendezvous
