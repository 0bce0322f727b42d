#include "rendezvous/launch/agents/agent_listener.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/address.hpp>
#include <asio/ip/v6_only.hpp>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/sockets.hpp"
#include "ring/net/spawn.hpp"

namespace anello::launch {

using asio::ip::tcp;

namespace {

// Returns the maximum number of connections whose handshake is not complete. It is a part of this process's limit of
// descriptors, so that a flood of connections leaves some descriptors free.
std::size_t max_half_open() {
  constexpr unsigned long kMin = 8, kMax = 1024;
  return std::clamp(open_files_limit().now / 4, kMin, kMax);
}

std::string plain(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

}  // namespace

AgentListener::AgentListener(net::Credentials credentials, int hosts, bool loopback, std::string_view ports)
    : credentials_(std::move(credentials)),
      hosts_(hosts),
      half_open_(max_half_open()),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw system_error("making an event descriptor");
  net::require_usable(credentials_);
  listen(loopback, ports);
  const auto take = [this](tcp::socket socket) { net::spawn(event_loop_.context(), welcome(std::move(socket))); };
  const auto make_room = [this] { half_open_.close_oldest(net::kTimeEnough); };
  net::spawn(event_loop_.context(), net::accept_each(acceptor_, {"the launcher", make_room, take}));
}

AgentListener::~AgentListener() {
  event_loop_.stop();
}

void AgentListener::listen(bool loopback, std::string_view ports) {
  const auto address = asio::ip::make_address(loopback ? "127.0.0.1" : net::any_address());
  const net::PortRange range = net::parse_port_range(ports);
  net::at_first_free(range, [&](std::uint16_t port) {
    asio::error_code error, ignored;
    const tcp::endpoint where(address, port);
    acceptor_.close(ignored);
    net::open_socket(acceptor_, where.protocol(), error);
    acceptor_.set_option(tcp::acceptor::reuse_address(true), ignored);
    if (address.is_v6()) acceptor_.set_option(asio::ip::v6_only(false), ignored);
    if (!error) acceptor_.bind(where, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error)
      throw Error(ErrorCode::network, text("cannot listen for agents at ports ", range.first, "-", range.last, ": ",
                                           error.message(), "; see ANELLO_PORT_RANGE"));
  });
  port_ = acceptor_.local_endpoint().port();
}

asio::awaitable<void> AgentListener::welcome(tcp::socket socket) {
  try {
    std::optional<net::HalfOpen::Place> place(std::in_place, half_open_, socket);
    const auto acceptable = [this](const net::Claim& claim) -> std::optional<net::Rejection> {
      if (claim.role == net::Role::agent && claim.from >= 0 && claim.from < hosts_ && claim.lane <= kLifelineLane)
        return {};
      return net::Rejection{trace::RejectReason::place, "this is a launcher, which waits for its agents"};
    };
    const net::Claim claim = co_await accept_handshake(socket, credentials_, acceptable);
    place.reset();
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const std::string address = plain(socket.local_endpoint(ignored).address());
    hand_over({claim.from, claim.lane, Descriptor(socket.release()), address});
  } catch (const std::exception& error) {
    log(Severity::info, text("dropped a connection: ", error.what()));
  }
}

void AgentListener::hand_over(Arrival arrival) {
  {
    const MutexLock lock(mutex_);
    arrivals_.push_back(std::move(arrival));
  }
  eventfd_write(bell_.get(), 1);
}

std::optional<AgentListener::Arrival> AgentListener::next() {
  eventfd_t ignored;
  eventfd_read(bell_.get(), &ignored);
  const MutexLock lock(mutex_);
  if (arrivals_.empty()) return std::nullopt;
  Arrival arrival = std::move(arrivals_.front());
  arrivals_.pop_front();
  return arrival;
}

}  // namespace anello::launch
