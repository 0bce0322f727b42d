#include "ring/net/connections.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "ring/base/descriptor.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/spawn.hpp"

namespace anello::net {

using asio::awaitable;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using std::chrono::steady_clock;

namespace {

// If a receiver's window is smaller than one segment, Linux sends only every 200 ms (its persist timer). On loopback a
// segment may be as large as the whole window of a small buffer, so this library limits the segment size.
constexpr int kSegmentsPerBuffer = 8, kMinSegmentBytes = 128, kMaxSegmentBytes = 32767;

constexpr std::chrono::seconds kWarnAfter{5};  // after this time without a connection, a warning is logged

// On loopback no pacing is needed, and reno is 1.5 times as fast as BBR. On a real network the administrator decides.
std::string congestion_for(const Identity& identity, const Settings& settings) {
  if (settings.congestion == "system") return {};
  if (settings.congestion != "auto") return settings.congestion;
  return identity.node_count == 1 ? "reno" : "";
}

void require_address(const std::string& address, const std::string& host) {
  asio::error_code error;
  asio::ip::make_address(address, error);
  if (error)
    throw Error(ErrorCode::network, text("'", address, "' on ", host, " is not an address here: ", error.message()));
}

// Connections that have not authenticated may use only a part of the descriptors that ranks do not need yet.
std::size_t max_handshakes() {
  constexpr std::size_t kMin = 8, kMax = 256;
  return std::clamp(free_descriptors() / 4, kMin, kMax);
}

}  // namespace

PeerConnections::PeerConnections(asio::io_context& context, const Identity& identity, const Settings& settings,
                                 trace::RejectedConnections& rejected_connections,
                                 std::chrono::milliseconds handshake_limit)
    : context_(context),
      rank_(identity.rank),
      generation_(identity.generation),
      incarnation_(identity.incarnation),
      credentials_{identity.job, identity.secret},
      congestion_(congestion_for(identity, settings)),
      buffer_bytes_(settings.socket_buffer_bytes),
      host_(identity.host),
      handshake_limit_(handshake_limit),
      handshakes_(max_handshakes()),
      rejected_(rejected_connections) {
  const PortRange ports = parse_port_range(settings.port_range);
  acceptors_.push_back(listening_at(identity.address, ports));
  for (const std::string& address : identity.further_addresses) acceptors_.push_back(listening_at(address, ports));
}

tcp::acceptor PeerConnections::listening_at(const std::string& address, const PortRange& ports) {
  asio::error_code error;
  const auto numeric = asio::ip::make_address(address, error);
  if (error) throw Error(ErrorCode::network, text("'", address, "' is not a numeric address to listen on"));
  tcp::acceptor acceptor(context_);
  at_first_free(ports, [&](std::uint16_t port) {
    const asio::error_code failure = listen(acceptor, {numeric, port});
    if (!failure) return;
    const std::string_view lack = remedy_for_lack_of_files(failure.value());
    throw Error(ErrorCode::network,
                text("cannot listen on ", address,
                     ports.last == 0 ? " at any port" : text(" ports ", ports.first, "-", ports.last), ": ",
                     failure.message(), lack.empty() ? "; see ANELLO_IFACE and ANELLO_PORT_RANGE" : lack));
  });
  return acceptor;
}

asio::error_code PeerConnections::listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) const {
  asio::error_code error, ignored;
  open_socket(acceptor, endpoint.protocol(), error);
  if (error) return error;
  prepare(acceptor.native_handle());
  if (endpoint.port() != 0) acceptor.set_option(tcp::acceptor::reuse_address(true), ignored);
  acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) acceptor.close(ignored);
  return error;
}

void PeerConnections::prepare(int descriptor) const {
  if (!congestion_.empty() &&
      setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, congestion_.data(), socklen_t(congestion_.size())) != 0)
    log(Severity::info, text("TCP congestion control '", congestion_, "' is not available; the system's is used"));
  if (buffer_bytes_ == 0) return;
  for (const int option : {SO_SNDBUF, SO_RCVBUF})
    setsockopt(descriptor, SOL_SOCKET, option, &buffer_bytes_, sizeof buffer_bytes_);
  const int segment_bytes = std::clamp(buffer_bytes_ / kSegmentsPerBuffer, kMinSegmentBytes, kMaxSegmentBytes);
  setsockopt(descriptor, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof segment_bytes);
}

Endpoint PeerConnections::endpoint() const {
  const tcp::endpoint first = acceptors_.front().local_endpoint();
  Endpoint mine{first.address().to_string(), first.port(), host_};
  for (std::size_t k = 1; k < acceptors_.size(); k++) {
    const tcp::endpoint local = acceptors_[k].local_endpoint();
    mine.further.push_back({local.address().to_string(), local.port()});
  }
  return mine;
}

std::size_t PeerConnections::ways(int peer) const {
  const Endpoint& to = peers_[std::size_t(peer)];
  return to.host == host_ ? 1 : std::min(acceptors_.size(), 1 + to.further.size());
}

std::string PeerConnections::place(int peer, std::size_t way) const {
  const Endpoint::Place at = peers_[std::size_t(peer)].at(way);
  return text(at.address, " port ", at.port);
}

void PeerConnections::open(std::vector<Endpoint> peers, Accepted accepted, Exhausted exhausted, HasRoom has_room) {
  for (const Endpoint& peer : peers) {
    require_address(peer.address, peer.host);
    for (const Endpoint::Place& place : peer.further) require_address(place.address, peer.host);
  }
  peers_ = std::move(peers);
  accepted_ = std::move(accepted);
  exhausted_ = std::move(exhausted);
  has_room_ = std::move(has_room);
  // Other programs must not be able to end the world by using up the descriptors. If no descriptor is left, a new
  // connection gets the spare one. The world ends only if this connection proves that it comes from a rank. Any other
  // connection is closed, and its descriptor becomes the spare one again.
  const auto make_room = [this] {
    handshakes_.close_oldest(kTimeEnough);
    spare_.give_up();
  };
  const auto take = [this](Socket socket) { spawn(context_, let_in(std::move(socket))); };
  for (tcp::acceptor& acceptor : acceptors_)
    spawn(context_, accept_each(acceptor, {text("rank ", rank_), make_room, take, &rejected_}));
}

void PeerConnections::close() {
  asio::error_code ignored;
  for (tcp::acceptor& acceptor : acceptors_) acceptor.close(ignored);
}

awaitable<void> PeerConnections::let_in(Socket socket) {
  try {
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    std::optional<HalfOpen::Place> place(std::in_place, handshakes_, socket);
    const Check check = [&](const Claim& claim) {
      std::optional<Rejection> rejection = acceptable(claim);
      if (rejection) return rejection;
      if (!has_room_(claim))
        throw Error(ErrorCode::network, text("rank ", claim.from,
                                             " must connect again later: too many connections "
                                             "wait for groups that this rank has not made"));
      place.reset();
      return rejection;
    };
    const Claim claim = co_await accept_handshake(socket, credentials_, check);
    if (claim.role == Role::ping) {
      socket.close(ignored);
    } else {
      keep_spare();
      accepted_(claim, std::move(socket));
    }
  } catch (const HandshakeError& e) {
    rejected_.count(e.reason());
    log(Severity::info, text("dropped a connection: ", e.what()));
  } catch (const std::exception& e) {
    log(Severity::info, text("lost a connection: ", e.what()));
  }
  spare_.take();
}

// To get a free descriptor, first closes connections that have not authenticated.
void PeerConnections::keep_spare() {
  while (!spare_.take()) {
    const int why = errno;
    if (!handshakes_.close_oldest()) return exhausted_(why);
  }
}

std::optional<Rejection> PeerConnections::acceptable(const Claim& claim) const {
  const auto misplaced = [](std::string why) { return Rejection{trace::RejectReason::place, std::move(why)}; };
  if (claim.role == Role::rendezvous) return misplaced("this is a rank, not a rendezvous");
  if (claim.generation != generation_)
    return Rejection{trace::RejectReason::generation,
                     text("generation ", claim.generation, " is not the current one, ", generation_)};
  if (claim.incarnation != incarnation_)
    return Rejection{trace::RejectReason::generation, "it belongs to another run of this job; end that run first"};
  if (claim.to != rank_) return misplaced(text("this is rank ", rank_, ", not ", claim.to));
  if (claim.role == Role::launcher) return {};
  const bool is_ping = claim.role == Role::ping && claim.from >= 0;
  if ((claim.from <= rank_ && !is_ping) || claim.from >= int(peers_.size()))
    return misplaced(text("no rank ", claim.from, " connects here"));
  return {};
}

// Connects without a handshake. Throws asio::system_error if no descriptor is left.
awaitable<void> PeerConnections::connect_socket(Socket& socket, int peer, std::size_t way, asio::error_code& error) {
  const Endpoint::Place at = peers_[std::size_t(peer)].at(way);
  const tcp::endpoint endpoint(asio::ip::make_address(at.address), at.port);
  open_socket(socket, endpoint.protocol(), error);
  if (error) throw asio::system_error(error);
  prepare(socket.native_handle());
  co_await net::connect(socket, endpoint, error);
}

awaitable<PeerConnections::Socket> PeerConnections::try_connect(Claim claim) {
  asio::error_code error;
  Socket socket(context_);
  co_await connect_socket(socket, claim.to, claim.lane % ways(claim.to), error);
  if (error) throw Error(ErrorCode::network, error.message(), claim.to);
  socket.set_option(tcp::no_delay(true));
  co_await connect_handshake(socket, credentials_, claim, handshake_limit_);
  co_return socket;
}

awaitable<PeerConnections::Answer> PeerConnections::ping(int peer, std::size_t way, std::chrono::milliseconds limit) {
  const Claim claim{Role::ping, generation_, rank_, peer, 0, 0, incarnation_};
  try {
    asio::error_code error;
    Socket socket(context_);
    {
      const Deadline deadline(socket, limit);
      co_await connect_socket(socket, peer, way, error);
    }
    if (error) co_return error == asio::error::connection_refused ? Answer::refusal : Answer::none;
    co_await connect_handshake(socket, credentials_, claim, limit);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::timed_out) co_return Answer::none;
  } catch (const asio::system_error&) {  // this rank has no descriptor left, which is not the peer's fault
  }
  co_return Answer::any;
}

awaitable<PeerConnections::Socket> PeerConnections::connect(int peer, Role role, std::uint32_t lane,
                                                            std::uint64_t group, steady_clock::time_point deadline,
                                                            Wanted wanted) {
  const Claim claim{role, generation_, rank_, peer, lane, group, incarnation_};
  steady_clock::duration backoff = std::chrono::milliseconds(20);
  const auto began = steady_clock::now();
  bool warned = false;
  for (;;) {
    std::string why;
    ErrorCode code = ErrorCode::network;
    try {
      co_return co_await try_connect(claim);
    } catch (const Error& e) {
      code = e.code();
      why = e.what();
    } catch (const asio::system_error& e) {
      why = e.code().message();
      if (const auto remedy = remedy_for_lack_of_files(e.code().value()); !remedy.empty())
        throw Error(ErrorCode::network, text("cannot connect to rank ", peer, ": ", why, remedy), rank_);
    }
    why = text("cannot connect to rank ", peer, " on ", peers_[std::size_t(peer)].host, " at ",
               place(peer, lane % ways(peer)), ": ", why);
    const bool may_pass = code == ErrorCode::network || code == ErrorCode::timed_out;
    if (!may_pass || !wanted() || steady_clock::now() + backoff > deadline) throw Error(code, why, peer);
    const bool warns = !warned && steady_clock::now() - began > kWarnAfter;
    warned |= warns;
    log(warns ? Severity::warning : Severity::info, why + "; trying again");
    co_await pause(backoff);
    backoff = std::min<steady_clock::duration>(2 * backoff, std::chrono::seconds(1));
  }
}

}  // namespace anello::net
