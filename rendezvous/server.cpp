#include "rendezvous/server.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "rendezvous/abort_notice.hpp"
#include "rendezvous/describe.hpp"
#include "rendezvous/resolve.hpp"
#include "rendezvous/roster.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/net/half_open.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/http_page.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/net/sockets.hpp"
#include "ring/trace/prometheus_writer.hpp"

namespace anello {

using asio::ip::tcp;
using rendezvous::Roster;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kLastMessageLimit{5000};  // for a rank to read why its start-up failed

tcp::endpoint checked_endpoint(const ServerOptions& options) {
  asio::error_code failure;
  const auto found = rendezvous::resolve(options.listen_address, options.port, failure);
  if (failure || found.empty())
    throw Error(ErrorCode::configuration, text("the address to listen on must be one of this host, or a name that it "
                                               "resolves, not '",
                                               options.listen_address, "' (", failure.message(), ")"));
  const tcp::endpoint& where = found.front();
  if (options.secret.empty() && !net::is_loopback(where.address().to_string()))
    throw Error(ErrorCode::configuration,
                text("listening on ", options.listen_address,
                     " needs a secret: set ANELLO_SECRET_FILE (`anello secret FILE` makes one), or listen on "
                     "127.0.0.1"));
  return where;
}

// Of a listener on all addresses: one that other hosts can use, if this host has one.
std::string usable_address(const asio::ip::address& listening) {
  if (!listening.is_unspecified()) return listening.to_string();
  const auto own = net::addresses_for_other_hosts(listening.to_string(), net::local_interfaces());
  if (!own.empty()) return own.front();
  return listening.is_v6() ? "::1" : "127.0.0.1";
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  std::memcpy(&number, net::random_bytes(sizeof number).data(), sizeof number);
  return number;
}

std::optional<net::Rejection> only_joining(const net::Claim& claim) {
  if (claim.role == net::Role::rendezvous) return {};
  return net::Rejection{trace::RejectReason::place, "this is a rendezvous server, not a rank"};
}

// The server's counters as text for Prometheus.
std::string server_metrics(std::string_view job, const ServerStats& stats) {
  trace::PrometheusWriter writer({{"job", job}});
  writer.describe("rendezvous_members", "gauge", "Ranks that have joined the world that gathers or starts.");
  writer.value(stats.members);
  writer.describe("rendezvous_generation", "gauge", "Number of the world that gathers or starts.");
  writer.value(stats.generation);
  writer.describe("rendezvous_worlds_total", "counter", "Worlds that have formed.");
  writer.value(stats.worlds_formed);
  writer.describe("rendezvous_half_open", "gauge", "Connections that have not joined yet.");
  writer.value(stats.half_open);
  writer.rejected_connections(stats.rejected_connections);
  return std::move(writer).text();
}

}  // namespace

class RendezvousServer::Impl {
 public:
  explicit Impl(const ServerOptions& options);
  ~Impl();
  std::uint16_t port() const { return listening_.port(); }
  std::string address() const { return usable_address(listening_.address()); }
  ServerStats stats() const {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }
  bool wait_until_over(milliseconds limit) const {
    std::unique_lock lock(stats_mutex_);
    return changed_.wait_for(lock, limit, [this] { return stats_.worlds_formed > 0 || !stats_.last_failure.empty(); });
  }
  void exited(int rank) {
    asio::post(event_loop_.context(), [this, rank] { deliver(roster_.exited(rank)); });
  }
  void abort(int culprit, const std::string& reason);

 private:
  using Connection = std::shared_ptr<net::MessageChannel>;

  asio::awaitable<void> serve(Connection connection);
  asio::awaitable<std::optional<rendezvous::Join>> receive_join(tcp::socket& socket);
  asio::awaitable<void> receive_requests(tcp::socket& socket, Roster::MemberId id);
  void deliver(const Roster::Sends& sends);
  void start_abort_notice();
  void set_alarm();
  void remind();
  void publish_stats();

  const net::Credentials credentials_;
  const milliseconds join_limit_;
  net::HalfOpen half_open_;
  // Declared before the members that use it: coroutines that have not ended when it stops are destroyed with it.
  net::EventLoop event_loop_;
  tcp::acceptor acceptor_{event_loop_.context()};
  asio::steady_timer alarm_{event_loop_.context()};  // the roster's deadline
  asio::steady_timer reminder_{event_loop_.context()};
  bool reminding_ = false;
  const milliseconds remind_after_;
  Roster roster_;
  std::map<Roster::MemberId, Connection> connections_;
  Roster::MemberId next_id_ = 0;
  std::optional<failure::Verdict> abort_verdict_;  // of the newest world that was aborted
  std::uint32_t aborted_generation_ = 0;
  trace::RejectedConnections rejected_;
  tcp::endpoint listening_;
  mutable std::mutex stats_mutex_;
  mutable std::condition_variable changed_;
  std::optional<net::Metrics> metrics_;
  ServerStats stats_;
};

RendezvousServer::Impl::Impl(const ServerOptions& options)
    : credentials_{options.job, options.secret},
      join_limit_(options.start_timeout),
      half_open_(options.max_half_open),
      remind_after_(options.remind_after),
      roster_(options.size, options.start_timeout, random_number()) {
  require_usable(credentials_);
  net::listen(acceptor_, checked_endpoint(options));
  listening_ = acceptor_.local_endpoint();
  if (!options.metrics.empty())
    metrics_.emplace(event_loop_.context(), "--metrics", options.metrics, 0,
                     [this] { return server_metrics(credentials_.job, stats()); });
  const auto take = [this](tcp::socket socket) {
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    asio::co_spawn(event_loop_.context(), serve(std::make_shared<net::MessageChannel>(std::move(socket))),
                   asio::detached);
  };
  const auto make_room = [this] { half_open_.close_oldest(net::kTimeEnough); };
  asio::co_spawn(event_loop_.context(),
                 net::accept_each(acceptor_, {"the rendezvous server", make_room, take, &rejected_}), asio::detached);
}

RendezvousServer::Impl::~Impl() {
  event_loop_.stop();
}

// Serves one connection from its handshake to its end.
asio::awaitable<void> RendezvousServer::Impl::serve(Connection connection) {
  const Roster::MemberId id = next_id_++;
  connections_.emplace(id, connection);
  std::optional<rendezvous::Join> join;
  try {
    join = co_await receive_join(connection->socket());
  } catch (const net::HandshakeError& error) {
    rejected_.count(error.reason());
    roster_.refused(error.what());
    log(Severity::info, text("rejected a connection: ", error.what()));
  } catch (const std::exception& error) {
    log(Severity::info, text("lost a connection: ", error.what()));
  }
  if (join) {
    log(Severity::info, text(rendezvous::describe(*join), " has joined from ", join->address));
    remind();
    deliver(roster_.joined(id, *join, steady_clock::now()));
    co_await receive_requests(connection->socket(), id);
  }
  connection->close();
  connections_.erase(id);
  publish_stats();
}

// Handshake, within kHandshakeLimit, and first request. Who has proved the secret may take longer: a loaded host may
// stop it for seconds. Nothing if it only tried the server. Throws HandshakeError.
asio::awaitable<std::optional<rendezvous::Join>> RendezvousServer::Impl::receive_join(tcp::socket& socket) {
  const net::HalfOpen::Place place(half_open_, socket);
  publish_stats();
  asio::error_code ignored;
  const tcp::endpoint peer = socket.remote_endpoint(ignored);
  const net::Claim claim = co_await accept_handshake(socket, credentials_, only_joining);
  const net::Deadline deadline(socket, std::max(net::kHandshakeLimit, join_limit_));
  const auto error = [&](trace::RejectReason reason, std::string_view why) {
    return net::HandshakeError(
        reason, text("connection from ", net::host_port(peer.address().to_string(), peer.port()), ": ", why));
  };
  try {
    const std::string body = co_await net::read_message(socket, rendezvous::kMaxRequestBytes);
    const rendezvous::Request request = rendezvous::decode_request(body);
    if (std::holds_alternative<rendezvous::Leave>(request)) co_return std::nullopt;
    rendezvous::Join join = std::get<rendezvous::Join>(request);
    if (!socket.is_open()) throw error(trace::RejectReason::crowded_out, "closed to make room for newer connections");
    if (join.rank != claim.from)
      throw error(trace::RejectReason::place, "it joins as another rank than in its handshake");
    co_return join;
  } catch (const std::bad_variant_access&) {
    throw error(trace::RejectReason::noise, "its first message is not a request to join");
  } catch (const net::HandshakeError&) {
    throw;
  } catch (const Error& broken) {
    if (deadline.passed()) throw error(trace::RejectReason::silent, "it did not join in time");
    if (!socket.is_open()) throw error(trace::RejectReason::crowded_out, "closed to make room for newer connections");
    throw error(broken.code() == ErrorCode::protocol ? trace::RejectReason::noise : trace::RejectReason::gone,
                broken.what());
  }
}

// Serves a member's requests until it leaves or its connection ends.
asio::awaitable<void> RendezvousServer::Impl::receive_requests(tcp::socket& socket, Roster::MemberId id) {
  std::string broken;
  try {
    for (bool present = true; present;) {
      const std::string body = co_await net::read_message(socket, rendezvous::kMaxRequestBytes);
      rendezvous::Request request = rendezvous::decode_request(body);
      if (auto* contribution = std::get_if<rendezvous::Contribution>(&request)) {
        deliver(roster_.contributed(id, std::move(*contribution), steady_clock::now()));
      } else if (const auto* fail = std::get_if<rendezvous::Fail>(&request)) {
        deliver(roster_.failed(id, fail->reason));
      } else if (const auto* leave = std::get_if<rendezvous::Leave>(&request)) {
        deliver(roster_.left(id, steady_clock::now(), leave->port));
        if (abort_verdict_ && aborted_generation_ == roster_.formed().generation) start_abort_notice();
        present = false;
      } else {
        throw Error(ErrorCode::protocol, "it joined twice");
      }
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::protocol) broken = error.what();
  }
  deliver(broken.empty() ? roster_.disconnected(id) : roster_.failed(id, broken));
}

void RendezvousServer::Impl::deliver(const Roster::Sends& sends) {
  for (const Roster::Send& send : sends) {
    const auto message = std::make_shared<const std::string>(net::framed(rendezvous::encode(send.reply)));
    const auto* failed = std::get_if<rendezvous::Failed>(&send.reply);
    if (failed) log(Severity::info, text("start-up failed: ", failed->message));
    if (std::holds_alternative<rendezvous::Assigned>(send.reply) && &send == &sends.front())
      log(Severity::info, text("all ", sends.size(), " ranks are here, generation ", roster_.generation()));
    for (const Roster::MemberId id : send.to) {
      const auto at = connections_.find(id);
      if (at == connections_.end()) continue;
      at->second->send(message);
      if (failed) at->second->finish(kLastMessageLimit);
    }
  }
  set_alarm();
  publish_stats();
}

void RendezvousServer::Impl::set_alarm() {
  alarm_.cancel();
  if (!roster_.deadline()) return;
  alarm_.expires_at(*roster_.deadline());
  alarm_.async_wait([this](asio::error_code cancelled) {
    if (cancelled || !roster_.deadline() || *roster_.deadline() > steady_clock::now()) return;
    deliver(roster_.expired());
  });
}

// While ranks wait for others.
void RendezvousServer::Impl::remind() {
  if (std::exchange(reminding_, true)) return;
  reminder_.expires_after(remind_after_);
  reminder_.async_wait([this](asio::error_code cancelled) {
    if (cancelled) return;
    reminding_ = false;
    const std::string waiting = roster_.waiting();
    if (waiting.empty()) return;
    log(Severity::warning, waiting);
    remind();
  });
}

void RendezvousServer::Impl::publish_stats() {
  const std::lock_guard lock(stats_mutex_);
  stats_ = {roster_.generation(),          roster_.members(),           roster_.phase() == Roster::Phase::starting,
            roster_.worlds_formed(),       rejected_.counts(),          half_open_.size(),
            roster_.formed().ranks.size(), roster_.formed().generation, roster_.last_failure()};
  changed_.notify_all();
}

void RendezvousServer::Impl::abort(int culprit, const std::string& reason) {
  const std::string cut = reason.substr(0, failure::ControlMessage::kMaxMessageBytes / 2);
  asio::post(event_loop_.context(), [this, culprit, why = text("the launcher ended the world: ", cut)] {
    deliver(roster_.aborted(culprit, why));
    abort_verdict_ = failure::Verdict{ErrorCode::aborted, culprit < roster_.formed().size ? culprit : -1, why};
    aborted_generation_ = roster_.formed().generation;
    start_abort_notice();
  });
}

void RendezvousServer::Impl::start_abort_notice() {
  asio::co_spawn(event_loop_.context(), rendezvous::send_abort_notice(roster_.formed(), credentials_, *abort_verdict_),
                 asio::detached);
}

RendezvousServer::RendezvousServer(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
RendezvousServer::~RendezvousServer() = default;
std::uint16_t RendezvousServer::port() const {
  return impl_->port();
}
std::string RendezvousServer::address() const {
  return impl_->address();
}
ServerStats RendezvousServer::stats() const {
  return impl_->stats();
}
bool RendezvousServer::wait_until_over(milliseconds limit) const {
  return impl_->wait_until_over(limit);
}
void RendezvousServer::exited(int rank) {
  impl_->exited(rank);
}
bool RendezvousServer::abort(int culprit, const std::string& reason) {
  const ServerStats before = stats();
  impl_->abort(culprit, reason);
  return before.members + before.reachable > 0;
}

}  // namespace anello
