// An agent among hostile connections, which fill the launcher's queue so that some of the agent's connections fail.
#include "rendezvous/launch/agents/agent_listener.hpp"

#include <gmock/gmock.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <future>

#include "rendezvous/launch/agents/agent_connection.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/handshake.hpp"
#include "tests/support/process.hpp"

namespace anello::launch {
namespace {

using asio::ip::tcp;
using ::testing::ElementsAre;

// Runs a launcher that closes every second connection. Returns the lanes of the other connections, in order.
std::vector<std::uint32_t> lanes_at_a_busy_launcher(tcp::acceptor& acceptor, const net::Credentials& credentials) {
  std::vector<std::uint32_t> lanes;
  std::vector<tcp::socket> accepted;
  bool drop = true;
  asio::io_context& context = static_cast<asio::io_context&>(acceptor.get_executor().context());
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        while (lanes.size() < 2) {
          tcp::socket& socket = accepted.emplace_back(co_await acceptor.async_accept(asio::use_awaitable));
          if (drop) {
            socket.close();
          } else {
            const auto any = [](const net::Claim&) { return std::nullopt; };
            const net::Claim claim = co_await accept_handshake(socket, credentials, any);
            lanes.push_back(claim.lane);
          }
          drop = !drop;
        }
      },
      [](std::exception_ptr error) {
        if (error) std::rethrow_exception(error);
      });
  context.run_for(testing::kLong);  // an agent that has given up does not try again
  return lanes;
}

TEST(AgentConnection, KeepsALaneWhenTheNextOneFailsAtFirst) {
  AgentTask task;
  task.job.name = "job";
  task.job.secret = net::make_secret();
  if (task.job.secret.empty()) GTEST_SKIP() << "built without OpenSSL";
  const net::Credentials credentials{task.job.name, task.job.secret};
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  task.port = acceptor.local_endpoint().port();
  task.addresses = {"127.0.0.1"};
  auto agent = std::async(std::launch::async, [&] { return connect_to_launcher(task, 0); });
  EXPECT_THAT(lanes_at_a_busy_launcher(acceptor, credentials), ElementsAre(kMessageLane, kLifelineLane));
  EXPECT_NO_THROW(agent.get());
}

}  // namespace
}  // namespace anello::launch
