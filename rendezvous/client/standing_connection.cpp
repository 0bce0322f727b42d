#include "rendezvous/client/standing_connection.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <future>
#include <utility>

#include "rendezvous/client/own_join.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/look.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/sockets.hpp"
#include "ring/net/spawn.hpp"

namespace anello::rendezvous {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kSilentServer{10000}, kReminder{10000};
// Further time in which the server can report a failure before this process does, because the server's message names
// the culprit.
constexpr milliseconds kFirstWord{5000};
constexpr milliseconds kSilentSuccessor{3000};  // minimum, because a server asks every second
constexpr milliseconds kEndLimit{1000};         // time in which the end of the server must become certain

// Returns the limit of silence for a server that no other process may replace while the server is silent.
milliseconds patience_with_server(const Settings& settings) {
  return std::max(settings.start_timeout, kSilentServer);
}

}  // namespace

StandingConnection::StandingConnection(const Settings& settings, std::string secret)
    : settings_(settings), silence_(patience_with_server(settings)) {
  ServerConnection connection(settings, {settings.job, secret}, {});
  connection.connect(steady_clock::now() + settings.start_timeout);
  const std::vector<std::string> addresses =
      own_addresses(settings, secret, connection.local_address(), false, net::local_interfaces());
  identity_.job = settings.job;
  identity_.secret = std::move(secret);
  identity_.address = addresses.front();
  identity_.further_addresses.assign(addresses.begin() + 1, addresses.end());
  begin(connection, settings.local_rank);
}

StandingConnection::StandingConnection(const Settings& settings, const Transfer& transfer)
    : settings_(settings),
      identity_(transfer.identity),
      transfers_(true),
      silence_(std::max(transfer.silence, kSilentSuccessor)) {
  ServerConnection connection(settings, {settings.job, identity_.secret}, transfer.to);
  connection.connect(steady_clock::now() + transfer.limit);
  begin(connection, identity_.local_rank);
}

void StandingConnection::begin(ServerConnection& connection, int local_rank) {
  Join mine = join_of_this_process(settings_, identity_.address);
  mine.local_rank = local_rank;
  mine.elastic = true;
  connection.send(mine);
  channel_ = std::make_shared<net::MessageChannel>(connection.release(event_loop_.context()));
  asio::error_code ended;
  server_ = channel_->socket().remote_endpoint(ended);
  net::end_if_cut_off(channel_->socket().native_handle(), net::kCutLimit);
  net::spawn(event_loop_.context(), receive());
}

StandingConnection::~StandingConnection() {
  event_loop_.stop();
}

void StandingConnection::pass_on(LeaveNotice& notice) {
  notice.receive(event_loop_.context(), [this] { send(Retire{}); });
}

asio::awaitable<void> StandingConnection::receive() {
  std::string why;
  bool closed = false;
  try {
    for (;;) {
      const Reply reply = decode_reply(co_await net::read_message(channel_->socket(), kMaxReplyBytes));
      const MutexLock lock(mutex_);
      take(reply);
      last_message_ = steady_clock::now();
      changed_.notify_all();
    }
  } catch (const net::ConnectionClosed& end) {
    why = end.what();
    closed = true;
  } catch (const Error& error) {
    why = error.what();
  }
  channel_->close();
  {
    const MutexLock lock(mutex_);
    gate_.lost_server();
    changed_.notify_all();
  }
  const bool gone = closed && co_await server_has_ended();
  const MutexLock lock(mutex_);
  gone_ = gone;
  if (!refused_ && !over_ && !sent_away_ && !transfers_)
    log(Severity::warning,
        gone_ && may_be_succeeded_
            ? text("the rendezvous server has ended; when this world ends, one of its ranks will go on as the server")
            : text("the connection with the rendezvous has ended, so this process cannot enter another world: ", why));
  lost_ = std::move(why);
  changed_.notify_all();
}

// Call this when the connection was closed. A server that has only closed this connection still accepts other
// connections. The kernel may close a process's connections a moment before its listener.
asio::awaitable<bool> StandingConnection::server_has_ended() {
  const net::Credentials credentials{settings_.job, identity_.secret};
  const net::Claim claim{net::Role::rendezvous, 0, settings_.rank, -1};
  const auto deadline = steady_clock::now() + kEndLimit;
  asio::steady_timer pause(event_loop_.context());
  asio::error_code ignored;
  while (time_left(deadline).count() > 0) {
    const Look seen = co_await look(server_.address().to_string(), server_.port(), credentials, claim, kEndLimit);
    if (seen.outcome != Look::Outcome::silent) co_return seen.outcome == Look::Outcome::no_entry;
    pause.expires_after(kFirstRest / 10);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return false;
}

// Answers the server's questions, also while the program computes. Keeps all other messages for the thread that makes
// the worlds.
void StandingConnection::take(const Reply& reply) {
  const auto answer = [&](const Request& request) {
    channel_->send(std::make_shared<const std::string>(net::framed(encode(request))));
  };
  if (std::holds_alternative<AskPresence>(reply)) return answer(Present{});
  if (std::holds_alternative<AskCommits>(reply)) {
    gate_.asked(commits_);
    return answer(Commits{commits_});
  }
  if (const auto* boundary = std::get_if<Boundary>(&reply)) return gate_.announced(boundary->commit);
  if (const auto* failed = std::get_if<Failed>(&reply)) {
    refused_ = *failed;
  } else if (const auto* again = std::get_if<Again>(&reply)) {
    again_ = again->reason.empty() ? "a process has ended" : again->reason;
  } else {
    if (const auto* assigned = std::get_if<Assigned>(&reply)) {
      transfers_ = false;
      silence_ = patience_with_server(settings_);
      may_be_succeeded_ = assigned->inherited.max > 0;
      gate_.enter_world();
      again_.clear();
      answers_.clear();  // removes the answers that belong to the last start
    }
    over_ |= std::holds_alternative<Over>(reply);
    sent_away_ |= std::holds_alternative<ComeAgain>(reply);
    answers_.push_back(reply);
  }
}

void StandingConnection::send(const Request& request) {
  asio::post(
      event_loop_.context(),
      [this, message = std::make_shared<const std::string>(net::framed(encode(request)))] { channel_->send(message); });
}

bool StandingConnection::start_is_over(milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  MutexLock lock(mutex_);
  for (;;) {
    if (refused_ || !again_.empty() || !lost_.empty()) return true;
    if (time_left(deadline).count() == 0) return false;
    changed_.wait_for(lock, Interruption::slice(time_left(deadline)));
  }
}

void StandingConnection::throw_if_lost() const {
  if (refused_) throw StartFailed(refused_->code, refused_->message, refused_->rank);
  if (!lost_.empty() && transfers_) throw MeetAgain(ErrorCode::rendezvous, lost_);
  if (gone_ && may_be_succeeded_)
    throw ServerGone(ErrorCode::rendezvous, text("the rendezvous server at ", settings_.rendezvous, " has ended"));
  if (!lost_.empty())
    throw Error(ErrorCode::rendezvous,
                text("this process cannot enter another world, because its connection with the rendezvous at ",
                     settings_.rendezvous, " has ended: ", lost_));
}

void StandingConnection::throw_as_silent() const {
  const std::string why = text("the rendezvous at ", settings_.rendezvous, " has not answered for ", seconds(silence_),
                               ": its process is stopped or hangs");
  if (transfers_) throw MeetAgain(ErrorCode::rendezvous, why);
  throw Error(ErrorCode::rendezvous, text("this process cannot enter another world: ", why));
}

void StandingConnection::throw_if_over() const {
  throw_if_lost();
  if (!again_.empty()) throw Error(ErrorCode::rendezvous, text("the world cannot start: ", again_));
}

Reply StandingConnection::await(steady_clock::time_point deadline, bool enters) {
  auto reminder = steady_clock::now() + kReminder;
  MutexLock lock(mutex_);
  last_message_ = std::max(last_message_, steady_clock::now());
  while (answers_.empty()) {
    enters ? throw_if_lost() : throw_if_over();
    const milliseconds left = time_left(deadline);
    if (enters && time_left(last_message_ + silence_).count() == 0) throw_as_silent();
    if (enters && time_left(reminder).count() == 0) {
      log(Severity::warning, text("waiting for the rendezvous at ", settings_.rendezvous, " to begin the next world"));
      reminder = steady_clock::now() + kReminder;
    }
    if (left.count() == 0)
      throw Error(ErrorCode::timed_out, text("rendezvous at ", settings_.rendezvous, ": no answer"));
    changed_.wait_for(lock, Interruption::slice(std::min<milliseconds>({left, kReminder, silence_})));
    Interruption::check();
  }
  Reply reply = std::move(answers_.front());
  answers_.pop_front();
  return reply;
}

// Waits without a limit while the server answers. Only the server decides how long to wait, because the other processes
// may still compute, or there may be too few processes.
std::optional<Assigned> StandingConnection::enter(std::uint32_t generation) {
  send(Enter{generation});
  for (;;) {
    const Reply reply = await(steady_clock::time_point::max(), true);
    if (std::holds_alternative<Over>(reply)) return {};
    if (std::holds_alternative<ComeAgain>(reply))
      throw MeetAgain(ErrorCode::rendezvous, "another process is the successor of the server");
    const auto* assigned = std::get_if<Assigned>(&reply);
    if (!assigned) continue;  // ignores an answer that belongs to the last start and came too late
    take_place(identity_, *assigned);
    return *assigned;
  }
}

std::vector<std::string> StandingConnection::exchange(std::string blob) {
  require_exchangeable(blob.size());
  send(Contribution{std::move(blob), settings_.start_timeout});
  Reply reply = await(steady_clock::now() + settings_.start_timeout + kFirstWord, false);
  auto* gathered = std::get_if<Gathered>(&reply);
  if (!gathered || gathered->blobs.size() != std::size_t(identity_.size))
    throw Error(ErrorCode::protocol, "the rendezvous server sent a wrong reply to an exchange");
  return std::move(gathered->blobs);
}

void StandingConnection::check(milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  MutexLock lock(mutex_);
  for (;;) {
    throw_if_over();
    if (time_left(deadline).count() == 0) return;
    changed_.wait_for(lock, Interruption::slice(time_left(deadline)));
  }
}

void StandingConnection::leave(std::uint16_t port) {
  send(Leave{port});
}

void StandingConnection::begin(std::uint64_t commits) {
  send(Begun{});
  const MutexLock lock(mutex_);
  commits_ = commits;
}

// Waits until the message has been given to the kernel, because the process may exit when this function has returned.
void StandingConnection::send_last(const Request& request) {
  {
    const MutexLock lock(mutex_);
    over_ = true;
  }
  std::promise<void> sent;
  send(request);
  asio::post(event_loop_.context(), [&] { sent.set_value(); });
  sent.get_future().wait();
}

void StandingConnection::fail(const std::string& reason) {
  send_last(Fail{reason, -1});
}

void StandingConnection::blame(int rank, const std::string& reason) {
  send(Fail{reason, rank});
}

void StandingConnection::done() {
  send_last(Done{});
}

bool StandingConnection::change_is_planned() const {
  const MutexLock lock(mutex_);
  return gate_.change_is_planned();
}

bool StandingConnection::ends_after(std::uint64_t commits) {
  const auto limit = settings_.silence_limit.count() > 0 ? settings_.silence_limit : kSilentServer;
  const auto deadline = steady_clock::now() + limit;
  MutexLock lock(mutex_);
  commits_ = commits;
  for (;;) {
    switch (gate_.after(commits)) {
      case CommitGate::Step::end:
        return true;
      case CommitGate::Step::go_on:
        return false;
      case CommitGate::Step::hold:
        if (time_left(deadline).count() == 0) {
          log(Severity::warning, text("the rendezvous at ", settings_.rendezvous, " was silent for ", seconds(limit),
                                      " while it planned a change; this rank goes on without it"));
          gate_.lost_server();
          return false;
        }
        changed_.wait_for(lock, Interruption::kSlice);
        Interruption::check();
    }
  }
}

}  // namespace anello::rendezvous
