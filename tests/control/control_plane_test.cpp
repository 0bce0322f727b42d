// Control planes over real sockets: a rank that dies, leaves or sends invalid messages is named on all ranks.
#include "ring/control/control_plane.hpp"

#include <gmock/gmock.h>

#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "tests/support/control_planes.hpp"
#include "tests/support/signatures.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::control {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class InWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InWorldsOf, testing::Values(2, 3, 4, 5, 6, 7, 8, 9));

TEST_P(InWorldsOf, AllConnectAndLeaveInGoodOrder) {
  ControlPlanes world(GetParam());
  world.connect();
  EXPECT_FALSE(world.any_failed());
  for (int rank = 0; rank < world.size(); rank++) {
    const auto began = std::chrono::steady_clock::now();
    world[rank].leave(3);
    EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(50'000)) << "the others did not close";
    world.kill(rank);
    EXPECT_FALSE(world.any_failed()) << "a goodbye is not a death";
  }
}

// On a busy host, a rank's background thread may not run for a while.
TEST_P(InWorldsOf, ARankThatIsSlowToLeaveHasNotDied) {
  ControlPlanes world(GetParam());
  world.connect();
  asio::post(world.plane(0).background.context(), [] { std::this_thread::sleep_for(milliseconds(1500)); });
  world[0].leave(3);
  world.kill(0);
  world[1].leave(3);
  EXPECT_FALSE(world.any_failed());
}

TEST_P(InWorldsOf, AProposalReachesAll) {
  ControlPlanes world(GetParam());
  world.connect();
  const int last = world.size() - 1;
  world[last].propose({ErrorCode::aborted, last, "enough"});
  expect_errors(world, ErrorCode::aborted, last, "enough");
  for (int rank = 0; rank < world.size(); rank++) EXPECT_TRUE(world[rank].failed());
}

TEST_P(InWorldsOf, ADeathIsAnErrorOnAllRanks) {
  for (const int dead : {0, GetParam() / 2, GetParam() - 1}) {
    ControlPlanes world(GetParam());
    world.connect();
    world.kill(dead);
    expect_errors(world, ErrorCode::rank_dead, dead, text("rank ", dead, " on host", dead, " died"));
  }
}

TEST(ControlPlane, AVerdictRingsTheBell) {
  ControlPlanes world(2);
  world.connect();
  world[1].propose({ErrorCode::aborted, 1, "enough"});
  pollfd polled{world.plane(0).group->bell->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 10000), 1);
  EXPECT_TRUE(world[0].failed());
}

TEST(ControlPlane, RanksThatWaitInDifferentOperationsFail) {
  ControlPlanes world(4);
  world.connect();
  for (int rank = 0; rank < 4; rank++) {
    const Signature mine = operation(1, rank == 1 ? 7 : 8);
    world.begin(rank, mine);
    world[rank].waiting(mine);
  }
  for (const Error& error : world.errors()) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("rank 1 calls allreduce #1 (sum of 7 f32)"), HasSubstr("sum of 8 f32")));
  }
}

TEST(ControlPlane, ASuspicionBecomesADeathIfNoReasonArrives) {
  ControlPlanes world(4);
  world.connect();
  world[1].suspect(2, 0, "the connection was closed");
  expect_errors(world, ErrorCode::rank_dead, 2, "the connection was closed");
}

TEST(ControlPlane, RemembersItsLastOperations) {
  ControlPlanes world(2);
  world.connect();
  EXPECT_FALSE(world.plane(0).recorder->begun(0)) << "there was none yet";
  for (std::uint64_t sequence = 0; sequence < 5000; sequence++) world.begin(0, operation(sequence, 10 * sequence));
  EXPECT_EQ(world.plane(0).recorder->begun(4999), operation(4999, 49990));
  EXPECT_EQ(world.plane(0).recorder->begun(904), operation(904, 9040));
  EXPECT_FALSE(world.plane(0).recorder->begun(903)) << "long ago";
  EXPECT_FALSE(world.plane(0).recorder->begun(5000)) << "not yet";
}

TEST(ControlPlane, ARankThatDoesNotConnectIsNamed) {
  undisturbed(milliseconds(20), [&] {
    ControlPlanes world(4, 2);
    try {
      world.connect(milliseconds(200));
      FAIL() << "ranks 2 and 3 never connected";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::rendezvous);
      EXPECT_THAT(e.what(), HasSubstr("no connection with rank 2 on host2, rank 3 on host3"));
    }
  });
}

TEST(ControlPlane, ARankThatDoesNotListenIsAnError) {
  undisturbed(milliseconds(20), [&] {
    Plane alone(1, 2, milliseconds(60000));
    net::Endpoint gone{"127.0.0.1", 1, "host0"};
    alone.open({gone, alone.peer_connections.endpoint()});
    try {
      alone.control->connect(in(milliseconds(200)));
      FAIL() << "there is no rank 0";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::network);
      EXPECT_THAT(e.what(), HasSubstr("cannot connect to rank 0 on host0 at 127.0.0.1 port 1: "));
    }
  });
}

TEST(ControlPlane, AnInvalidAddressIsAnErrorAtOnce) {
  Plane alone(1, 2, milliseconds(60000));
  try {
    alone.open({{"not-an-address", 1, "host0"}, alone.peer_connections.endpoint()});
    FAIL() << "there is no rank 0";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::network);
    EXPECT_THAT(e.what(), HasSubstr("'not-an-address' on host0 is not an address here"));
  }
}

std::string control_message(const std::string& bytes) {
  return net::message(net::MessageKind::frame, bytes);
}

// The test acts as rank 3: it connects and sends these bytes.
void expect_named_for_sending(const std::string& bytes, bool then_closes) {
  ControlPlanes world(4, 1);
  std::vector<net::PeerConnections::Socket> sockets;
  for (const int peer : {0, 1, 2}) sockets.push_back(world.plane(3).dial(peer));
  world.connect();
  asio::write(sockets[1], asio::buffer(bytes));
  if (then_closes) sockets[1].close();
  for (const Error& error : world.errors()) {
    EXPECT_THAT(error.code(), AnyOf(ErrorCode::rank_dead, ErrorCode::protocol)) << error.what();
    EXPECT_EQ(error.code(), then_closes ? ErrorCode::rank_dead : ErrorCode::protocol) << error.what();
    EXPECT_EQ(error.rank(), 3) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("rank 3 on host3"));
  }
}

TEST(ControlPlane, InvalidMessagesNameTheirSender) {
  expect_named_for_sending("\xff\xff\xff\x7f and no end", false);
  expect_named_for_sending(control_message(""), false);
  expect_named_for_sending(std::string(4, '\0'), false);
  expect_named_for_sending(net::message(net::MessageKind::beat, "short"), false);
  expect_named_for_sending(net::message(net::MessageKind::beat, "too long for a beat"), false);
  expect_named_for_sending(net::message(net::MessageKind(3), ""), false);
  expect_named_for_sending(control_message(std::string(4096, '\1')), false);
  const std::string proposal =
      encode(failure::ControlMessage{.origin = 3, .number = 1, .verdict = {ErrorCode::aborted, 3, "enough"}});
  expect_named_for_sending(control_message(proposal + "x"), false);
  expect_named_for_sending(control_message(proposal).substr(0, 10), true);
  expect_named_for_sending("", true);
}

// Rank 3 is connected and sends nothing, but its kernel answers, as for a stopped process.
TEST(ControlPlane, ASilentRankIsNamedOnAllRanksWithinTheLimit) {
  undisturbed(milliseconds(50), [&] {
    constexpr milliseconds kLimit{400};
    ControlPlanes world(4, 1, kLimit);
    std::vector<net::PeerConnections::Socket> sockets;
    for (const int peer : {0, 1, 2}) sockets.push_back(world.plane(3).dial(peer));
    const auto began = std::chrono::steady_clock::now();
    world.connect();
    expect_errors(world, ErrorCode::rank_silent, 3, "rank 3 on host3 is silent: ");
    const auto took = std::chrono::steady_clock::now() - began;
    EXPECT_GE(took, kLimit / 2);
    EXPECT_LT(took, kLimit + milliseconds(2000));
  });
}

// Rank 0 stands still for longer than its limit while it waits for rank 1's answer over the second interface. Rank 1 is
// even slower, and then answers.
TEST(ControlPlane, ARankThatStoodStillGivesAnInterfaceAnotherLimit) {
  undisturbed(milliseconds(50), [&] {
    constexpr milliseconds kLimit{2000};
    Plane low(0, 2, kLimit, {"127.0.0.2"}), high(1, 2, milliseconds(8000), {"127.0.0.2"});
    const std::vector<net::Endpoint> both{low.peer_connections.endpoint(), high.peer_connections.endpoint()};
    low.open(both);
    high.open(both);
    auto connecting = std::async(std::launch::async, [&] { high.control->connect(in(milliseconds(20000))); });
    low.control->connect(in(milliseconds(20000)));
    connecting.get();
    const auto stand_still = [](Plane& plane, milliseconds time) {
      asio::post(plane.background.context(), [time] { std::this_thread::sleep_for(time); });
    };
    stand_still(high, kLimit + milliseconds(700));
    low.control->ping(1);
    std::this_thread::sleep_for(milliseconds(100));  // rank 0 is connected, and waits for the answer
    stand_still(low, kLimit + milliseconds(200));
    std::this_thread::sleep_for(kLimit + milliseconds(1500));
    EXPECT_FALSE(low.control->failed()) << low.control->error().what();
  });
}

// The ranks send only heartbeats.
TEST(ControlPlane, AnIdleRankIsNotSilent) {
  undisturbed(milliseconds(100), [&] {
    constexpr milliseconds kLimit{1000};
    ControlPlanes world(9, 0, kLimit);
    world.connect();
    std::this_thread::sleep_for(2 * kLimit);
    EXPECT_FALSE(world.any_failed());
  });
}

// While a world starts, a rank that ends may have given up because another rank died. The rendezvous determines which
// rank died first, and may need a moment.
TEST(ControlPlane, AStartThatFailsNamesItsCause) {
  undisturbed(milliseconds(100), [&] {
    ControlPlanes world(3, 1);  // rank 2 does not come
    const auto cause_is_known_later = [](milliseconds wait) {
      if (wait > milliseconds(0)) throw Error(ErrorCode::rendezvous, "rank 2 died", 2);
    };
    auto connecting =
        std::async(std::launch::async, [&] { world[1].connect(in(milliseconds(3000)), cause_is_known_later); });
    std::this_thread::sleep_for(milliseconds(200));
    world.kill(0);
    try {
      connecting.get();
      FAIL() << "nobody was missing";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::rendezvous) << e.what();
      EXPECT_EQ(e.rank(), 2);
    }
  });
}

// Sends the bytes to rank 0 as the launcher, which must present the job's credentials.
void send_as_launcher(ControlPlanes& world, const net::Claim& claim, const std::string& bytes) {
  const net::Endpoint endpoint = world.plane(0).peer_connections.endpoint();
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  socket.connect({asio::ip::make_address(endpoint.address), endpoint.port});
  const net::Credentials credentials{"control", ""};
  auto connected = asio::co_spawn(context, net::connect_handshake(socket, credentials, claim), asio::use_future);
  context.run();
  connected.get();
  asio::write(socket, asio::buffer(bytes));
  char nothing;
  asio::error_code end;
  asio::read(socket, asio::buffer(&nothing, 1), end);
  EXPECT_EQ(end, asio::error::eof) << "it has been read";
}

TEST(ControlPlane, TheLauncherEndsTheWorldAndItsInvalidMessagesDoNot) {
  ControlPlanes world(3);
  world.connect();
  const net::Claim launcher{net::Role::launcher, 1, -1, 0};
  net::Claim of_another_generation = launcher;
  of_another_generation.generation = 2;
  EXPECT_THROW(send_as_launcher(world, of_another_generation, ""), net::HandshakeError);
  const std::string goodbye = encode(failure::ControlMessage{.type = failure::ControlMessage::Type::goodbye});
  for (const std::string& bytes :
       {control_message("what?"), control_message(goodbye), net::message(net::MessageKind::beat, "12345678"),
        net::message(net::MessageKind(3), "")})
    send_as_launcher(world, launcher, bytes);
  EXPECT_FALSE(world.any_failed());
  send_as_launcher(
      world, launcher,
      control_message(encode(failure::ControlMessage{.verdict = {ErrorCode::aborted, 2, "rank 2 was a bad one"}})));
  expect_errors(world, ErrorCode::aborted, 2, "rank 2 was a bad one");
}

// A port scanner, a connection that closes early and a rank that may not connect here have no effect.
TEST(ControlPlane, RejectedConnectionsChangeNothing) {
  ControlPlanes world(3);
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> others;
  const net::Endpoint endpoint = world.plane(0).peer_connections.endpoint();
  for (const std::string& bytes : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(5000, '\0')}) {
    asio::ip::tcp::socket& other = others.emplace_back(context);
    other.connect({asio::ip::make_address(endpoint.address), endpoint.port});
    asio::error_code ignored;
    asio::write(other, asio::buffer(bytes), ignored);
  }
  others.front().close();
  EXPECT_THROW(world.plane(0).dial(1), Error) << "the lower rank does not connect to the higher";
  world.connect();
  const auto counted = [&](int rank, trace::RejectReason kind) {
    return world.plane(rank).rejected_connections.counts()[std::size_t(kind)];
  };
  EXPECT_EQ(counted(0, trace::RejectReason::gone), 1u);
  EXPECT_EQ(counted(0, trace::RejectReason::noise), 2u);
  EXPECT_EQ(counted(1, trace::RejectReason::place), 1u);
  world[0].propose({ErrorCode::aborted, 0, "enough"});
  expect_errors(world, ErrorCode::aborted, 0, "enough");
}

}  // namespace
}  // namespace anello::control
