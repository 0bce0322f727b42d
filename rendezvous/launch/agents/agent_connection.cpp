#include "rendezvous/launch/agents/agent_connection.hpp"

#include <algorithm>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <thread>

#include "rendezvous/launch/agents/agent_listener.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/context.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/sockets.hpp"

namespace anello::launch {

using asio::ip::tcp;

namespace {

// While connections of other programs fill the launcher's queue, the system drops new connections. After kConnectLimit,
// which is sooner than the system would, the agent tries again: it may then find a free place in the queue.
constexpr std::chrono::milliseconds kConnectLimit{500}, kPause{100};
// The limit for connecting each lane (agent_listener.hpp). It can be short: the launcher listens before it starts
// agents, so if an agent does not find it, the job is probably over.
constexpr std::chrono::milliseconds kLimit{4000};

// The most likely address of the launcher is the one from which ssh came. Behind a jump host it is a different address.
std::vector<std::string> addresses_to_try(const AgentTask& task) {
  std::vector<std::string> out = task.addresses;
  const auto ssh = task.by_ssh ? environment("SSH_CONNECTION") : std::nullopt;
  if (!ssh) return out;
  const std::string client = ssh->substr(0, ssh->find(' '));
  std::erase(out, client);
  out.insert(out.begin(), client);
  return out;
}

asio::awaitable<void> open_to_launcher(tcp::socket& socket, const tcp::endpoint& where,
                                       const net::Credentials& credentials, net::Claim claim) {
  asio::error_code failure;
  net::open_socket(socket, where.protocol(), failure);
  if (failure) throw Error(ErrorCode::network, failure.message());
  {
    const net::Deadline deadline(socket, kConnectLimit);
    co_await net::connect(socket, where, failure);
    if (deadline.passed()) throw Error(ErrorCode::timed_out, "no answer");
    if (failure) throw Error(ErrorCode::network, failure.message());
  }
  socket.set_option(tcp::no_delay(true), failure);
  co_await connect_handshake(socket, credentials, claim);
}

struct Lane {
  Descriptor socket;
  std::string own_address;
};

Lane connect_lane(const AgentTask& task, int number, const std::string& address, std::uint32_t lane) {
  asio::error_code failure;
  const auto numeric = asio::ip::make_address(address, failure);
  if (failure) throw Error(ErrorCode::network, failure.message());
  net::Context context;
  tcp::socket socket(context);
  std::exception_ptr thrown;
  net::Claim claim;
  claim.role = net::Role::agent;
  claim.from = number;
  claim.lane = lane;
  const net::Credentials credentials{task.job.name, task.job.secret};
  const tcp::endpoint where(numeric, task.port);  // outlives the coroutine, which keeps a reference to it
  asio::co_spawn(context, open_to_launcher(socket, where, credentials, claim),
                 [&thrown](std::exception_ptr error) { thrown = std::move(error); });
  context.run();
  if (thrown) std::rethrow_exception(thrown);
  const std::string own_address = socket.local_endpoint().address().to_string();
  return {Descriptor(socket.release()), own_address};
}

// Moves the address that answers to the front of `addresses`.
Lane find_launcher(const AgentTask& task, int number, std::vector<std::string>& addresses, std::uint32_t lane) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  for (;;) {
    std::string tried;
    for (std::string& address : addresses) try {
        Lane found = connect_lane(task, number, address, lane);
        std::swap(address, addresses.front());
        return found;
      } catch (const Error& error) {
        tried += text(tried.empty() ? "" : ", ", net::host_port(address, task.port), " (", error.message(), ")");
      }
    if (std::chrono::steady_clock::now() + kPause > deadline)
      throw Error(ErrorCode::network, text("cannot reach `anello run`; tried ", tried,
                                           "; a firewall may be in between: ANELLO_PORT_RANGE chooses ports"));
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

AgentConnection connect_to_launcher(const AgentTask& task, int number) {
  std::vector<std::string> addresses = addresses_to_try(task);
  Lane messages = find_launcher(task, number, addresses, kMessageLane);
  Lane lifeline = find_launcher(task, number, addresses, kLifelineLane);
  return {std::move(messages.socket), std::move(lifeline.socket), std::move(messages.own_address)};
}

}  // namespace anello::launch
