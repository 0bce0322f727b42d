#include "ring/net/control_plane.hpp"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/deadline.hpp"

namespace anello {

using asio::awaitable;
using asio::use_awaitable;
using std::chrono::steady_clock;

namespace {

// The ranks 2^i away, both ways round: few connections, few hops, and no single rank whose death cuts others off.
std::vector<int> neighbours_of(int rank, int size) {
  std::vector<int> ranks;
  for (int step = 1; step < size; step *= 2)
    for (const int other : {(rank + step) % size, (rank + size - step) % size})
      if (std::find(ranks.begin(), ranks.end(), other) == ranks.end()) ranks.push_back(other);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

constexpr std::chrono::milliseconds kLagPeriod{10000};
constexpr std::size_t kMaxMessageBytes = 1 + ControlMessage::kMaxBytes;  // its kind and its body

}  // namespace

ControlPlane::ControlPlane(asio::io_context& context, PeerConnections& peer_connections, const Identity& identity,
                           std::vector<std::string> hosts, FlightRecorders& recorders,
                           std::chrono::milliseconds silence_limit, WhenFailed when_failed)
    : context_(context),
      peer_connections_(peer_connections),
      rank_(identity.rank),
      hosts_(hosts),
      recorders_(recorders),
      when_failed_(std::move(when_failed)),
      council_(identity.rank, std::move(hosts),
               [this](std::uint64_t group, std::uint64_t sequence) { return begun(group, sequence); }),
      pulse_(silence_limit),
      laggards_(kLagPeriod),
      expected_(neighbours_of(identity.rank, identity.size)),
      timer_(context) {}

FailureAgreement::Time ControlPlane::now() const {
  return std::chrono::duration_cast<FailureAgreement::Time>(steady_clock::now().time_since_epoch());
}

template <class Change>
void ControlPlane::post(Change change) {
  asio::post(context_, [this, change = std::move(change)] {
    change();
    settle();
  });
}

void ControlPlane::connect(steady_clock::time_point deadline,
                           const std::function<void(std::chrono::milliseconds)>& check) {
  constexpr std::chrono::milliseconds kBetweenChecks{50}, kForTheCause{300};
  for (const int peer : expected_)
    if (peer < rank_) asio::co_spawn(context_, dial(peer, deadline), asio::detached);

  std::unique_lock lock(mutex_);
  const auto ready = [this] { return start_error_ || verdict_ || connected_.size() == expected_.size(); };
  while (!changed_.wait_for(lock, kBetweenChecks, ready) && steady_clock::now() < deadline) {
    lock.unlock();
    check({});
    lock.lock();
  }
  // A connection that ends may be that of a rank that gave up because of another one's death.
  if (start_error_ || (verdict_ && verdict_->code == ErrorCode::rank_dead)) {
    lock.unlock();
    check(kForTheCause);
    lock.lock();
  }
  const bool in_time = ready();
  if (start_error_) throw *start_error_;
  if (verdict_) throw Error(verdict_->code, verdict_->message, verdict_->culprit);
  if (in_time) return;
  std::string missing;
  for (const int peer : expected_)
    if (std::find(connected_.begin(), connected_.end(), peer) == connected_.end())
      missing += text(missing.empty() ? "" : ", ", "rank ", peer, " on ", hosts_[std::size_t(peer)]);
  throw Error(ErrorCode::rendezvous, text("no connection with ", missing, " before ANELLO_START_TIMEOUT ran out"));
}

awaitable<void> ControlPlane::dial(int peer, steady_clock::time_point deadline) {
  try {
    PeerConnections::Socket socket = co_await peer_connections_.connect(peer, Role::control, 0, 0, deadline);
    accepted(peer, std::move(socket));
  } catch (const Error& e) {
    const std::lock_guard lock(mutex_);
    start_error_ = e;
    changed_.notify_all();
  }
}

void ControlPlane::accepted(int peer, PeerConnections::Socket socket) {
  if (neighbours_.contains(peer) || std::find(expected_.begin(), expected_.end(), peer) == expected_.end()) {
    log(Severity::info, text("dropped a second control connection of rank ", peer));
    return;
  }
  auto neighbour = std::make_shared<MessageChannel>(std::move(socket), [this] { settle(); });
  neighbours_.emplace(peer, neighbour);
  asio::co_spawn(context_, listen_to(peer, neighbour), asio::detached);
  pulse_.joined(peer, now());
  {
    const std::lock_guard lock(mutex_);
    connected_.push_back(peer);
  }
  settle();
}

void ControlPlane::take(int peer, std::string_view message) {
  Reader reader("control", message);
  const unsigned kind = reader.u8();
  if (kind == unsigned(MessageKind::frame)) {
    council_.receive(message.substr(1), now());
  } else if (kind == unsigned(MessageKind::beat)) {
    laggards_.told(peer, std::chrono::milliseconds(reader.u64()));
    reader.finish();
  } else {
    throw Error(ErrorCode::protocol, text("control message: unknown kind ", kind));
  }
}

// Whatever it says is said as this rank's own proposal; its connection ends when that is made.
awaitable<void> ControlPlane::obey(PeerConnections::Socket launcher) {
  try {
    const Deadline deadline(launcher, kHandshakeLimit);
    const std::string message = co_await read_message(launcher, kMaxMessageBytes);
    if (message.empty() || message[0] != char(MessageKind::frame)) throw Error(ErrorCode::protocol, "not a frame");
    const ControlMessage frame = decode_control_message(std::string_view(message).substr(1), int(hosts_.size()));
    if (frame.type != ControlMessage::Type::proposal) throw Error(ErrorCode::protocol, "not a proposal");
    council_.propose(frame.verdict, now());
    settle();
  } catch (const std::exception& e) {
    log(Severity::warning, text("what the launcher says is not understood: ", e.what()));
  }
}

void ControlPlane::commanded(PeerConnections::Socket launcher) {
  asio::co_spawn(context_, obey(std::move(launcher)), asio::detached);
}

awaitable<void> ControlPlane::listen_to(int peer, Shared neighbour) {
  std::string how;
  try {
    for (;;) {
      const std::string message =
          co_await read_message(neighbour->socket(), kMaxMessageBytes, "its control connection");
      pulse_.heard(peer, now());
      take(peer, message);
      settle();
    }
  } catch (const Error& e) {
    how = e.what();
    if (e.code() != ErrorCode::network) {
      how = text("it sent an invalid ", how);
      council_.propose({e.code(), peer, text("rank ", peer, " on ", hosts_[std::size_t(peer)], ": ", how)}, now());
      settle();  // before the connection is closed, which others may hear of first
    }
  }
  ended(peer, how);
}

void ControlPlane::ended(int peer, const std::string& how) {
  neighbours_.at(peer)->close();
  neighbours_.erase(peer);
  pulse_.left(peer);
  laggards_.left(peer);
  if (!leaving_) council_.lost(peer, how, now());
  settle();
}

bool ControlPlane::all_sent() const {
  return std::none_of(neighbours_.begin(), neighbours_.end(), [](const auto& n) { return n.second->sending(); });
}

void ControlPlane::settle() {
  warn_of_parted();
  for (const std::string& frame : council_.take_outbox()) {
    const auto bytes = std::make_shared<const std::string>(message(MessageKind::frame, frame));
    for (const auto& [peer, neighbour] : neighbours_) neighbour->send(bytes);
  }
  for (const std::string& report : council_.take_reports())
    if (rank_ == 0) log(Severity::warning, report);
  publish();
  constexpr auto kNever = FailureAgreement::Time::max();
  const auto due = std::min(council_.due().value_or(kNever), pulse_.due().value_or(kNever));
  if (due == kNever) return;
  timer_.expires_at(steady_clock::time_point(due));
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

void ControlPlane::tick() {
  const FailureAgreement::Time time = now();
  const HeartbeatMonitor::Due due = pulse_.tick(time);
  for (const int peer : due.silent) council_.silent(peer, pulse_.limit(), time);
  if (due.beat) beat();
  council_.tick(time);
  settle();
}

// Who does not read gets no more of them.
void ControlPlane::beat() {
  const std::int64_t slept_ns = clock_.scale().nanoseconds(recorders_.totals().slept);
  const auto waited = std::chrono::milliseconds(slept_ns / 1'000'000);
  Writer body;
  body.u64(std::uint64_t(waited.count()));
  const auto bytes = std::make_shared<const std::string>(message(MessageKind::beat, body.bytes()));
  for (const auto& [peer, neighbour] : neighbours_)
    if (!neighbour->queued()) neighbour->send(bytes);
  for (const Straggler& lag : laggards_.look(waited, now())) council_.slow(lag, now());
}

void ControlPlane::publish() {
  bool fresh = false;
  {
    const std::lock_guard lock(mutex_);
    sent_ = leaving_ && all_sent();
    closed_ = leaving_ && neighbours_.empty();
    fresh = council_.verdict() && !verdict_;
    if (fresh) verdict_ = council_.verdict();
  }
  if (fresh) fail();
  changed_.notify_all();
}

void ControlPlane::fail() {
  failed_.store(true, std::memory_order_release);
  for (const auto& recorder : recorders_.all()) recorder->bell().ring();
  when_failed_(council_.verdict()->message);
  const std::lock_guard lock(mutex_);
  dealt_with_ = true;
}

void ControlPlane::warn_of_parted() {
  for (const auto& recorder : recorders_.all())
    if (const std::uint64_t end = council_.ends_at(recorder->group()); end != UINT64_MAX)
      if (const auto signature = recorder->ends_at(end)) council_.needs(*signature, now());
}

Error ControlPlane::error() const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(2), [this] { return verdict_.has_value(); });
  if (verdict_) changed_.wait_for(lock, std::chrono::seconds(1), [this] { return dealt_with_; });
  if (verdict_) return Error(verdict_->code, verdict_->message, verdict_->culprit);
  return Error(ErrorCode::network, "a connection was lost, and the ranks did not agree on why");
}

void ControlPlane::enroll(std::shared_ptr<FlightRecorder> recorder) {
  if (recorder->group() != 0)
    post([this, recorder] { council_.enroll(recorder->group(), recorder->name(), recorder->members(), now()); });
}

void ControlPlane::part(std::uint64_t group, std::uint64_t completed) {
  post([this, group, completed] {
    council_.goodbye(group, completed);
    recorders_.remove(group);
  });
}

void ControlPlane::needs(const Signature& signature) {
  post([this, signature] { council_.needs(signature, now()); });
}

std::optional<Signature> ControlPlane::begun(std::uint64_t group, std::uint64_t sequence) const {
  const auto recorder = recorders_.find(group);
  return recorder ? recorder->begun(sequence) : std::nullopt;
}

void ControlPlane::waiting(const Signature& signature) {
  post([this, signature] { council_.waiting(signature, now()); });
}
void ControlPlane::stalled(const Signature& signature) {
  post([this, signature] { council_.stalled(signature, now()); });
}
void ControlPlane::overdue(const Signature& signature) {
  post([this, signature] { council_.overdue(signature, now()); });
}
void ControlPlane::suspect(int peer, std::uint64_t group, std::string how) {
  post([this, peer, group, how = std::move(how)] { council_.suspect(peer, group, how, now()); });
}
void ControlPlane::propose(Verdict verdict) {
  post([this, verdict = std::move(verdict)] { council_.propose(verdict, now()); });
}
void ControlPlane::abort(Verdict verdict) {
  failed_.store(true, std::memory_order_release);
  propose(std::move(verdict));
}

// The neighbours close when they have read the goodbye; only then may this side close, since closing with something
// unread would make the kernel drop what is still on its way to them.
void ControlPlane::leave(std::uint64_t completed, std::chrono::milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  post([this, completed] {
    leaving_ = true;
    peer_connections_.close();
    council_.goodbye(0, completed);
  });
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return sent_; });
  post([this] {
    asio::error_code ignored;
    for (const auto& [peer, neighbour] : neighbours_)
      neighbour->socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  });
  changed_.wait_until(lock, deadline, [this] { return closed_; });
}

}  // namespace anello
