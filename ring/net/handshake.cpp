#include "ring/net/handshake.hpp"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/hmac.hpp"

namespace anello::net {
namespace {

using asio::ip::tcp;

enum class HandshakeStep : std::uint8_t { hello = 1, challenge, proof, accepted, refused, taken };

// A frame: magic, version (u16), kind (u8), length of the body (u16), body.
constexpr std::string_view kMagic = "ANLO";
constexpr std::size_t kHeaderBytes = 9;
constexpr std::size_t kMaxBodyBytes = 1024;  // a side receives at most three frames, so the limit of 4 KiB is kept
constexpr std::size_t kMaxReasonBytes = 1000;

std::string versions(unsigned theirs) {
  return text("protocol version ", theirs, " is not supported here, only version ", kProtocolVersion,
              "; use the same release of anello on all hosts");
}

struct Hello {
  Claim claim;
  bool secret = false;  // true if the connecting side has a secret
  std::string job, nonce;
};

std::string encode(const Hello& hello) {
  Writer out;
  out.u8(std::uint8_t(hello.claim.role)).u32(hello.claim.generation).i32(hello.claim.from).i32(hello.claim.to);
  out.u32(hello.claim.lane);
  out.u64(hello.claim.group).u64(hello.claim.incarnation);
  out.u8(hello.secret).raw(hello.nonce).str(hello.job);
  return std::move(out).take();
}

Hello decode_hello(std::string_view bytes) {
  Reader reader("hello", bytes);
  Hello hello;
  const unsigned role = reader.u8();
  hello.claim.role = Role(role);
  hello.claim.generation = reader.u32();
  hello.claim.from = reader.i32();
  hello.claim.to = reader.i32();
  hello.claim.lane = reader.u32();
  hello.claim.group = reader.u64();
  hello.claim.incarnation = reader.u64();
  hello.secret = reader.u8() != 0;
  hello.nonce = reader.raw(kNonceBytes);
  hello.job = reader.str(kMaxJobBytes);
  reader.finish();
  if (role < unsigned(Role::rendezvous) || role > unsigned(Role::agent))
    throw Error(ErrorCode::protocol, text("hello message: no role ", role));
  if (hello.claim.from < -1 || hello.claim.to < -1)
    throw Error(ErrorCode::protocol, text("hello message: no rank ", std::min(hello.claim.from, hello.claim.to)));
  return hello;
}

// Sends and receives frames under one deadline. Its errors name the other end.
class HandshakeStream {
 public:
  HandshakeStream(tcp::socket& socket, std::chrono::milliseconds limit)
      : socket_(socket), limit_(limit), deadline_(std::in_place, socket, limit) {
    asio::error_code ignored;
    with_ = text("handshake with ", socket.remote_endpoint(ignored));
  }

  HandshakeError error(trace::RejectReason reason, const std::string& message) const {
    return {reason, text(with_, ": ", message)};
  }

  asio::awaitable<void> send(HandshakeStep kind, std::string_view body) {
    Writer frame;
    frame.raw(kMagic).u16(kProtocolVersion).u8(std::uint8_t(kind)).u16(std::uint16_t(body.size())).raw(body);
    asio::error_code failure;
    co_await asio::async_write(socket_, asio::buffer(frame.bytes()),
                               asio::redirect_error(asio::use_awaitable, failure));
    throw_if(failure);
  }

  // Returns the body of the next frame, which must be of this kind.
  asio::awaitable<std::string> receive(HandshakeStep expected) {
    std::string header(kHeaderBytes, '\0');
    co_await fill(header);
    Reader reader("handshake", header);
    if (reader.raw(kMagic.size()) != kMagic)
      throw error(trace::RejectReason::noise, "the other side does not use this protocol");
    const unsigned version = reader.u16();
    const HandshakeStep kind{reader.u8()};
    const std::size_t bytes = reader.u16();
    if (bytes > kMaxBodyBytes)
      throw error(trace::RejectReason::oversized,
                  text("claims ", bytes, " bytes where ", kMaxBodyBytes, " are allowed"));
    std::string body(bytes, '\0');
    co_await fill(body);
    if (kind == HandshakeStep::refused)
      throw error(version == kProtocolVersion ? trace::RejectReason::place : trace::RejectReason::version,
                  "refused: " + printable(body));
    if (version != kProtocolVersion) {
      // This Rejection is not a temporary, because g++ 12 would destroy a temporary twice here.
      const Rejection rejection{trace::RejectReason::version, versions(version)};
      co_await refuse(rejection);
    }
    if (kind != expected) throw error(trace::RejectReason::noise, text("unexpected message of kind ", int(kind)));
    co_return body;
  }

  asio::awaitable<void> refuse(const Rejection& rejection) {
    co_await send(HandshakeStep::refused, std::string_view(rejection.why).substr(0, kMaxReasonBytes));
    throw error(rejection.kind, rejection.why);
  }

  Hello decoded(std::string_view hello) const {
    try {
      return decode_hello(hello);
    } catch (const Error& malformed) {
      throw error(trace::RejectReason::noise, malformed.what());
    }
  }

  void extend_deadline(std::chrono::milliseconds limit) {
    end_deadline();
    deadline_.emplace(socket_, limit_ = limit);
  }
  // Call when both sides have authenticated. From then on there is no time limit.
  void end_deadline() {
    throw_if_closed();
    deadline_.reset();
  }

  // Call this also after the last operation, because it may have succeeded just before the socket was closed.
  void throw_if_closed() const {
    if (deadline_ && deadline_->passed())
      throw error(trace::RejectReason::silent, text("not complete within ", limit_.count(), " ms"));
    if (!socket_.is_open())
      throw error(trace::RejectReason::crowded_out, "too many unauthenticated connections came after it");
  }

 private:
  asio::awaitable<void> fill(std::string& bytes) {
    asio::error_code failure;
    co_await asio::async_read(socket_, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, failure));
    throw_if(failure);
  }
  void throw_if(asio::error_code failure) const {
    throw_if_closed();
    if (failure == asio::error::eof) throw error(trace::RejectReason::gone, "the other side closed the connection");
    if (failure) throw error(trace::RejectReason::gone, failure.message());
  }

  tcp::socket& socket_;
  std::chrono::milliseconds limit_;
  std::optional<Deadline> deadline_;
  std::string with_;
};

// Returns the proof, or an empty text if there is no secret. The labels of the two sides differ, so that a side cannot
// send the other side's proof back.
std::string proof(std::string_view side, const std::string& secret, const Hello& hello, std::string_view nonce) {
  if (secret.empty()) return {};
  Writer statement;
  statement.str(text("anello ", side)).u16(kProtocolVersion).str(encode(hello)).raw(nonce);
  return hmac_sha256(secret, statement.bytes());
}
constexpr std::string_view kConnecting = "connecting", kAccepting = "accepting";

bool between_ranks(Role role) {
  return role == Role::data || role == Role::control;
}

// Returns the reason if this hello must be refused before any proof.
std::optional<Rejection> rejection(const Hello& hello, const Credentials& credentials) {
  if (hello.job != credentials.job)
    return Rejection{trace::RejectReason::job, text("this is not job '", printable(hello.job), "'; see ANELLO_JOB")};
  if (credentials.secret.empty() && hello.secret)
    return Rejection{trace::RejectReason::secret, "no secret is set on the accepting side; see ANELLO_SECRET_FILE"};
  if (!credentials.secret.empty() && !hello.secret)
    return Rejection{trace::RejectReason::secret, "the job has a secret; see ANELLO_SECRET_FILE"};
  return {};
}

ErrorCode code_of(trace::RejectReason reason) {
  switch (reason) {
    case trace::RejectReason::noise:
    case trace::RejectReason::oversized:
    case trace::RejectReason::version:
      return ErrorCode::protocol;
    case trace::RejectReason::silent:
      return ErrorCode::timed_out;
    case trace::RejectReason::gone:
    case trace::RejectReason::crowded_out:
      return ErrorCode::network;
    case trace::RejectReason::job:
    case trace::RejectReason::secret:
    case trace::RejectReason::generation:
    case trace::RejectReason::place:
      break;
  }
  return ErrorCode::unauthorized;
}

}  // namespace

HandshakeError::HandshakeError(trace::RejectReason reason, const std::string& message)
    : Error(code_of(reason), message), reason_(reason) {}

void require_usable(const Credentials& credentials) {
  require_authentication(credentials.secret);
  if (credentials.job.size() > kMaxJobBytes)
    throw Error(ErrorCode::configuration, text("ANELLO_JOB is longer than ", kMaxJobBytes, " bytes"));
}

asio::awaitable<void> connect_handshake(tcp::socket& socket, const Credentials& credentials, Claim claim,
                                        std::chrono::milliseconds limit) {
  require_usable(credentials);
  HandshakeStream talk(socket, limit);
  const Hello hello{claim, !credentials.secret.empty(), credentials.job, random_bytes(kNonceBytes)};
  co_await talk.send(HandshakeStep::hello, encode(hello));
  const std::string nonce = co_await talk.receive(HandshakeStep::challenge);
  if (nonce.size() != kNonceBytes)
    throw talk.error(trace::RejectReason::noise, text("a nonce of ", nonce.size(), " bytes"));
  co_await talk.send(HandshakeStep::proof, proof(kConnecting, credentials.secret, hello, nonce));
  const std::string theirs = co_await talk.receive(HandshakeStep::accepted);
  if (!same_bytes(theirs, proof(kAccepting, credentials.secret, hello, nonce)))
    throw talk.error(trace::RejectReason::secret, "the accepting side could not prove that it has the job's secret");
  talk.end_deadline();
  if (between_ranks(claim.role)) co_await talk.send(HandshakeStep::taken, {});
}

asio::awaitable<Claim> accept_handshake(tcp::socket& socket, const Credentials& credentials, Check acceptable) {
  require_usable(credentials);
  HandshakeStream talk(socket, kHandshakeLimit);
  const std::string first = co_await talk.receive(HandshakeStep::hello);
  const Hello hello = talk.decoded(first);
  if (const auto why = rejection(hello, credentials)) co_await talk.refuse(*why);
  talk.extend_deadline(kConnectHandshakeLimit);
  const std::string nonce = random_bytes(kNonceBytes);
  co_await talk.send(HandshakeStep::challenge, nonce);
  const std::string theirs = co_await talk.receive(HandshakeStep::proof);
  const Rejection unproved{trace::RejectReason::secret, "the secrets of the two sides differ"};
  if (!same_bytes(theirs, proof(kConnecting, credentials.secret, hello, nonce))) co_await talk.refuse(unproved);
  if (const auto why = acceptable(hello.claim)) co_await talk.refuse(*why);
  talk.end_deadline();  // from here on there is no time limit
  co_await talk.send(HandshakeStep::accepted, proof(kAccepting, credentials.secret, hello, nonce));
  if (between_ranks(hello.claim.role)) co_await talk.receive(HandshakeStep::taken);
  co_return hello.claim;
}

}  // namespace anello::net
