#include "rendezvous/server/server.hpp"

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <condition_variable>
#include <cstring>

#include "rendezvous/server/abort_notice.hpp"
#include "rendezvous/server/listening_address.hpp"
#include "rendezvous/server/receive_join.hpp"
#include "rendezvous/server/server_impl.hpp"
#include "rendezvous/server/server_metrics.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/sockets.hpp"
#include "ring/net/spawn.hpp"

namespace anello {

using asio::ip::tcp;
using rendezvous::Roster;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kLastMessageLimit{5000};  // time for a rank to read why its start-up failed

}  // namespace

std::uint64_t random_number() {
  std::uint64_t number = 0;
  std::memcpy(&number, net::random_bytes(sizeof number).data(), sizeof number);
  return number;
}

RendezvousServer::Impl::Impl(const ServerOptions& options)
    : credentials_{options.job, options.secret},
      join_limit_(options.start_timeout),
      half_open_(options.max_half_open),
      may_be_mixed_(options.may_be_mixed),
      remind_after_(options.remind_after),
      roster_(options.size, options.start_timeout, random_number()) {
  require_usable(credentials_);
  if (options.elastic) membership_.emplace(*options.elastic, options.start_timeout, random_number());
  if (options.heir) {
    heir_.emplace(options.elastic.value(), steady_clock::now());
    net::spawn(event_loop_.context(), look_for_stops());
  }
  net::listen(acceptor_, rendezvous::endpoint_to_listen_on(options));
  listening_ = acceptor_.local_endpoint();
  if (!options.metrics.empty())
    metrics_.emplace(event_loop_.context(), "--metrics", options.metrics, 0,
                     [this] { return rendezvous::server_metrics(credentials_.job, stats()); });
  const auto take = [this](tcp::socket socket) {
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    net::spawn(event_loop_.context(), serve(std::make_shared<net::MessageChannel>(std::move(socket))));
  };
  const auto make_room = [this] { half_open_.close_oldest(net::kTimeEnough); };
  net::spawn(event_loop_.context(),
             net::accept_each(acceptor_, {"the rendezvous server", make_room, take, &rejected_}));
}

RendezvousServer::Impl::~Impl() {
  event_loop_.stop();
}

// Serves one connection from its handshake to its end.
asio::awaitable<void> RendezvousServer::Impl::serve(Connection connection) {
  const Roster::MemberId id = next_id_++;
  connections_.emplace(id, connection);
  std::optional<rendezvous::Join> join;
  int arrived = -1;
  try {
    const net::HalfOpen::Place place(half_open_, connection->socket());
    publish_stats();
    const net::Check acceptable = [this](const net::Claim& claim) { return unwelcome(claim); };
    join = co_await rendezvous::receive_join(connection->socket(), credentials_, join_limit_, acceptable, arrived);
  } catch (const net::HandshakeError& error) {
    rejected_.count(error.reason());
    const bool of_another_job = error.reason() == trace::RejectReason::job;
    roster_.refused(text(error.what(), of_another_job ? text("; this is job '", credentials_.job, "'") : ""));
    log(Severity::info, text("rejected a connection: ", error.what()));
    if (arrived >= 0 && error.reason() == trace::RejectReason::gone)
      deliver(roster_.ended_early(arrived, steady_clock::now()));
  } catch (const std::exception& error) {
    log(Severity::info, text("lost a connection: ", error.what()));
  }
  if (join) {
    log(Severity::info, text(rendezvous::describe(*join), " has joined from ", join->address));
    remind();
    deliver(joined(id, *join));
    if (membership_)
      co_await receive_requests(*membership_, connection->socket(), id);
    else
      co_await receive_requests(connection->socket(), id);
  }
  connection->close();
  connections_.erase(id);
  publish_stats();
}

// Handles a Join. A process of the other kind of job (elastic or of a fixed size) is refused, and the job goes on
// without it.
Roster::Sends RendezvousServer::Impl::joined(Roster::MemberId id, const rendezvous::Join& join) {
  const auto refused = [&](std::string_view why) -> Roster::Sends {
    return {{{id}, rendezvous::Failed{ErrorCode::configuration, join.rank, text(rendezvous::describe(join), why)}}};
  };
  if (membership_ && !join.elastic)
    return refused(": this server is for an elastic job, and the process would make a world of a fixed size");
  if (!membership_ && join.elastic)
    return refused(
        ": it is elastic, but the server's job is not; give --min-np to `anello run` or `anello rendezvous`");
  if (heir_ && heir_->is_away) return {{{id}, rendezvous::ComeAgain{}}};
  const auto now = steady_clock::now();
  return membership_ ? membership_->joined(id, join, now) : roster_.joined(id, join, now);
}

// Serves the requests of a process of an elastic job until its connection ends.
asio::awaitable<void> RendezvousServer::Impl::receive_requests(rendezvous::Membership& membership, tcp::socket& socket,
                                                               Roster::MemberId id) {
  net::end_if_cut_off(socket.native_handle(), net::kCutLimit);
  try {
    for (;;) {
      const std::string body = co_await net::read_message(socket, rendezvous::kMaxRequestBytes);
      deliver(membership.received(id, rendezvous::decode_request(body), steady_clock::now()));
      remind();
    }
  } catch (const Error& error) {
    log(Severity::info, text("lost a process of the job: ", error.what()));
    if (error.code() == ErrorCode::protocol)
      deliver(membership.received(id, rendezvous::Fail{error.what(), -1}, steady_clock::now()));
  }
  deliver(membership.disconnected(id, steady_clock::now()));
  remind();
}

Roster::Sends RendezvousServer::Impl::expired() {
  return membership_ ? membership_->expired(steady_clock::now()) : roster_.expired();
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
        deliver(roster_.failed(id, fail->reason, steady_clock::now(), fail->rank));
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
  const auto now = steady_clock::now();
  deliver(broken.empty() ? roster_.disconnected(id, now) : roster_.failed(id, broken, now));
}

std::optional<net::Rejection> RendezvousServer::Impl::unwelcome(const net::Claim& claim) const {
  const auto rejected = [](std::string why) { return net::Rejection{trace::RejectReason::place, std::move(why)}; };
  if (claim.role != net::Role::rendezvous) return rejected("this is a rendezvous server, not a rank");
  if (claim.generation == 0 && heir_ && !heir_->serves) return rejected("this process does not serve the job");
  if (claim.generation == 0) return {};
  const std::string why = heir_ ? heir_->objection(claim) : "this server is not the successor of another one";
  return why.empty() ? std::nullopt : std::optional(rejected(why));
}

void RendezvousServer::Impl::deliver(const Roster::Sends& sends) {
  for (const Roster::Send& send : sends) {
    const auto message = std::make_shared<const std::string>(net::framed(rendezvous::encode(send.reply)));
    const auto* failed = std::get_if<rendezvous::Failed>(&send.reply);
    if (failed) log(Severity::info, text("start-up failed: ", failed->message));
    if (std::holds_alternative<rendezvous::Assigned>(send.reply) && &send == &sends.front()) announce(sends.size());
    for (const Roster::MemberId id : send.to) {
      const auto at = connections_.find(id);
      if (at == connections_.end()) continue;
      at->second->send(message);
      const bool is_last = failed || std::holds_alternative<rendezvous::ComeAgain>(send.reply) ||
                           std::holds_alternative<rendezvous::Over>(send.reply);
      if (is_last) at->second->finish(kLastMessageLimit);
    }
  }
  set_alarm();
  publish_stats();
}

void RendezvousServer::Impl::announce(std::size_t ranks) {
  log(Severity::info, text("all ", ranks, " ranks are here, generation ",
                           membership_ ? membership_->generation() : roster_.generation()));
  const std::string doubt = may_be_mixed_ ? roster_.doubt() : "";
  if (!doubt.empty()) log(Severity::warning, doubt);
}

void RendezvousServer::Impl::set_alarm() {
  alarm_.cancel();
  if (!deadline()) return;
  alarm_.expires_at(*deadline());
  alarm_.async_wait([this](asio::error_code cancelled) {
    if (cancelled || !deadline() || *deadline() > steady_clock::now()) return;
    deliver(expired());
  });
}

// Logs a line from time to time while ranks wait for other ranks.
void RendezvousServer::Impl::remind() {
  if (std::exchange(reminding_, true)) return;
  reminder_.expires_after(remind_after_);
  reminder_.async_wait([this](asio::error_code cancelled) {
    if (cancelled) return;
    reminding_ = false;
    const std::string waiting = membership_ ? membership_->waiting() : roster_.waiting();
    if (waiting.empty()) return;
    log(Severity::warning, waiting);
    remind();
  });
}

void RendezvousServer::Impl::publish_stats() {
  const MutexLock lock(stats_mutex_);
  changed_.notify_all();
  if (membership_) {
    elastic_status_ = membership_->status();
    stats_ = {.generation = membership_->generation(),
              .members = membership_->members(),
              .starting = membership_->phase() == rendezvous::Membership::Phase::starting,
              .worlds_formed = elastic_status_.worlds_formed,
              .rejected_connections = rejected_.counts(),
              .half_open = half_open_.size(),
              .newest = membership_->generation(),
              .last_failure = membership_->last_failure()};
    return;
  }
  stats_ = {roster_.generation(),          roster_.members(),           roster_.phase() == Roster::Phase::starting,
            roster_.worlds_formed(),       rejected_.counts(),          half_open_.size(),
            roster_.formed().ranks.size(), roster_.formed().generation, has_concluded(),
            roster_.last_failure()};
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
  net::spawn(event_loop_.context(), rendezvous::send_abort_notice(roster_.formed(), credentials_, *abort_verdict_));
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
ElasticStatus RendezvousServer::elastic_status() const {
  return impl_->elastic_status();
}
bool RendezvousServer::wait_until_over(std::uint32_t generation, milliseconds limit) const {
  return impl_->wait_until_over(generation, limit);
}
void RendezvousServer::retire(int place) {
  impl_->retire(place);
}
void RendezvousServer::expect(int newcomers) {
  impl_->expect(newcomers);
}
void RendezvousServer::inherit(rendezvous::Lineage lineage, const ElasticLimits& limits, std::uint32_t newest,
                               bool begun) {
  impl_->inherit(std::move(lineage), limits, newest, begun);
}
void RendezvousServer::succeed() {
  impl_->succeed();
}
void RendezvousServer::step_back() {
  impl_->step_back();
}
void RendezvousServer::hand_over() {
  impl_->hand_over();
}
void RendezvousServer::exited(int rank) {
  impl_->exited(rank);
}
void RendezvousServer::conclude(const Error& why, int by) {
  impl_->conclude(why, by);
}
void RendezvousServer::wait_until_concluded(std::chrono::milliseconds limit) const {
  impl_->wait_until_concluded(limit);
}
bool RendezvousServer::abort(int culprit, const std::string& reason) {
  const ServerStats before = stats();
  impl_->abort(culprit, reason);
  return before.members + before.reachable > 0;
}

}  // namespace anello
