// The server of a process that may become the successor remembers this. On the server's event loop.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>

#include "rendezvous/protocol/lineage.hpp"
#include "rendezvous/protocol/look.hpp"
#include "rendezvous/server/inheritance.hpp"
#include "rendezvous/server/server.hpp"

namespace anello::rendezvous {

// Notices when this process was stopped. The other processes may have gone on meanwhile and then ended, so this process
// must not take their end for a proof that the state is still its own.
class Stops {
 public:
  asio::awaitable<void> keep_looking() {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    asio::error_code ignored;
    for (;;) {
      timer.expires_after(kInterval);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      look();
    }
  }
  // Forgets earlier stops; from now on, a stop is one that is longer than `limit`.
  void forget(std::chrono::milliseconds limit) {
    last_ = Clock::now();
    limit_ = limit;
    noticed_ = false;
  }
  bool noticed() {
    look();
    return noticed_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{500};
  void look() {
    noticed_ |= Clock::now() - last_ > limit_ + kInterval;
    last_ = Clock::now();
  }
  Clock::time_point last_ = Clock::now();
  std::chrono::milliseconds limit_{0};
  bool noticed_ = false;
};

struct Heir {
  Lineage lineage;
  ElasticLimits limits;
  std::uint32_t newest = 0;  // number of the newest world for which this process was chosen
  bool begun = false;
  bool serves = false;
  bool has_started = false;  // true if this successor has begun to start a world
  bool is_away = false;      // true if this process has gone to another successor
  std::uint64_t turn = 0;    // changes when the successor begins to wait anew
  Stops stops;

  const Peer& self() const { return lineage.newest().at(std::size_t(lineage.rank)); }
  // True if that process is the successor rather than this one.
  bool goes_before(const Peer& other) const {
    for (int rank = 0; rank < lineage.rank; rank++)
      if (lineage.newest().at(std::size_t(rank)) == other) return true;
    return false;
  }
  Inheritance::Finding finding(const Peer& peer, Look::Outcome seen) {
    switch (seen) {
      case Look::Outcome::answers:
        return Inheritance::Finding::present;
      case Look::Outcome::no_entry:
        return peer.address == self().address && peer.port != 0 && !stops.noticed() ? Inheritance::Finding::dead
                                                                                    : Inheritance::Finding::gone;
      case Look::Outcome::rejects:
        return Inheritance::Finding::gone;
      case Look::Outcome::silent:
        break;
    }
    return Inheritance::Finding::silent;
  }
};

}  // namespace anello::rendezvous
