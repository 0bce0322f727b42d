// Ranks that leave, and what the others receive about it, over real sockets.
#include <gmock/gmock.h>

#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <future>
#include <optional>

#include "ring/base/wire.hpp"
#include "ring/control/control_plane.hpp"
#include "tests/support/control_planes.hpp"
#include "tests/support/signatures.hpp"

namespace anello::control {
namespace {

// Runs `call` on a rank's thread; blocks.
template <class Call>
void carry_out(Plane& plane, Call call) {
  std::promise<void> done;
  asio::post(plane.background.context(), [&] {
    call();
    done.set_value();
  });
  done.get_future().wait();
}

// Ranks 0 and 3 of 6 have no connection with each other at the start. The time that they need to connect depends on the
// machine, so the test tries several times.
TEST(ControlPlaneLeaving, RanksThatRemainWhenAllBetweenThemHaveLeftNameTheOneThatDies) {
  for (const milliseconds rest : {milliseconds(300), milliseconds(3000), milliseconds(10000)}) {
    ControlPlanes world(6);
    world.connect();
    for (const int rank : {1, 2, 4, 5}) {
      world[rank].leave(3);
      world.kill(rank);
    }
    std::this_thread::sleep_for(rest);
    EXPECT_FALSE(world.any_failed());
    world.kill(3);
    const Error error = world[0].error();
    if (!world[0].failed() && rest < milliseconds(10000)) continue;
    EXPECT_EQ(error.code(), ErrorCode::rank_dead) << error.what();
    EXPECT_EQ(error.rank(), 3) << error.what();
    return;
  }
}

// Rank 3 is not a neighbour of rank 0, and does not answer its ping. The ping's limit passes while rank 0 waits until
// rank 1 reads its goodbye.
TEST(ControlPlaneLeaving, ARankLeavesWhileItPingsOneThatIsSilent) {
  ControlPlanes world(6, 0, milliseconds(500));
  world.connect();
  for (const int busy : {1, 3})
    asio::post(world.plane(busy).background.context(), [] { std::this_thread::sleep_for(milliseconds(3000)); });
  world[0].ping(3);
  world[0].leave(3);
}

// Ranks 0 and 3, which remain when all others have left, are not connected yet.
TEST(ControlPlaneLeaving, ADeathThatNoConnectionShowsIsFoundByAPing) {
  ControlPlanes world(6);
  world.connect();
  for (const int rank : {1, 2, 4, 5}) {
    world[rank].leave(3);
    world.kill(rank);
  }
  world.kill(3);
  world[0].ping(3);
  const Error error = world[0].error();
  EXPECT_EQ(error.code(), ErrorCode::rank_dead) << error.what();
  EXPECT_EQ(error.rank(), 3) << error.what();
}

// Rank 3 has connected with rank 0 and has not sent anything yet, so the end of that connection does not count as a
// death.
TEST(ControlPlaneLeaving, ADeathOfARankThatHasJustConnectedIsFoundByAPing) {
  ControlPlanes world(6);
  world.connect();
  auto connection = std::make_optional(world.plane(3).dial(0));
  for (const int rank : {1, 2, 4, 5}) {
    world[rank].leave(3);
    world.kill(rank);
  }
  world[0].ping(3);
  carry_out(world.plane(0), [] {});  // after the ping
  carry_out(world.plane(3), [&] { world.plane(3).peer_connections.close(); });
  connection.reset();
  world.kill(3);
  const Error error = world[0].error();
  EXPECT_EQ(error.code(), ErrorCode::rank_dead) << error.what();
  EXPECT_EQ(error.rank(), 3) << error.what();
}

TEST(ControlPlaneLeaving, AnOperationAfterTheEndOfADepartedRankFails) {
  ControlPlanes world(4);
  world.connect();
  world[2].leave(5);
  world.kill(2);
  world.begin(0, operation(4, 100));
  world.plane(0).recorder->end(0, 0, 0);
  world.begin(0, operation(5, 100));
  expect_errors(world, ErrorCode::rank_left, 2, "rank 2 on host2 left the world after 5 operations");
}

// The operation of the other ranks is under way when the goodbye arrives.
TEST(ControlPlaneLeaving, AnOperationInProgressThatARankLeavesBeforeFails) {
  ControlPlanes world(4);
  world.connect();
  world.begin(3, operation(5, 100));
  world[2].leave(5);
  world.kill(2);
  expect_errors(world, ErrorCode::rank_left, 2, "but rank 3 calls allreduce #5 (sum of 100 f32)");
}

// Blocks the rank's background thread, as a busy host may do, for so long that the rank then waits for messages that it
// may have missed.
void keep_from_running(ControlPlanes& world, int rank) {
  asio::post(world.plane(rank).background.context(), [] { std::this_thread::sleep_for(milliseconds(1400)); });
}

void expect_the_reason_of_a_rank_that_leaves(ControlPlanes& world, int rank) {
  world[rank].abort({ErrorCode::aborted, rank, "enough"});
  world[rank].leave(5);
  world.kill(rank);
  expect_errors(world, ErrorCode::aborted, rank, "enough");
}

// Rank 0 decides.
TEST(ControlPlaneLeaving, ARankThatAbortsAndLeavesIsNotNamedForLeaving) {
  ControlPlanes world(3);
  world.connect();
  world.begin(0, operation(5, 100));
  keep_from_running(world, 0);
  expect_the_reason_of_a_rank_that_leaves(world, 1);
}

// Rank 2 leaves while its background thread is blocked, so it cannot send its reason before this thread runs again.
TEST(ControlPlaneLeaving, ARankWhoseBackgroundThreadDoesNotRunYetIsNamedWithItsReason) {
  ControlPlanes world(3);
  world.connect();
  keep_from_running(world, 2);
  expect_the_reason_of_a_rank_that_leaves(world, 2);
}

TEST(ControlPlaneLeaving, NothingWaitsForTheBackgroundThreadThatAFatalErrorEnds) {
  ControlPlanes world(2);
  world.connect();
  const auto began = std::chrono::steady_clock::now();
  carry_out(world.plane(1), [&] {
    world[1].abort({ErrorCode::aborted, 1, "enough"});
    world[1].leave(0);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(30000));
}

// The neighbours of a rank that leaves receive its reason when they run again, even if the rank is gone by then.
TEST(ControlPlaneLeaving, ARankWhoseNeighboursDoNotRunIsNamedWithItsReason) {
  ControlPlanes world(3);
  world.connect();
  for (const int rank : {0, 1}) keep_from_running(world, rank);
  expect_the_reason_of_a_rank_that_leaves(world, 2);
}

// Returns the next message on the connection that is not a heartbeat; nothing at its end.
std::string next_frame(net::PeerConnections::Socket& socket) {
  for (;;) {
    std::string bytes(sizeof(std::uint32_t), '\0');
    asio::error_code end;
    asio::read(socket, asio::buffer(bytes), end);
    if (end) return "";
    bytes.resize(Reader("message", bytes).u32());
    asio::read(socket, asio::buffer(bytes));
    if (bytes.front() == char(net::MessageKind::frame)) return bytes.substr(1);
  }
}

// The test acts as ranks 1 and 2. Rank 2 considers the connection established before rank 0 does.
TEST(ControlPlaneLeaving, ARankThatConnectsWhenTheWorldHasFailedIsSentTheReason) {
  ControlPlanes world(3, 2);
  const net::PeerConnections::Socket first = world.plane(1).dial(0);
  world[0].abort({ErrorCode::aborted, 0, "enough"});
  world[0].leave(0);
  asio::io_context& context = world.plane(0).background.context();
  asio::ip::tcp::acceptor listener(context, {asio::ip::address_v4::loopback(), 0});
  net::PeerConnections::Socket late(context);
  late.connect(listener.local_endpoint());
  carry_out(world.plane(0), [&] { world[0].accepted(2, listener.accept(context)); });
  EXPECT_THAT(next_frame(late), testing::HasSubstr("enough"));
}

// The test acts as rank 2. Its goodbye arrives only at rank 0, which has already left.
TEST(ControlPlaneLeaving, ARankThatLeavesPassesOnTheGoodbyeOfOneThatLeavesAtTheSameTime) {
  ControlPlanes world(3, 1);
  std::vector<net::PeerConnections::Socket> sockets;
  for (const int peer : {0, 1}) sockets.push_back(world.plane(2).dial(peer));
  world.connect();
  auto leaving = std::async(std::launch::async, [&] { world[0].leave(9); });
  EXPECT_NE(next_frame(sockets[0]), "");
  using Message = failure::ControlMessage;
  const Message goodbye{.origin = 2, .number = 1, .type = Message::Type::goodbye, .completed = 5};
  asio::write(sockets[0], asio::buffer(net::message(net::MessageKind::frame, encode(goodbye))));
  while (!next_frame(sockets[0]).empty()) continue;
  sockets[0].close();
  leaving.get();
  world.kill(0);
  world.begin(1, operation(5, 100));
  expect_errors(world, ErrorCode::rank_left, 2, "rank 2 on host2 left the world after 5 operations");
}

}  // namespace
}  // namespace anello::control
