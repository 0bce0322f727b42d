// The parts of a rendezvous server, whose coroutines run in a thread of its own.
#pragma once
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/server/heir.hpp"
#include "rendezvous/server/listening_address.hpp"
#include "rendezvous/server/membership.hpp"
#include "rendezvous/server/roster.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/base/mutex.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/net/half_open.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/services/http_page.hpp"

namespace anello {

// Returns a number that no other server of the job has.
std::uint64_t random_number();

class RendezvousServer::Impl {
 public:
  explicit Impl(const ServerOptions& options);
  ~Impl();
  std::uint16_t port() const { return listening_.port(); }
  std::string address() const { return rendezvous::usable_address(listening_.address()); }
  ServerStats stats() const {
    const MutexLock lock(stats_mutex_);
    return stats_;
  }
  ElasticStatus elastic_status() const {
    const MutexLock lock(stats_mutex_);
    return elastic_status_;
  }
  bool wait_until_over(std::uint32_t generation, std::chrono::milliseconds limit) const {
    MutexLock lock(stats_mutex_);
    return changed_.wait_for(lock, limit,
                             [&]() ANELLO_REQUIRES(stats_mutex_) { return stats_.generation > generation; });
  }
  void conclude(const Error& why, int by) {
    asio::post(event_loop_.context(), [this, by, why = rendezvous::Failed{why.code(), why.rank(), why.message()}] {
      concluding_ = true;
      deliver(roster_.conclude(why, by));
    });
  }
  void wait_until_concluded(std::chrono::milliseconds limit) const {
    MutexLock lock(stats_mutex_);
    changed_.wait_for(lock, limit, [&]() ANELLO_REQUIRES(stats_mutex_) { return stats_.concluded; });
  }
  void retire(int place) {
    asio::post(event_loop_.context(), [this, place] {
      const auto is_there = [place](rendezvous::MemberId, const auto& process) { return process.join.place == place; };
      if (membership_) deliver(membership_->retire(is_there, std::chrono::steady_clock::now()));
    });
  }
  void expect(int newcomers) {
    asio::post(event_loop_.context(), [this, newcomers] {
      if (membership_) deliver(membership_->expect(newcomers, std::chrono::steady_clock::now()));
      set_alarm();
    });
  }
  void inherit(rendezvous::Lineage lineage, const ElasticLimits& limits, std::uint32_t newest, bool begun);
  void succeed();
  void step_back() {
    asio::post(event_loop_.context(), [this] {
      send_away(rendezvous::ComeAgain{});
      heir_->is_away = true;
    });
  }
  void hand_over();
  void exited(int rank) {
    asio::post(event_loop_.context(), [this, rank] { deliver(roster_.exited(rank)); });
  }
  void abort(int culprit, const std::string& reason);

 private:
  using Connection = std::shared_ptr<net::MessageChannel>;

  asio::awaitable<void> serve(Connection connection);
  asio::awaitable<void> receive_requests(asio::ip::tcp::socket& socket, rendezvous::Roster::MemberId id);
  asio::awaitable<void> receive_requests(rendezvous::Membership& membership, asio::ip::tcp::socket& socket,
                                         rendezvous::Roster::MemberId id);
  rendezvous::Roster::Sends joined(rendezvous::Roster::MemberId id, const rendezvous::Join& join);
  rendezvous::Roster::Sends expired();
  std::optional<rendezvous::Roster::Time> deadline() const {
    return membership_ ? membership_->deadline() : roster_.deadline();
  }
  void deliver(const rendezvous::Roster::Sends& sends);
  void start_abort_notice();
  void announce(std::size_t ranks);
  void set_alarm();
  void remind();
  void publish_stats();
  std::optional<net::Rejection> unwelcome(const net::Claim& claim) const;
  asio::awaitable<void> watch(rendezvous::Peer peer, int rank, std::uint64_t turn);
  asio::awaitable<void> look_for_stops();
  void send_away(const rendezvous::Reply& last_word);
  // True after conclude(), once all ranks have received its error or another start has begun, and no rank has a
  // connection any more. A rank ends its connection after it has read the error.
  bool has_concluded() const {
    return concluding_ && roster_.all_informed() && connections_.size() == half_open_.size();
  }

  const net::Credentials credentials_;
  const std::chrono::milliseconds join_limit_;
  net::HalfOpen half_open_;
  // Declared before the members that use it. If coroutines have not ended when the loop stops, they are destroyed
  // together with it.
  net::EventLoop event_loop_;
  asio::ip::tcp::acceptor acceptor_{event_loop_.context()};
  asio::steady_timer alarm_{event_loop_.context()};  // ends at the roster's deadline
  asio::steady_timer reminder_{event_loop_.context()};
  bool reminding_ = false, concluding_ = false;
  const bool may_be_mixed_;
  const std::chrono::milliseconds remind_after_;
  rendezvous::Roster roster_;
  std::optional<rendezvous::Membership> membership_;  // used instead of the roster if the job is elastic
  std::optional<rendezvous::Heir> heir_;
  std::map<rendezvous::Roster::MemberId, Connection> connections_;
  rendezvous::Roster::MemberId next_id_ = 0;
  std::optional<failure::Verdict> abort_verdict_;  // why the newest aborted world was aborted
  std::uint32_t aborted_generation_ = 0;
  trace::RejectedConnections rejected_;
  asio::ip::tcp::endpoint listening_;
  mutable Mutex stats_mutex_;
  mutable std::condition_variable changed_;
  std::optional<services::Metrics> metrics_;
  ServerStats stats_ ANELLO_GUARDED_BY(stats_mutex_);
  ElasticStatus elastic_status_ ANELLO_GUARDED_BY(stats_mutex_);
};

}  // namespace anello
