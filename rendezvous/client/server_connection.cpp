#include "rendezvous/client/server_connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/client/server_search.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "rendezvous/protocol/run_context.hpp"
#include "ring/base/text.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/message_channel.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

// Time that this side waits beyond its own limit, so that the server's report arrives first. The report is better than
// an error of this side, because it names the missing rank.
constexpr milliseconds kGrace{5000};

// Waits until the socket can be read; a signal does not end the wait.
bool readable(int socket, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  pollfd entry{socket, POLLIN, 0};
  for (;;) {
    const int ready = poll(&entry, 1, int(time_left(deadline).count()));
    if (ready >= 0 || errno != EINTR) return ready != 0;
  }
}

void throw_if_failed(const Reply& reply) {
  if (const auto* failed = std::get_if<Failed>(&reply)) throw StartFailed(failed->code, failed->message, failed->rank);
  if (std::holds_alternative<ComeAgain>(reply))
    throw MeetAgain(ErrorCode::rendezvous, "the server is busy with an earlier start of this job, or was left by it");
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
  const int to = server_.generation > 0 ? server_.rank : -1;
  const net::Claim claim{net::Role::rendezvous, server_.generation, settings_.rank, to, 0, 0, server_.incarnation};
  ServerSearch search(context_,
                      {.addresses = addresses_,
                       .prove = [&](tcp::socket& socket) { return connect_handshake(socket, credentials_, claim); },
                       .name = text("the rendezvous at ", settings_.rendezvous),
                       .ends_if_refused = server_.listens || (was_connected_ && !server_.where.empty())});
  switch (search.find(deadline)) {
    case ServerSearch::Outcome::found:
      socket_ = search.take();
      was_connected_ = true;
      return send(Arrive{});
    case ServerSearch::Outcome::ended: {
      const std::string who = server_.rank < 0 ? "the rank" : text("rank ", server_.rank);
      const std::string why = text(who, " of ", server_.where,
                                   " that ran the rendezvous has ended, or a firewall rejects connections to it; ",
                                   "tried ", search.tried());
      if (!was_connected_) throw MeetAgain(ErrorCode::rendezvous, why, server_.rank);
      throw Error(ErrorCode::rendezvous, why, server_.rank);
    }
    case ServerSearch::Outcome::not_found:
      throw Error(ErrorCode::network,
                  text("no rendezvous at ", settings_.rendezvous, " within ", seconds(settings_.start_timeout),
                       "; tried ", search.tried(), "; ",
                       server_.where.empty()
                           ? "check that `anello rendezvous` runs there, or the `anello run` with --node-rank 0"
                           : text(server_.rank < 0 ? "a rank" : text("rank ", server_.rank), " of ", server_.where,
                                  " should run it")),
                  server_.rank);
  }
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

// The server sends a message without a request only if the start-up has failed. So if there is something to read, it is
// the report of a failure.
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

// Reads an answer even if the request could not be written, because the server may have sent the reason before it
// closed the connection.
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

bool ServerConnection::is_intact() {
  if (!socket_.is_open()) return false;
  char next = 0;
  const ssize_t bytes = recv(socket_.native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return bytes > 0 || (bytes < 0 && errno == EAGAIN);
}

// Does not block, because a request has few bytes, and the socket's buffer is empty.
void ServerConnection::send(const Request& request) {
  const std::string message = net::framed(encode(request));
  asio::error_code ignored;
  asio::write(socket_, asio::buffer(message), ignored);
}

tcp::socket ServerConnection::release(asio::io_context& context) {
  const tcp protocol = socket_.local_endpoint().protocol();
  return tcp::socket(context, protocol, socket_.release());
}

void ServerConnection::send_and_close(const Request& request) {
  send(request);
  asio::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void ServerConnection::run(asio::awaitable<void> work) {
  std::exception_ptr thrown;
  asio::co_spawn(context_, std::move(work), [&thrown](std::exception_ptr failure) { thrown = std::move(failure); });
  run_to_end(context_, [this] {
    asio::error_code ignored;
    socket_.close(ignored);
  });
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace anello::rendezvous
