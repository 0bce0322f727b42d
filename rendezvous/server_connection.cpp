#include "rendezvous/server_connection.hpp"

#include <poll.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <thread>
#include <utility>

#include "rendezvous/describe.hpp"
#include "rendezvous/resolve.hpp"
#include "rendezvous/retry.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

// Per address: a route that drops packets, or a program that is mute, must not use up the time of the others. A server
// on a host with much to do may need longer than it is given first.
constexpr milliseconds kConnectLimit{5000}, kFirstLimitOfSeveral{500}, kLastLimitOfSeveral{5000};
constexpr milliseconds kGrace{5000};      // for the server to report first: it knows which rank is missing
constexpr milliseconds kWarnAfter{5000};  // of waiting for the server

// A signal does not end the wait.
bool readable(int socket, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  pollfd entry{socket, POLLIN, 0};
  for (;;) {
    const int ready = poll(&entry, 1, int(time_left(deadline).count()));
    if (ready >= 0 || errno != EINTR) return ready != 0;
  }
}

void throw_if_failed(const Reply& reply) {
  if (const auto* failed = std::get_if<Failed>(&reply)) throw Error(failed->code, failed->message, failed->rank);
}

}  // namespace

ServerConnection::ServerConnection(const Settings& settings, net::Credentials credentials, KnownServer server)
    : settings_(settings),
      credentials_(std::move(credentials)),
      server_(std::move(server)),
      addresses_(net::parse_host_ports("ANELLO_RENDEZVOUS", settings.rendezvous)) {
  net::require_usable(credentials_);
}

void ServerConnection::connect(Clock::time_point deadline) {
  milliseconds pause = kFirstRest;
  bool warned = false;
  patience_ = kFirstLimitOfSeveral;
  for (const auto began = Clock::now(); !try_all(deadline); pause = std::min(2 * pause, kMaxRest)) {
    patience_ = std::min(2 * patience_, kLastLimitOfSeveral);
    if (server_.listens && all_refused_)
      throw Error(ErrorCode::rendezvous,
                  text("the rank of ", server_.where, " that ran the rendezvous has ended; tried ", tried()));
    const milliseconds rest = jittered(pause);
    if (time_left(deadline) <= rest)
      throw Error(ErrorCode::network, text("no rendezvous at ", settings_.rendezvous, " within ",
                                           seconds(settings_.start_timeout), "; tried ", tried(), "; ",
                                           server_.where.empty() ? "check that `anello rendezvous` runs there"
                                                                 : "a rank of " + server_.where + " should run it"));
    if (!warned && Clock::now() - began > kWarnAfter) {
      log(Severity::warning, text("waiting for the rendezvous at ", settings_.rendezvous, "; tried ", tried()));
      warned = true;
    }
    std::this_thread::sleep_for(rest);
  }
}

bool ServerConnection::try_all(Clock::time_point deadline) {
  earlier_attempts_ = std::exchange(attempts_, {});
  unresolved_.clear();
  all_refused_ = true;
  return std::ranges::any_of(
      addresses_, [&](const net::HostPort& host) { return host.host != unresolved_ && try_host(host, deadline); });
}

// A name that does not resolve is tried again, once for all its ports: the name of a new host takes time to spread.
bool ServerConnection::try_host(const net::HostPort& host, Clock::time_point deadline) {
  asio::error_code failure;
  const auto found = resolve(host.host, host.port, failure);
  if (failure) all_refused_ = false;
  if (failure) unresolved_ = host.host;
  if (failure) note({text("to resolve '", host.host, "'"), failure.message()});
  for (const tcp::endpoint& one : found)
    if (try_one(one, deadline)) return true;
  return false;
}

bool ServerConnection::try_one(const tcp::endpoint& where, Clock::time_point deadline) {
  const milliseconds left = time_left(deadline);
  const bool only_one = addresses_.size() == 1;
  try {
    run(open(where, only_one ? left : std::min(left, patience_)));
    return true;
  } catch (const Error& error) {
    const bool late = error.code() == ErrorCode::timed_out;
    if (only_one && !late && error.code() != ErrorCode::network) throw;
    note({net::host_port(where.address().to_string(), where.port()), error.message(), late && left < kFirstLimitOfSeveral});
    return false;
  }
}

// An attempt that had too little time for an answer says less than the one before it.
void ServerConnection::note(const Attempt& attempt) {
  const auto earlier = std::ranges::find(earlier_attempts_, attempt.where, &Attempt::where);
  attempts_.push_back(attempt.cut_short && earlier != earlier_attempts_.end() ? *earlier : attempt);
}

std::string ServerConnection::tried() const {
  std::string all;
  for (const Attempt& attempt : attempts_)
    all += text(all.empty() ? "" : ", ", attempt.where, " (", attempt.failure, ")");
  return all;
}

asio::awaitable<void> ServerConnection::open(const tcp::endpoint& where, milliseconds limit) {
  socket_ = tcp::socket(context_);
  const net::Deadline deadline(socket_, limit);
  try {
    co_await connect_socket(where);
    const net::Claim claim{net::Role::rendezvous, 0, settings_.rank, -1};
    co_await connect_handshake(socket_, credentials_, claim);
  } catch (const Error&) {
    if (deadline.passed()) throw Error(ErrorCode::timed_out, text("no answer within ", seconds(limit)));
    throw;
  }
}

asio::awaitable<void> ServerConnection::connect_socket(const tcp::endpoint& where) {
  asio::error_code failure;
  net::open_socket(socket_, where.protocol(), failure);
  if (failure) all_refused_ = false;
  if (failure) throw Error(ErrorCode::network, failure.message());
  const net::Deadline deadline(socket_, kConnectLimit);
  co_await net::connect(socket_, where, failure);
  if (failure != asio::error::connection_refused) all_refused_ = false;
  if (deadline.passed()) throw Error(ErrorCode::timed_out, "no answer");
  if (failure) throw Error(ErrorCode::network, failure.message());
  socket_.set_option(tcp::no_delay(true), failure);
}

std::string ServerConnection::local_address() const {
  asio::error_code failure;
  const tcp::endpoint local = socket_.local_endpoint(failure);
  if (failure) throw Error(ErrorCode::network, text("the connection to the rendezvous broke: ", failure.message()));
  return local.address().to_string();
}

Reply ServerConnection::ask(const Request& request, milliseconds patience) {
  Reply reply;
  try {
    run(send_and_receive(request, patience + kGrace, reply));
  } catch (Error& error) {
    throw error.within(text("rendezvous at ", settings_.rendezvous));
  }
  throw_if_failed(reply);
  return reply;
}

// Without a request, the server sends nothing except that the start-up has failed.
void ServerConnection::check(milliseconds patience) {
  if (!readable(socket_.native_handle(), patience)) return;
  Reply reply;
  try {
    run(receive(kGrace, reply));
  } catch (Error& error) {
    throw error.within(text("rendezvous at ", settings_.rendezvous));
  }
  throw_if_failed(reply);
  throw Error(ErrorCode::protocol, text("rendezvous at ", settings_.rendezvous, ": it sent a reply without a request"));
}

// Reads even if writing fails: the server may have sent the reason before it closed the connection.
asio::awaitable<void> ServerConnection::send_and_receive(const Request& request, milliseconds limit, Reply& reply) {
  const std::string message = net::framed(encode(request));
  asio::error_code ignored;
  co_await asio::async_write(socket_, asio::buffer(message), asio::redirect_error(asio::use_awaitable, ignored));
  co_await receive(limit, reply);
}

asio::awaitable<void> ServerConnection::receive(milliseconds limit, Reply& reply) {
  const net::Deadline deadline(socket_, limit);
  std::string body;
  try {
    body = co_await net::read_message(socket_, kMaxReplyBytes);
  } catch (const Error&) {
    if (deadline.passed()) throw Error(ErrorCode::timed_out, text("no answer within ", seconds(limit)));
    throw;
  }
  reply = decode_reply(body);
}

// A few bytes into an empty socket buffer: this does not block.
void ServerConnection::send_and_close(const Request& request) {
  const std::string message = net::framed(encode(request));
  asio::error_code ignored;
  asio::write(socket_, asio::buffer(message), ignored);
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void ServerConnection::run(asio::awaitable<void> work) {
  std::exception_ptr thrown;
  asio::co_spawn(context_, std::move(work), [&thrown](std::exception_ptr failure) { thrown = std::move(failure); });
  context_.restart();
  context_.run();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace anello::rendezvous
