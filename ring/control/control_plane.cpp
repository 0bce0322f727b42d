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

constexpr std::chrono::milliseconds kStragglerPeriod{10000}, kLate{300};
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
      detector_(identity.rank, std::move(hosts),
                [this](std::uint64_t group, std::uint64_t sequence) { return recall(group, sequence); }),
      heartbeats_(silence_limit),
      stragglers_(kStragglerPeriod),
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
    stragglers_.received(peer, std::chrono::milliseconds(reader.u64()));
    reader.finish();
  } else {
    throw Error(ErrorCode::protocol, text("control message: unknown kind ", kind));
  }
}

void ControlPlane::receive_frame(int peer, std::string_view body) {
  detector_.receive(body, now());
  if (leaving_ && detector_.is_own_goodbye(body)) read_goodbye_.insert(peer);
  if (!leaving_ && detector_.is_goodbye_of(peer, body))
    neighbours_.at(peer)->send(std::make_shared<const std::string>(net::message(net::MessageKind::frame, body)));
}

// Proposes the launcher's verdict as this rank's own, then closes the connection. The launcher tries the lower ranks
// first, so if it comes to this rank, the arbiter did not answer, or is this rank.
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

bool ControlPlane::all_read_goodbye() const {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [this](const auto& each) {
    return read_goodbye_.contains(each.first) || detector_.has_left(each.first);
  });
}

void ControlPlane::flush() {
  check_departures();
  for (const std::string& body : detector_.take_outbox()) {
    const auto bytes = std::make_shared<const std::string>(net::message(net::MessageKind::frame, body));
    for (const auto& [peer, neighbour] : neighbours_) neighbour->send(bytes);
  }
  for (const int peer : detector_.take_calls(now()))
    if (!leaving_) net::spawn(context_, mend(peer));
  for (const std::string& report : detector_.take_reports())
    if (detector_.is_lowest()) log(Severity::warning, report);
  publish();
  constexpr auto kNever = failure::FailureDetector::Time::max();
  const auto due = std::min(detector_.due().value_or(kNever), heartbeats_.due().value_or(kNever));
  if (due == kNever) return;
  timer_.expires_at(steady_clock::time_point(due));
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

// A late timer shows that the process was stopped. The timer is due at least once a second, and the other ranks wait
// longer than that for the arbiter, so a stop that long is always noticed.
void ControlPlane::check_standstill() {
  const failure::FailureDetector::Time time = now();
  const auto due = heartbeats_.due();
  if (!due || time <= *due + kLate) return;
  resumed_ = steady_clock::now();
  detector_.stood_still(time);
}

void ControlPlane::tick() {
  check_standstill();
  const failure::FailureDetector::Time time = now();
  const failure::HeartbeatMonitor::Due due = heartbeats_.tick(time);
  for (const int peer : due.silent) {
    const auto neighbour = neighbours_.find(peer);  // absent if it was only pinged
    if (!leaving_)
      detector_.silent(peer, heartbeats_.limit(), time);
    else if (neighbour != neighbours_.end())
      neighbour->second->close();
  }
  if (due.heartbeat) send_heartbeats();
  detector_.tick(time);
  flush();
}

// Makes a heartbeat, which has the total time that this rank has slept in operations.
net::MessageChannel::Message ControlPlane::heartbeat() const {
  const auto slept = std::uint64_t(clock_.scale().nanoseconds(recorders_.totals().slept) / 1'000'000);
  return std::make_shared<const std::string>(net::message(net::MessageKind::beat, Writer().u64(slept).bytes()));
}

// A neighbour that does not read its queued messages gets no more heartbeats.
void ControlPlane::send_heartbeats() {
  const net::MessageChannel::Message bytes = heartbeat();
  for (const auto& [peer, neighbour] : neighbours_)
    if (!neighbour->queued()) neighbour->send(bytes);
  if (!stragglers_.is_due(now())) return;
  for (const failure::Straggler& straggler : stragglers_.check(waits_by_group(), now()))
    detector_.slow(straggler, now());
}

failure::StragglerDetector::Groups ControlPlane::waits_by_group() const {
  failure::StragglerDetector::Groups groups;
  for (auto& [id, members, totals] : recorders_.totals_by_group()) {
    const auto slept = std::chrono::nanoseconds(clock_.scale().nanoseconds(totals.slept));
    auto& group = groups[id];
    group = {std::move(members), std::chrono::duration_cast<std::chrono::milliseconds>(slept)};
    for (const auto& kind : totals.kinds) group.completed += kind.operations;
  }
  return groups;
}

void ControlPlane::publish() {
  bool fresh = false;
  {
    const MutexLock lock(mutex_);
    read_ = leaving_ && all_read_goodbye();
    closed_ = leaving_ && neighbours_.empty();
    fresh = detector_.verdict() && !verdict_;
    if (fresh) verdict_ = detector_.verdict();
  }
  if (fresh) fail();
  changed_.notify_all();
}

void ControlPlane::fail() {
  failed_.store(true, std::memory_order_release);
  for (const auto& group : groups()) group->bell->ring();
  when_failed_(*detector_.verdict());
  const MutexLock lock(mutex_);
  handled_ = true;
}

void ControlPlane::check_departures() {
  for (const auto& group : groups())
    if (const std::uint64_t end = detector_.ends_at(group->id); end != UINT64_MAX)
      if (const auto recorder = recorders_.find(group->id))
        if (const auto signature = recorder->ends_at(end)) detector_.needs(*signature, now());
}

Error ControlPlane::error() const {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(3), [this]() ANELLO_REQUIRES(mutex_) { return verdict_.has_value(); });
  if (verdict_) changed_.wait_for(lock, std::chrono::seconds(1), [this]() ANELLO_REQUIRES(mutex_) { return handled_; });
  if (verdict_) return Error(verdict_->code, verdict_->message, verdict_->culprit);
  return Error(ErrorCode::network, "a connection was lost, and the ranks did not agree on why");
}

void ControlPlane::enroll(std::shared_ptr<const link::GroupInfo> group) {
  {
    const MutexLock lock(mutex_);
    groups_[group->id].info = group;
  }
  if (group->id != 0) post([this, group] { detector_.enroll(group->id, group->name, group->members, now()); });
}

std::vector<std::shared_ptr<const link::GroupInfo>> ControlPlane::groups() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<const link::GroupInfo>> all;
  for (const auto& [id, group] : groups_) all.push_back(group.info);
  return all;
}

void ControlPlane::leave_group(std::uint64_t group, std::uint64_t completed) noexcept {
  const MutexLock lock(mutex_);
  const auto enrolled = groups_.find(group);
  if (enrolled == groups_.end()) return;
  post(enrolled->second.goodbye, [this, group, completed] {
    detector_.leave(group, completed);
    recorders_.remove(group);
    const MutexLock lock_of_groups(mutex_);
    groups_.erase(group);
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

std::optional<Call> ControlPlane::recall(std::uint64_t group, std::uint64_t sequence) const {
  const auto recorder = recorders_.find(group);
  return recorder ? recorder->begun(sequence) : std::nullopt;
}

void ControlPlane::waiting(const Signature& signature) {
  post([this, signature] { detector_.waiting(signature, now()); });
}
void ControlPlane::moving(const Signature& signature) {
  post([this, signature] { detector_.moving(signature); });
}
void ControlPlane::differs(const Call& mine, int peer, const Signature& theirs, failure::Verdict verdict) {
  post([=, this, verdict = std::move(verdict)] { detector_.differs(mine, peer, theirs, verdict, now()); });
}
void ControlPlane::contradicts(const Call& mine, std::vector<int> peers, failure::Verdict verdict) {
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
  post([this, peer] {
    to_ping_.insert(peer);
    if (!pinging_) net::spawn(context_, ping_all());
  });
}
void ControlPlane::suspect(int peer, std::uint64_t group, std::string how) {
  post([this, peer, group, how = std::move(how)] { detector_.suspect(peer, group, how, now()); });
}
void ControlPlane::propose(failure::Verdict verdict) {
  post([this, verdict = std::move(verdict)] { detector_.propose(verdict, now()); });
}
void ControlPlane::abort(failure::Verdict verdict) {
  failed_.store(true, std::memory_order_release);
  propose(std::move(verdict));
}

void ControlPlane::abort_without_memory() noexcept {
  failed_.store(true, std::memory_order_release);
  release_memory_reserve();
  post(abort_, [this] {
    const std::string why = text("rank ", rank_, " on ", hosts_[std::size_t(rank_)], " cannot go on: out of memory");
    detector_.propose({ErrorCode::aborted, rank_, why}, now());
  });
}

// A neighbour echoes the goodbye when it has read it. Before that, the neighbour may have sent a goodbye of its own. If
// all the neighbours of that rank leave now, no other rank passes this goodbye on; so this rank waits for the echo, and
// then passes on everything that it has received.
//
// The neighbours close their side when they have read the end. Only then may this side close: if it closed with unread
// bytes, the kernel would drop data that is still on its way to them. On a busy host their threads, and this rank's
// own, may not run for seconds, and a neighbour that has no goodbye takes the end of the connection for a death.
//
// In a world that has failed, this rank need not wait until they have read: they find the messages when they run again.
void ControlPlane::leave(std::uint64_t completed) {
  if (context_.get_executor().running_in_this_thread()) return;
  constexpr std::chrono::milliseconds kMaxWithoutLimit{10000};
  const auto limit = heartbeats_.limit().count() > 0 ? heartbeats_.limit() : kMaxWithoutLimit;
  const auto began = steady_clock::now();
  post(goodbye_, [this, completed] {
    leaving_ = true;
    peer_connections_.close();
    detector_.leave(0, completed);
  });
  MutexLock lock(mutex_);
  changed_.wait_until(lock, began + limit / 2, [this]() ANELLO_REQUIRES(mutex_) { return read_ || failed(); });
  post(end_, [this, limit] {
    detector_.pass_on();
    flush();
    for (const auto& [peer, neighbour] : neighbours_) neighbour->finish(limit);
    const MutexLock lock_of_sent(mutex_);
    sent_ = true;
  });
  changed_.wait_until(lock, began + limit, [this]() ANELLO_REQUIRES(mutex_) { return closed_ || (sent_ && failed()); });
  const auto end = failed() ? std::min(began + limit, steady_clock::now() + kMaxIfFailed) : began + limit;
  changed_.wait_until(lock, end, [this]() ANELLO_REQUIRES(mutex_) { return closed_; });
}

}  // namespace anello::control
