#include "ring/control/control_plane.hpp"

#include <algorithm>
#include <asio/post.hpp>

#include "ring/base/log.hpp"
#include "ring/base/memory_reserve.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/spawn.hpp"

namespace anello::control {

using asio::awaitable;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kLate{300};

}  // namespace

ControlPlane::ControlPlane(asio::io_context& context, net::PeerConnections& peer_connections, const Identity& identity,
                           std::vector<std::string> hosts, trace::FlightRecorders& recorders,
                           std::chrono::milliseconds silence_limit, WhenFailed when_failed)
    : context_(context),
      peer_connections_(peer_connections),
      rank_(identity.rank),
      hosts_(hosts),
      recorders_(recorders),
      when_failed_(std::move(when_failed)),
      groups_(recorders),
      detector_(identity.rank, std::move(hosts),
                [this](std::uint64_t group, std::uint64_t sequence) { return groups_.recall(group, sequence); }),
      neighbours_(silence_limit),
      pinger_({context, peer_connections, neighbours_, detector_, rank_, hosts_, [this] { flush(); },
               [this] { check_standstill(); }}),
      expected_(failure::control_neighbours(identity.rank, identity.size)),
      timer_(context) {}

failure::FailureDetector::Time ControlPlane::now() const {
  return std::chrono::duration_cast<failure::FailureDetector::Time>(steady_clock::now().time_since_epoch());
}

template <class Change>
void ControlPlane::post(Change change) {
  asio::post(context_, [this, change = std::move(change)] {
    change();
    flush();
  });
}

template <class Change>
void ControlPlane::post(net::ReservedPost& place, Change change) noexcept {
  place.post(context_, [this, change = std::move(change)] {
    change();
    flush();
  });
}

void ControlPlane::handle(int peer, std::string_view message) {
  Reader reader("control", message);
  const unsigned kind = reader.u8();
  if (kind == unsigned(net::MessageKind::frame)) {
    receive_frame(peer, message.substr(1));
  } else if (kind == unsigned(net::MessageKind::beat)) {
    neighbours_.stragglers().received(peer, std::chrono::milliseconds(reader.u64()));
    reader.finish();
  } else {
    throw Error(ErrorCode::protocol, text("control message: unknown kind ", kind));
  }
}

void ControlPlane::receive_frame(int peer, std::string_view body) {
  detector_.receive(body, now());
  if (leaving_ && detector_.is_own_goodbye(body)) neighbours_.read_goodbye(peer);
  if (!leaving_ && detector_.is_goodbye_of(peer, body)) neighbours_.send(peer, body);
}

// The launcher sends a verdict: proposes it as this rank's own, then closes the connection. The launcher tries the
// lower ranks first. So when it connects to this rank, either the arbiter did not answer, or this rank is the arbiter.
awaitable<void> ControlPlane::read_abort(net::PeerConnections::Socket launcher) {
  try {
    const net::Deadline deadline(launcher, net::kHandshakeLimit);
    const std::string message = co_await net::read_message(launcher, kMaxMessageBytes);
    if (message.empty() || message[0] != char(net::MessageKind::frame))
      throw Error(ErrorCode::protocol, "not a control message");
    const failure::ControlMessage abort =
        failure::decode_control_message(std::string_view(message).substr(1), int(hosts_.size()));
    if (abort.type != failure::ControlMessage::Type::proposal) throw Error(ErrorCode::protocol, "not a proposal");
    detector_.propose(abort.verdict, now(), failure::FailureAgreement::kSilentArbiterLimit);
    flush();
  } catch (const std::exception& e) {
    log(Severity::warning, text("ignored an invalid message of the launcher: ", e.what()));
  }
}

void ControlPlane::receive_abort(net::PeerConnections::Socket launcher) {
  net::spawn(context_, read_abort(std::move(launcher)));
}

void ControlPlane::flush() {
  groups_.check_departures(detector_, now());
  for (const std::string& body : detector_.take_outbox()) neighbours_.send_to_all(body);
  for (const int peer : detector_.take_calls(now()))
    if (!leaving_) net::spawn(context_, mend(peer));
  for (const std::string& report : detector_.take_reports())
    if (detector_.is_lowest()) log(Severity::warning, report);
  publish();
  constexpr auto kNever = failure::FailureDetector::Time::max();
  const auto due = std::min(detector_.due().value_or(kNever), neighbours_.heartbeats().due().value_or(kNever));
  if (due == kNever) return;
  timer_.expires_at(steady_clock::time_point(due));
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

// A timer that fires late shows that this process was stopped. The timer is due at least once a second, and the other
// ranks wait for the arbiter longer than a second. So every stop that matters to them is noticed.
void ControlPlane::check_standstill() {
  const failure::FailureDetector::Time time = now();
  const auto due = neighbours_.heartbeats().due();
  if (!due || time <= *due + kLate) return;
  pinger_.resumed(steady_clock::now());
  detector_.stood_still(time);
}

void ControlPlane::tick() {
  check_standstill();
  const failure::FailureDetector::Time time = now();
  failure::HeartbeatMonitor& heartbeats = neighbours_.heartbeats();
  const failure::HeartbeatMonitor::Due due = heartbeats.tick(time);
  for (const int peer : due.silent) {
    if (leaving_)
      neighbours_.close(peer);
    else
      detector_.silent(peer, heartbeats.limit(), time);
  }
  if (due.heartbeat) beat();
  detector_.tick(time);
  flush();
}

// Returns the total time that this rank has slept in operations.
std::chrono::milliseconds ControlPlane::slept() const {
  return std::chrono::milliseconds(clock_.scale().nanoseconds(recorders_.totals().slept) / 1'000'000);
}

void ControlPlane::beat() {
  neighbours_.send_heartbeats(slept());
  failure::StragglerDetector& stragglers = neighbours_.stragglers();
  if (!stragglers.is_due(now())) return;
  for (const failure::Straggler& straggler : stragglers.check(groups_.waits(clock_.scale()), now()))
    detector_.slow(straggler, now());
}

void ControlPlane::publish() {
  const auto has_left = [this](int peer) { return detector_.has_left(peer); };
  const bool read = leaving_ && neighbours_.all_read_goodbye(has_left);
  if (!published_.publish(detector_.verdict(), read, leaving_ && neighbours_.empty())) return;
  groups_.ring_bells();
  when_failed_(*detector_.verdict());
  published_.handled();
}

void ControlPlane::enroll(std::shared_ptr<const link::GroupInfo> group) {
  groups_.add(group);
  if (group->id != 0) post([this, group] { detector_.enroll(group->id, group->name, group->members, now()); });
}

void ControlPlane::leave_group(std::uint64_t group, std::uint64_t completed) noexcept {
  groups_.say_goodbye(group, [&](net::ReservedPost& place) {
    post(place, [this, group, completed] {
      detector_.leave(group, completed);
      groups_.remove(group);
    });
  });
}

void ControlPlane::leaves_by_exception() noexcept {
  post(exception_, [this] { detector_.leaves_by_exception(); });
}

void ControlPlane::needs(const Signature& signature) {
  post([this, signature] { detector_.needs(signature, now()); });
}

void ControlPlane::needs_messages(std::uint64_t group, std::uint64_t completed, std::string conflict) {
  post([this, group, completed, conflict = std::move(conflict)] {
    detector_.needs_messages(group, completed, conflict, now());
  });
}

void ControlPlane::waiting(const Signature& signature) {
  post([this, signature] { detector_.waiting(signature, now()); });
}
void ControlPlane::moving(const Signature& signature) {
  post([this, signature] { detector_.moving(signature); });
}
void ControlPlane::differs(const NamedSignature& mine, int peer, const Signature& theirs, failure::Verdict verdict) {
  post([=, this, verdict = std::move(verdict)] { detector_.differs(mine, peer, theirs, verdict, now()); });
}
void ControlPlane::contradicts(const NamedSignature& mine, std::vector<int> peers, failure::Verdict verdict) {
  post([=, this, peers = std::move(peers), verdict = std::move(verdict)] {
    detector_.contradicts(mine, peers, verdict, now());
  });
}
void ControlPlane::refused(std::uint64_t group, std::uint64_t sequence, std::string reason) {
  post([=, this, reason = std::move(reason)] { detector_.refused(group, {sequence, reason}, now()); });
}
void ControlPlane::stalled(const Signature& signature, std::chrono::milliseconds period) {
  post([this, signature, period] { detector_.stalled(signature, period, now()); });
}
void ControlPlane::overdue(const Signature& signature, std::chrono::milliseconds limit) {
  post([this, signature, limit] { detector_.overdue(signature, limit, now()); });
}
void ControlPlane::ping(int peer) {
  post([this, peer] { pinger_.ping(peer); });
}
void ControlPlane::suspect(int peer, std::uint64_t group, std::string how) {
  post([this, peer, group, how = std::move(how)] { detector_.suspect(peer, group, how, now()); });
}
void ControlPlane::propose(failure::Verdict verdict) {
  post([this, verdict = std::move(verdict)] { detector_.propose(verdict, now()); });
}
void ControlPlane::abort(failure::Verdict verdict) {
  published_.set_failed();
  propose(std::move(verdict));
}

void ControlPlane::abort_without_memory() noexcept {
  published_.set_failed();
  release_memory_reserve();
  post(abort_, [this] {
    const std::string why = text("rank ", rank_, " on ", hosts_[std::size_t(rank_)], " cannot go on: out of memory");
    detector_.propose({ErrorCode::aborted, rank_, why}, now());
  });
}

// Leaving has two steps.
//
// 1. This rank sends its goodbye, and each neighbour echoes it after reading it. A neighbour may have sent its own
//    goodbye before the echo. If all neighbours of this neighbour left now, no rank would pass on the neighbour's
//    goodbye. So this rank waits for the echoes, then passes on everything that it has received.
//
// 2. The neighbours close their side after they have read to the end. Only then may this side close: if it closed with
//    unread bytes, the kernel would drop data that is still on its way to them. On a busy host, the threads of both
//    sides may not run for seconds, and a neighbour that has no goodbye takes the end of the connection for a death.
//
// In a world that has failed, this rank does not wait for the neighbours to read: they find the messages when they run
// again. It does not wait at all for a silent rank: no byte from such a rank is unread, so nothing is dropped.
void ControlPlane::leave(std::uint64_t completed) {
  if (context_.get_executor().running_in_this_thread()) return;
  constexpr std::chrono::milliseconds kMaxWithoutLimit{10000};
  const auto silence = neighbours_.heartbeats().limit();
  const auto limit = silence.count() > 0 ? silence : kMaxWithoutLimit;
  const auto began = steady_clock::now();
  post(goodbye_, [this, completed] {
    leaving_ = true;
    pinger_.stop();
    peer_connections_.close();
    detector_.leave(0, completed);
  });
  published_.wait_until_read(began + limit / 2);
  post(end_, [this, limit] {
    detector_.pass_on();
    flush();
    neighbours_.finish_all(limit);
    if (const auto& verdict = detector_.verdict(); verdict && verdict->code == ErrorCode::rank_silent)
      neighbours_.close(verdict->culprit);
    published_.set_sent();
  });
  published_.wait_until_sent(began + limit);
  published_.wait_until_closed(failed() ? std::min(began + limit, steady_clock::now() + kMaxIfFailed) : began + limit);
}

}  // namespace anello::control
