// The handshake over loopback: between two coroutines, or between one coroutine and the test as the other side.
#include "ring/net/handshake.hpp"

#include <gmock/gmock.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <functional>
#include <thread>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::net {
namespace {

using asio::ip::tcp;
using testing::AllOf;
using testing::HasSubstr;

struct Result {
  ErrorCode code{};  // code of the thrown error; none if the handshake succeeded
  std::string message;
  Claim claim;
  std::optional<trace::RejectReason> reason;
  bool held() const { return code == ErrorCode{}; }
};

// Two connected sockets.
struct Pair {
  asio::io_context context;
  tcp::acceptor listener{context, {asio::ip::address_v4::loopback(), 0}};
  tcp::socket connecting{context}, accepting{context};
  Pair() {
    connecting.connect(listener.local_endpoint());
    listener.accept(accepting);
  }
};

std::optional<Rejection> nothing_wrong(const Claim&) {
  return {};
}

// Starts one side; its result is complete when the context has no more work.
void start(asio::io_context& context, asio::awaitable<void> side, tcp::socket& socket, Result& result) {
  asio::co_spawn(context, std::move(side), [&socket, &result](const std::exception_ptr& thrown) {
    asio::error_code ignored;
    socket.close(ignored);
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const HandshakeError& error) {
      result = {error.code(), error.what(), {}, error.reason()};
    } catch (const Error& error) {
      result = {error.code(), error.what(), {}, {}};
    }
  });
}
asio::awaitable<void> accept_side(tcp::socket& socket, const Credentials& credentials, Check acceptable,
                                  Result& result) {
  result.claim = co_await accept_handshake(socket, credentials, acceptable);
}

struct Both {
  Result greeted, welcomed;
};
Both shake(const Credentials& connecting, const Credentials& accepting, const Claim& claim = {},
           const Check& acceptable = nothing_wrong) {
  Pair pair;
  Both both;
  start(pair.context, connect_handshake(pair.connecting, connecting, claim), pair.connecting, both.greeted);
  start(pair.context, accept_side(pair.accepting, accepting, acceptable, both.welcomed), pair.accepting, both.welcomed);
  pair.context.run();
  return both;
}

// A function that acts as the other side with blocking calls.
using Player = std::function<void(tcp::socket&)>;
Result welcome_against(const Credentials& credentials, const Player& player) {
  Pair pair;
  Result result;
  start(pair.context, accept_side(pair.accepting, credentials, nothing_wrong, result), pair.accepting, result);
  std::thread other([&] { player(pair.connecting); });
  pair.context.run();
  other.join();
  return result;
}
Result greet_against(const Credentials& credentials, const Player& player) {
  Pair pair;
  Result result;
  start(pair.context, connect_handshake(pair.connecting, credentials, {}), pair.connecting, result);
  std::thread other([&] { player(pair.accepting); });
  pair.context.run();
  other.join();
  return result;
}

constexpr std::size_t kHeader = 9;
std::string frame(unsigned kind, std::string_view body, unsigned version = kProtocolVersion) {
  Writer out;
  out.raw("ANLO").u16(std::uint16_t(version)).u8(std::uint8_t(kind)).u16(std::uint16_t(body.size())).raw(body);
  return out.bytes();
}
std::string hello_frame(std::string_view job = "job", unsigned role = 1, int from = -1, bool secret = false) {
  Writer body;
  body.u8(std::uint8_t(role))
      .u32(0)
      .i32(from)
      .i32(-1)
      .u32(0)
      .u64(0)
      .u64(0)
      .u8(secret)
      .raw(std::string(32, 'n'))
      .str(job);
  return frame(1, body.bytes());
}
bool say(tcp::socket& socket, std::string_view bytes) {
  asio::error_code failure;
  asio::write(socket, asio::buffer(bytes), failure);
  return !failure;
}
// Reads to the end of a frame.
std::string hear_frame(tcp::socket& socket) {
  std::string bytes(kHeader, '\0');
  asio::error_code failure;
  asio::read(socket, asio::buffer(bytes), failure);
  const auto body = static_cast<unsigned char>(bytes[7]) + 256u * static_cast<unsigned char>(bytes[8]);
  bytes.resize(kHeader + body);
  asio::read(socket, asio::buffer(bytes.data() + kHeader, body), failure);
  return bytes;
}
std::string hear_all(tcp::socket& socket) {
  std::string bytes;
  asio::error_code failure;
  asio::read(socket, asio::dynamic_buffer(bytes), failure);
  return bytes;
}

const Credentials kOpen{"job", ""}, kSecret{"job", "open sesame"};

TEST(Handshake, HoldsAndCarriesTheClaim) {
  for (const Credentials& credentials : {kOpen, kSecret}) {
    const Both both = shake(credentials, credentials, {Role::data, 7, 3, 5, 2, 11});
    EXPECT_EQ(both.greeted.message + both.welcomed.message, "");
    EXPECT_EQ(both.welcomed.claim.role, Role::data);
    EXPECT_EQ(both.welcomed.claim.generation, 7u);
    EXPECT_EQ(both.welcomed.claim.from, 3);
    EXPECT_EQ(both.welcomed.claim.to, 5);
    EXPECT_EQ(both.welcomed.claim.lane, 2u);
    EXPECT_EQ(both.welcomed.claim.group, 11u);
  }
}

TEST(Handshake, RefusesWhoDoesNotKnowTheSecretAndTellsBoth) {
  bool asked = false;
  const auto acceptable = [&](const Claim&) { return asked = true, std::optional<Rejection>(); };
  const Both both = shake({"job", "open barley"}, kSecret, {}, acceptable);
  EXPECT_EQ(both.welcomed.code, ErrorCode::unauthorized);
  EXPECT_EQ(both.welcomed.reason, trace::RejectReason::secret);
  EXPECT_EQ(both.greeted.code, ErrorCode::unauthorized);
  EXPECT_THAT(both.greeted.message, AllOf(HasSubstr("handshake with 127.0.0.1:"), HasSubstr("the secrets of the two")));
  EXPECT_THAT(both.greeted.message, Not(HasSubstr("barley")));
  EXPECT_FALSE(asked);
}

TEST(Handshake, RefusesASecretOnOneSideOnly) {
  const Both with = shake(kSecret, kOpen), without = shake(kOpen, kSecret);
  EXPECT_EQ(with.greeted.code, ErrorCode::unauthorized);
  EXPECT_THAT(with.greeted.message, HasSubstr("no secret is set on the accepting side"));
  EXPECT_EQ(without.greeted.code, ErrorCode::unauthorized);
  EXPECT_EQ(with.welcomed.reason, trace::RejectReason::secret);
  EXPECT_EQ(without.welcomed.reason, trace::RejectReason::secret);
  EXPECT_THAT(without.greeted.message, HasSubstr("the job has a secret; see ANELLO_SECRET_FILE"));
}

TEST(Handshake, RefusesAnotherJob) {
  const Both both = shake({"theirs\n", "open sesame"}, kSecret);
  EXPECT_EQ(both.welcomed.code, ErrorCode::unauthorized);
  EXPECT_EQ(both.welcomed.reason, trace::RejectReason::job);
  EXPECT_THAT(both.greeted.message, HasSubstr("this is not job 'theirs?'"));
  EXPECT_EQ(shake({std::string(256, 'j'), ""}, kOpen).greeted.code, ErrorCode::configuration);
  EXPECT_TRUE(shake({std::string(255, 'j'), ""}, {std::string(255, 'j'), ""}).greeted.held());
}

TEST(Handshake, TheRefusalOfAClaimReachesTheConnectingSide) {
  const auto full = [](const Claim&) { return Rejection{trace::RejectReason::generation, "rank 3 is already here"}; };
  const Both both = shake(kSecret, kSecret, {Role::control, 1, 3, 0}, full);
  EXPECT_THAT(both.greeted.message, HasSubstr("refused: rank 3 is already here"));
  EXPECT_THAT(both.welcomed.message, HasSubstr("rank 3 is already here"));
  EXPECT_EQ(both.welcomed.reason, trace::RejectReason::generation);
}

// During the handshake, the connection is closed to make room for others. The handshake must not count as complete.
TEST(Handshake, AConnectionThatIsClosedMeanwhileIsCrowdedOut) {
  Pair pair;
  Result result, other;
  const auto close_it = [&](const Claim&) {
    pair.accepting.close();
    return std::nullopt;
  };
  start(pair.context, connect_handshake(pair.connecting, kSecret, {}), pair.connecting, other);
  start(pair.context, accept_side(pair.accepting, kSecret, close_it, result), pair.accepting, result);
  pair.context.run();
  EXPECT_EQ(result.reason, trace::RejectReason::crowded_out);
  EXPECT_EQ(result.code, ErrorCode::network);
  EXPECT_FALSE(other.held());
}

TEST(Handshake, AnUnknownVersionIsRefusedByNameOnBothSides) {
  constexpr unsigned kNext = kProtocolVersion + 1;
  const auto refusal = AllOf(HasSubstr(text("version ", kNext, " is not supported here")),
                             HasSubstr(text("only version ", kProtocolVersion)));
  std::string answer;
  const Result welcomed = welcome_against(kOpen, [&](tcp::socket& socket) {
    say(socket, frame(1, "a hello of the future", kNext));
    answer = hear_all(socket);
  });
  EXPECT_EQ(welcomed.code, ErrorCode::protocol);
  EXPECT_EQ(welcomed.reason, trace::RejectReason::version);
  EXPECT_THAT(welcomed.message, refusal);
  EXPECT_THAT(answer, refusal);

  const Result greeted = greet_against(kOpen, [&](tcp::socket& socket) {
    hear_frame(socket);
    say(socket, frame(5, "version 1 is not supported here\x1b[31m", kNext));
  });
  EXPECT_EQ(greeted.code, ErrorCode::protocol);
  EXPECT_THAT(greeted.message, HasSubstr("refused: version 1 is not supported here?[31m"));
}

// Recorded bytes, of either direction, are refused the second time.
TEST(Handshake, ARecordedConversationIsOfNoUse) {
  std::string hello, challenge, proof, accepted;
  Pair front, back;
  Result greeted, welcomed;
  start(front.context, connect_handshake(front.connecting, kSecret, {}), front.connecting, greeted);
  start(back.context, accept_side(back.accepting, kSecret, nothing_wrong, welcomed), back.accepting, welcomed);
  std::thread greeting([&] { front.context.run(); }), welcoming([&] { back.context.run(); });
  say(back.connecting, hello = hear_frame(front.accepting));
  say(front.accepting, challenge = hear_frame(back.connecting));
  say(back.connecting, proof = hear_frame(front.accepting));
  say(front.accepting, accepted = hear_frame(back.connecting));
  greeting.join();
  welcoming.join();
  ASSERT_TRUE(greeted.held() && welcomed.held());

  const Result again = welcome_against(kSecret, [&](tcp::socket& socket) {
    say(socket, hello);
    EXPECT_NE(hear_frame(socket), challenge);
    say(socket, proof);
    EXPECT_THAT(hear_all(socket), HasSubstr("the secrets of the two sides differ"));
  });
  EXPECT_EQ(again.code, ErrorCode::unauthorized);
  EXPECT_EQ(again.reason, trace::RejectReason::secret);
  const auto answer_with = [&](bool reflect) {
    return greet_against(kSecret, [&, reflect](tcp::socket& socket) {
      hear_frame(socket);
      say(socket, challenge);
      const std::string theirs = hear_frame(socket);
      say(socket, reflect ? frame(4, theirs.substr(kHeader)) : accepted);
    });
  };
  EXPECT_THAT(answer_with(false).message, HasSubstr("the accepting side could not prove that it has the job's secret"));
  EXPECT_THAT(answer_with(true).message, HasSubstr("the accepting side could not prove that it has the job's secret"));
}

// A change of any field on the way makes the proof fail.
TEST(Handshake, TheProofIsBoundToEveryField) {
  const std::size_t fields[] = {kHeader + 0,  kHeader + 1,  kHeader + 5, kHeader + 9,
                                kHeader + 13, kHeader + 18, kHeader + 54};
  for (const std::size_t at : fields) {
    Pair front;
    Result greeted;
    start(front.context, connect_handshake(front.connecting, kSecret, {Role::data, 1, 2, 4}), front.connecting,
          greeted);
    std::thread greeting([&] { front.context.run(); });
    const Result welcomed = welcome_against(kSecret, [&](tcp::socket& socket) {
      std::string hello = hear_frame(front.accepting);
      hello[at] = char(hello[at] ^ 1);
      say(socket, hello);
      say(front.accepting, hear_frame(socket));
      say(socket, hear_frame(front.accepting));
      say(front.accepting, hear_frame(socket));
    });
    greeting.join();
    EXPECT_EQ(welcomed.code, ErrorCode::unauthorized) << "byte " << at;
    EXPECT_EQ(greeted.code, ErrorCode::unauthorized) << "byte " << at;
  }
}

TEST(Handshake, StrangersAreDroppedWithoutAnAnswer) {
  for (const std::string& bytes : {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(100, '\0')}) {
    std::string answer;
    const Result result = welcome_against(kSecret, [&](tcp::socket& socket) {
      say(socket, bytes);
      answer = hear_all(socket);
    });
    EXPECT_EQ(result.code, ErrorCode::protocol);
    EXPECT_EQ(result.reason, trace::RejectReason::noise);
    EXPECT_EQ(answer, "");
  }
}

TEST(Handshake, MalformedMessagesAreProtocolErrors) {
  const auto hears = [](const std::string& bytes) {
    return welcome_against(kOpen, [&](tcp::socket& socket) {
      say(socket, bytes);
      hear_all(socket);
    });
  };
  const std::string large = std::string("ANLO\1\0\1", 7) + "\xff\xff";
  EXPECT_THAT(hears(large).message, HasSubstr("claims 65535 bytes where 1024 are allowed"));
  EXPECT_EQ(hears(large).reason, trace::RejectReason::oversized);
  EXPECT_EQ(hears(frame(3, "")).reason, trace::RejectReason::noise);
  EXPECT_EQ(hears(hello_frame("job", 0)).reason, trace::RejectReason::noise);
  EXPECT_THAT(hears(frame(3, "")).message, HasSubstr("unexpected message of kind 3"));
  EXPECT_THAT(hears(frame(200, "")).message, HasSubstr("unexpected message of kind 200"));
  EXPECT_THAT(hears(hello_frame("job", 0)).message, HasSubstr("no role 0"));
  EXPECT_THAT(hears(hello_frame("job", 7)).message, HasSubstr("no role 7"));
  EXPECT_THAT(hears(hello_frame("job", 1, -2)).message, HasSubstr("no rank -2"));
  EXPECT_THAT(hears(hello_frame(std::string(256, 'j'))).message, HasSubstr("claims 256 bytes where 255 are allowed"));
  EXPECT_THAT(hears(frame(1, hello_frame().substr(kHeader) + "x")).message, HasSubstr("1 bytes too many"));
  EXPECT_EQ(hears(hello_frame() + frame(3, std::string(32, 'p'))).code, ErrorCode::unauthorized);
  EXPECT_TRUE(hears(hello_frame() + frame(3, "")).held());
  EXPECT_THAT(greet_against(kOpen, [](tcp::socket& socket) { say(socket, frame(2, "short")); }).message,
              HasSubstr("a nonce of 5 bytes"));
}

TEST(Handshake, EveryTruncationIsAnError) {
  const std::string whole = hello_frame() + frame(3, "");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes++) {
    const Result result = welcome_against(kOpen, [&](tcp::socket& socket) {
      say(socket, whole.substr(0, bytes));
      socket.shutdown(tcp::socket::shutdown_send);
      hear_all(socket);
    });
    EXPECT_EQ(result.reason, trace::RejectReason::gone);
    EXPECT_EQ(result.code, ErrorCode::network) << bytes << " bytes: " << result.message;
  }
  // A hello with a right length field that is shorter than a hello must be.
  const std::string body = hello_frame().substr(kHeader);
  for (std::size_t bytes = 0; bytes < body.size(); bytes++) {
    const Result result = welcome_against(kOpen, [&](tcp::socket& socket) {
      say(socket, frame(1, body.substr(0, bytes)));
      hear_all(socket);
    });
    EXPECT_EQ(result.code, ErrorCode::protocol) << bytes << " bytes: " << result.message;
  }
}

TEST(Handshake, ASlowSenderIsDroppedAtTheLimit) {
  const auto started = std::chrono::steady_clock::now();
  const Result result = welcome_against(kOpen, [&](tcp::socket& socket) {
    for (const char c : hello_frame()) {
      if (!say(socket, std::string_view(&c, 1))) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    hear_all(socket);
  });
  EXPECT_EQ(result.code, ErrorCode::timed_out);
  EXPECT_EQ(result.reason, trace::RejectReason::silent);
  EXPECT_THAT(result.message, HasSubstr("not complete within 2000 ms"));
  EXPECT_GE(std::chrono::steady_clock::now() - started, kHandshakeLimit);
}

// The connecting side may give up, and connect again, just when the other side accepts it.
TEST(Handshake, BetweenRanksTheConnectingSideDecidesWhetherItHolds) {
  for (const bool takes : {true, false}) {
    const Result result = welcome_against(kOpen, [&](tcp::socket& socket) {
      say(socket, hello_frame("job", unsigned(Role::data), 3));
      hear_frame(socket);
      say(socket, frame(3, ""));
      hear_frame(socket);  // accepted
      if (takes) say(socket, frame(6, ""));
      socket.close();
    });
    EXPECT_EQ(result.held(), takes) << result.message;
    if (!takes) {
      EXPECT_EQ(result.reason, trace::RejectReason::gone) << result.message;
    }
  }
}

// The context may be destroyed while both sides wait.
TEST(Handshake, MayBeAbandoned) {
  Pair pair;
  Result result;
  start(pair.context, accept_side(pair.accepting, kOpen, nothing_wrong, result), pair.accepting, result);
  pair.context.poll();
  EXPECT_TRUE(result.held());
}

}  // namespace
}  // namespace anello::net
