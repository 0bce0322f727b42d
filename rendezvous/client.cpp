#include "rendezvous/client.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <thread>

#include "rendezvous/describe.hpp"
#include "rendezvous/host.hpp"
#include "rendezvous/resolve.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/net/sockets.hpp"

namespace anello {

using asio::ip::tcp;
using rendezvous::Assigned;
using rendezvous::Failed;
using rendezvous::Gathered;
using rendezvous::Reply;
using rendezvous::Request;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kFirstPause{50}, kMaxPause{2000};
constexpr milliseconds kTryLimit{5000};
// Per address: a route that drops packets, or a program that is mute, must not use up the time of the others. A server
// on a host with much to do may need longer than it is given first.
constexpr milliseconds kConnectLimit{5000}, kFirstLimitOfSeveral{500}, kLastLimitOfSeveral{5000};
constexpr milliseconds kGrace{5000};      // for the server to report first: it knows which rank is missing
constexpr milliseconds kWarnAfter{5000};  // of waiting for the server

milliseconds left(std::chrono::steady_clock::time_point deadline) {
  const auto time = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(time, milliseconds(0));
}

// A random time between half of `pause` and all of it, so that ranks do not connect all at once.
milliseconds jittered(milliseconds pause) {
  const auto draw = static_cast<unsigned char>(net::random_bytes(1)[0]);
  return pause / 2 + pause * draw / 512;
}

// A signal does not end the wait.
bool readable(int socket, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  pollfd entry{socket, POLLIN, 0};
  for (;;) {
    const int ready = poll(&entry, 1, int(left(deadline).count()));
    if (ready >= 0 || errno != EINTR) return ready != 0;
  }
}

void throw_if_failed(const Reply& reply) {
  if (const auto* failed = std::get_if<Failed>(&reply)) throw Error(failed->code, failed->message, failed->rank);
}

}  // namespace

RendezvousClient::RendezvousClient(const Settings& settings, std::string secret, Server server, NotJoined)
    : settings_(settings),
      server_(std::move(server)),
      addresses_(net::parse_host_ports("ANELLO_RENDEZVOUS", settings.rendezvous)),
      interfaces_(net::local_interfaces()) {
  identity_.job = settings.job;
  identity_.secret = std::move(secret);
  net::require_usable({identity_.job, identity_.secret});
}

RendezvousClient::RendezvousClient(const Settings& settings, std::string secret, Server server)
    : RendezvousClient(settings, std::move(secret), std::move(server), NotJoined()) {
  connect_and_join(Clock::now() + settings.start_timeout);
}

void RendezvousClient::try_server(const Settings& settings, std::string secret, Server server) {
  Settings impatient = settings;
  impatient.start_timeout = std::min(settings.start_timeout, kTryLimit);
  RendezvousClient client(impatient, std::move(secret), std::move(server), NotJoined());
  client.connect(Clock::now() + impatient.start_timeout);
  client.leave();
}

// The server drops a connection that does not join soon after its handshake, and drops the oldest of too many.
void RendezvousClient::connect_and_join(Clock::time_point deadline) {
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kMaxPause)) {
    connect(deadline);
    std::vector<std::string> addresses = own_addresses();
    identity_.address = addresses.front();
    identity_.further_addresses.assign(addresses.begin() + 1, addresses.end());
    try {
      return join(left(deadline));
    } catch (const Error& error) {
      const bool may_be_tried_again = error.code() == ErrorCode::network || error.code() == ErrorCode::timed_out;
      const milliseconds rest = jittered(pause);
      if (!may_be_tried_again || left(deadline) <= rest) throw;
      log(Severity::info, text("joining again: ", error.what()));
      std::this_thread::sleep_for(rest);
    }
  }
}

RendezvousClient::~RendezvousClient() = default;

void RendezvousClient::connect(Clock::time_point deadline) {
  milliseconds pause = kFirstPause;
  bool warned = false;
  patience_ = kFirstLimitOfSeveral;
  for (const auto began = Clock::now(); !try_all(deadline); pause = std::min(2 * pause, kMaxPause)) {
    patience_ = std::min(2 * patience_, kLastLimitOfSeveral);
    if (server_.listens && all_refused_)
      throw Error(ErrorCode::rendezvous,
                  text("the rank of ", server_.where, " that ran the rendezvous has ended; tried ", tried_));
    const milliseconds rest = jittered(pause);
    if (left(deadline) <= rest)
      throw Error(ErrorCode::network, text("no rendezvous at ", settings_.rendezvous, " within ",
                                           rendezvous::seconds(settings_.start_timeout), "; tried ", tried_, "; ",
                                           server_.where.empty() ? "check that `anello rendezvous` runs there"
                                                                 : "a rank of " + server_.where + " should run it"));
    if (!warned && Clock::now() - began > kWarnAfter) {
      log(Severity::warning, text("waiting for the rendezvous at ", settings_.rendezvous, "; tried ", tried_));
      warned = true;
    }
    std::this_thread::sleep_for(rest);
  }
}

bool RendezvousClient::try_all(Clock::time_point deadline) {
  tried_.clear();
  unresolved_.clear();
  all_refused_ = true;
  return std::ranges::any_of(
      addresses_, [&](const net::HostPort& host) { return host.host != unresolved_ && try_host(host, deadline); });
}

// A name that does not resolve is tried again, once for all its ports: the name of a new host takes time to spread.
bool RendezvousClient::try_host(const net::HostPort& host, Clock::time_point deadline) {
  asio::error_code failure;
  const auto found = rendezvous::resolve(host.host, host.port, failure);
  if (failure) all_refused_ = false;
  if (failure) unresolved_ = host.host;
  if (failure) tried_ += text(tried_.empty() ? "" : ", ", "to resolve '", host.host, "' (", failure.message(), ")");
  for (const tcp::endpoint& one : found)
    if (try_one(one, deadline)) return true;
  return false;
}

bool RendezvousClient::try_one(const tcp::endpoint& where, Clock::time_point deadline) {
  try {
    const bool only_one = addresses_.size() == 1;
    run(open(where, only_one ? left(deadline) : std::min(left(deadline), patience_)));
    return true;
  } catch (const Error& error) {
    const bool refused = error.code() != ErrorCode::network && error.code() != ErrorCode::timed_out;
    if (refused && addresses_.size() == 1) throw;
    tried_ += text(tried_.empty() ? "" : ", ", net::host_port(where.address().to_string(), where.port()), " (",
                   error.message(), ")");
    return false;
  }
}

asio::awaitable<void> RendezvousClient::open(const tcp::endpoint& where, milliseconds limit) {
  socket_ = tcp::socket(context_);
  const net::Deadline deadline(socket_, limit);
  try {
    co_await connect_socket(where);
    const net::Credentials credentials{identity_.job, identity_.secret};
    const net::Claim claim{net::Role::rendezvous, 0, settings_.rank, -1};
    co_await connect_handshake(socket_, credentials, claim);
  } catch (const Error&) {
    if (deadline.passed()) throw Error(ErrorCode::timed_out, text("no answer within ", rendezvous::seconds(limit)));
    throw;
  }
}

asio::awaitable<void> RendezvousClient::connect_socket(const tcp::endpoint& where) {
  asio::error_code failure;
  net::open_socket(socket_, where.protocol(), failure);
  if (failure) all_refused_ = false;
  if (failure) throw Error(ErrorCode::network, failure.message());
  const net::Deadline deadline(socket_, kConnectLimit);
  co_await socket_.async_connect(where, asio::redirect_error(asio::use_awaitable, failure));
  if (failure != asio::error::connection_refused) all_refused_ = false;
  if (deadline.passed()) throw Error(ErrorCode::timed_out, "no answer");
  if (failure) throw Error(ErrorCode::network, failure.message());
  socket_.set_option(tcp::no_delay(true), failure);
}

std::vector<std::string> RendezvousClient::own_addresses() const {
  asio::error_code failure;
  const tcp::endpoint local = socket_.local_endpoint(failure);
  if (failure) throw Error(ErrorCode::network, text("the connection to the rendezvous broke: ", failure.message()));
  std::string usual = local.address().to_string();
  if (server_.other_hosts && settings_.iface.empty() && net::is_loopback(usual))  // this host's name in /etc/hosts
    usual = net::choose_address("^lo,docker", usual, interfaces_);
  std::vector<std::string> addresses = net::choose_addresses(settings_.iface, usual, interfaces_);
  for (const std::string& address : addresses)
    if (identity_.secret.empty() && !net::is_loopback(address))
      throw Error(ErrorCode::configuration,
                  text("this rank would listen on ", address,
                       " without a secret; set ANELLO_SECRET_FILE on all ranks (`anello secret FILE` makes one)"));
  return addresses;
}

void RendezvousClient::join(milliseconds patience) {
  rendezvous::Join mine{rendezvous::host_name(), rendezvous::machine(), identity_.address, std::uint32_t(getpid())};
  mine.rank = settings_.rank;
  mine.size = settings_.size;
  mine.local_rank = settings_.local_rank;
  mine.patience = patience;
  const Reply reply = ask(mine, patience);
  const auto* assigned = std::get_if<Assigned>(&reply);
  if (!assigned) throw Error(ErrorCode::protocol, "the rendezvous server sent a wrong reply to a request to join");
  identity_.generation = assigned->generation;
  identity_.incarnation = assigned->incarnation;
  identity_.rank = assigned->rank;
  identity_.size = assigned->size;
  identity_.local_rank = assigned->local_rank;
  identity_.local_size = assigned->local_size;
  identity_.node_rank = assigned->node_rank;
  identity_.node_count = assigned->node_count;
  identity_.host = assigned->host;
}

std::vector<std::string> RendezvousClient::exchange(std::string blob) {
  if (blob.size() > rendezvous::kMaxBlobBytes)
    throw Error(
        ErrorCode::invalid_argument,
        text("the blob has ", blob.size(), " bytes; the rendezvous exchanges at most ", rendezvous::kMaxBlobBytes));
  Reply reply = ask(rendezvous::Contribution{std::move(blob), settings_.start_timeout}, settings_.start_timeout);
  auto* gathered = std::get_if<Gathered>(&reply);
  if (!gathered || gathered->blobs.size() != std::size_t(identity_.size))
    throw Error(ErrorCode::protocol, "the rendezvous server sent a wrong reply to an exchange");
  return std::move(gathered->blobs);
}

Reply RendezvousClient::ask(const Request& request, milliseconds patience) {
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
void RendezvousClient::check(milliseconds patience) {
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
asio::awaitable<void> RendezvousClient::send_and_receive(const Request& request, milliseconds limit, Reply& reply) {
  const std::string message = net::framed(rendezvous::encode(request));
  asio::error_code ignored;
  co_await asio::async_write(socket_, asio::buffer(message), asio::redirect_error(asio::use_awaitable, ignored));
  co_await receive(limit, reply);
}

asio::awaitable<void> RendezvousClient::receive(milliseconds limit, Reply& reply) {
  const net::Deadline deadline(socket_, limit);
  std::string body;
  try {
    body = co_await net::read_message(socket_, rendezvous::kMaxReplyBytes);
  } catch (const Error&) {
    if (deadline.passed()) throw Error(ErrorCode::timed_out, text("no answer within ", rendezvous::seconds(limit)));
    throw;
  }
  reply = rendezvous::decode_reply(body);
}

void RendezvousClient::leave(std::uint16_t port) {
  send_and_close(rendezvous::Leave{port});
}

void RendezvousClient::fail(std::string_view reason) noexcept {
  try {
    send_and_close(rendezvous::Fail{std::string(reason)});
  } catch (const std::exception& error) {
    log(Severity::debug, text("the rendezvous server did not receive the reason: ", error.what()));
  }
}

// A few bytes into an empty socket buffer: this does not block.
void RendezvousClient::send_and_close(const Request& request) {
  const std::string message = net::framed(rendezvous::encode(request));
  asio::error_code ignored;
  asio::write(socket_, asio::buffer(message), ignored);
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void RendezvousClient::run(asio::awaitable<void> work) {
  std::exception_ptr thrown;
  asio::co_spawn(context_, std::move(work), [&thrown](std::exception_ptr failure) { thrown = std::move(failure); });
  context_.restart();
  context_.run();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace anello
