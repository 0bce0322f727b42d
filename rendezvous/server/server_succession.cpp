// How a process goes on as the server of an elastic job, after the server has ended.
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <set>
#include <utility>

#include "rendezvous/protocol/look.hpp"
#include "rendezvous/server/server_impl.hpp"
#include "ring/net/spawn.hpp"

namespace anello {

using rendezvous::Roster;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kLookLimit{1000}, kNextLook{250};  // for each process of the last world

}  // namespace

void RendezvousServer::Impl::inherit(rendezvous::Lineage lineage, const ElasticLimits& limits, std::uint32_t newest,
                                     bool begun) {
  asio::post(event_loop_.context(), [this, lineage = std::move(lineage), limits, newest, begun] {
    heir_->lineage = lineage;
    heir_->limits = limits;
    heir_->newest = newest;
    heir_->begun = begun;
    heir_->is_away = false;
    if (!heir_->serves) send_away(rendezvous::ComeAgain{});
  });
}

void RendezvousServer::Impl::succeed() {
  asio::post(event_loop_.context(), [this] {
    heir_->is_away = false;
    if (!heir_->lineage.exists() || std::exchange(heir_->serves, true)) return;
    std::set<rendezvous::Peer> others;
    for (const rendezvous::Peers& world : heir_->lineage.worlds) others.insert(world.begin(), world.end());
    for (const rendezvous::Peer& peer : others)
      if (peer != heir_->self()) net::spawn(event_loop_.context(), watch(peer, heir_->rank_of(peer), heir_->turn));
  });
}

void RendezvousServer::Impl::hand_over() {
  asio::post(event_loop_.context(), [this] { deliver(membership_->hand_over(steady_clock::now())); });
}

asio::awaitable<void> RendezvousServer::Impl::look_for_stops() {
  asio::steady_timer timer(event_loop_.context());
  asio::error_code ignored;
  for (;;) {
    timer.expires_after(rendezvous::Stops::kInterval);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    heir_->stops.look(steady_clock::now());
  }
}

// Looks for a process again and again, until its answer is not needed any more. `rank`: the process's rank in the last
// world, or -1.
asio::awaitable<void> RendezvousServer::Impl::watch(rendezvous::Peer peer, int rank, std::uint64_t turn) {
  using rendezvous::Look;
  using Finding = rendezvous::Inheritance::Finding;
  const bool goes_first = rank >= 0 && rank < heir_->lineage.rank;
  const net::Claim claim = heir_->claim(rank);
  asio::steady_timer pause(event_loop_.context());
  asio::error_code ignored;
  while (heir_->turn == turn && membership_->inherits()) {
    const Look seen = co_await rendezvous::look(peer.address, peer.port, credentials_, claim, kLookLimit);
    if (heir_->turn != turn) break;
    if (seen.outcome == Look::Outcome::answers && goes_first) {
      send_away(rendezvous::ComeAgain{});
      heir_->is_away = true;
    }
    if (heir_->turn != turn) break;
    const auto now = steady_clock::now();
    const Finding finding = heir_->finding(peer, seen.outcome, now);
    deliver(membership_->found(peer, finding, now));
    if (finding == Finding::dead) break;
    pause.expires_after(kNextLook);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

// Sends a last message to all processes that have joined, and begins to wait for others.
void RendezvousServer::Impl::send_away(const rendezvous::Reply& last_word) {
  Roster::Send send{{}, last_word};
  for (const ElasticStatus::Process& one : membership_->status().processes) send.to.push_back(Roster::MemberId(one.id));
  heir_->turn++;
  heir_->serves = false;
  membership_.emplace(heir_->limits, join_limit_, random_number());
  if (heir_->lineage.exists()) membership_->inherit(heir_->lineage, heir_->newest, heir_->begun);
  deliver({std::move(send)});
}

}  // namespace anello
