#include "rendezvous/client/server_search.hpp"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <utility>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "rendezvous/protocol/run_context.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

// The limit of each attempt grows, because a server on a busy host may need longer than the first limit.
constexpr milliseconds kConnectLimit{5000}, kFirstLimitOfSeveral{500}, kLastLimitOfSeveral{5000};
// The maximum rest after an address has refused a connection. It is short, because the server may begin to listen at
// any moment.
constexpr milliseconds kMaxRestOfRefused{500};
constexpr milliseconds kBetweenPlaces{200};  // head start of each address over the next one in the list
constexpr milliseconds kBetweenLookUps{5000}, kBetweenLooks{500}, kWarnAfter{5000};

asio::awaitable<void> wait(asio::steady_timer& timer, milliseconds time) {
  asio::error_code cancelled;
  timer.expires_after(time);
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

}  // namespace

ServerSearch::ServerSearch(asio::io_context& context, SearchOptions options)
    : context_(context), options_(std::move(options)), turn_(context) {}

ServerSearch::Outcome ServerSearch::find(Clock::time_point deadline) {
  deadline_ = deadline;
  asio::co_spawn(context_, look_around(), keep_error());
  run_to_end(context_, [this] { stop(); });
  if (thrown_) std::rethrow_exception(thrown_);
  return found_ ? Outcome::found : ended_ ? Outcome::ended : Outcome::not_found;
}

asio::awaitable<void> ServerSearch::look_around() {
  const auto warn_at = Clock::now() + kWarnAfter;
  for (bool warned = false; !over_ && time_left(deadline_).count() > 0;) {
    co_await add_places();
    all_added_ = true;
    if (!over_ && has_ended()) stop();
    if (Clock::now() >= warn_at && !std::exchange(warned, true))
      log(Severity::warning, text("waiting for ", options_.name, "; tried ", tried()));
    if (!over_) co_await wait(turn_, std::min(time_left(deadline_), kBetweenLooks));
  }
}

// Resolves the names again from time to time: a new host's name takes time to spread, and a replaced host may get
// another address.
asio::awaitable<void> ServerSearch::add_places() {
  for (const net::HostPort& address : options_.addresses) {
    Name& name = names_[address.host];
    const bool is_new = name.looked_up == Clock::time_point();
    const milliseconds age =
        is_new ? kBetweenLookUps : std::chrono::duration_cast<milliseconds>(Clock::now() - name.looked_up);
    if (age < (name.failure.empty() ? kBetweenLookUps : kMaxRest)) continue;
    asio::error_code failure;
    const std::vector<tcp::endpoint> found = options_.look_up(address.host, 0, failure);
    name.failure = failure ? failure.message() : found.empty() ? "it has no address" : "";
    name.looked_up = Clock::now();
    for (const net::HostPort& one : options_.addresses)
      for (const tcp::endpoint& endpoint : found)
        if (one.host == address.host && !over_) co_await add_place(one.host, {endpoint.address(), one.port});
  }
}

// Returns when the first attempt at this place has failed, or after kBetweenPlaces; then the next place is added.
asio::awaitable<void> ServerSearch::add_place(std::string host, tcp::endpoint where) {
  if (std::ranges::find(places_, where, &Place::where) != places_.end()) co_return;
  Place& place = places_.emplace_back(context_, host, where);
  asio::co_spawn(context_, keep_trying(place), keep_error());
  co_await wait(turn_, kBetweenPlaces);
}

asio::awaitable<void> ServerSearch::keep_trying(Place& place) {
  const bool only_one = options_.addresses.size() == 1;
  milliseconds pause = kFirstRest;
  for (auto left = time_left(deadline_); left.count() > 0; left = time_left(deadline_)) {
    co_await attempt(place, only_one ? left : std::min(left, place.patience));
    if (!over_) co_await wait(place.rest, std::min(jittered(pause), time_left(deadline_)));
    if (over_) co_return;
    pause = std::min(2 * pause, place.refused ? kMaxRestOfRefused : kMaxRest);
  }
}

asio::awaitable<void> ServerSearch::attempt(Place& place, milliseconds limit) {
  place.socket = tcp::socket(context_);
  const net::Deadline deadline(place.socket, limit);
  try {
    co_await connect(place);
    co_await options_.prove(place.socket);
    if (deadline.passed() || over_) throw Error(ErrorCode::network, "it answered too late");
    found_ = &place;
    stop();
  } catch (const Error& error) {
    if (over_) co_return;
    const bool late = deadline.passed() || error.code() == ErrorCode::timed_out;
    failed(place, deadline.passed() ? text("no answer within ", seconds(limit)) : error.message(), late,
           limit < kFirstLimitOfSeveral);
    if (options_.addresses.size() == 1 && !late && error.code() != ErrorCode::network) throw;
  }
}

asio::awaitable<void> ServerSearch::connect(Place& place) {
  asio::error_code failure;
  net::open_socket(place.socket, place.where.protocol(), failure);
  const net::Deadline deadline(place.socket, kConnectLimit);
  if (!failure) co_await net::connect(place.socket, place.where, failure);
  place.refused = failure == asio::error::connection_refused;
  if (deadline.passed()) throw Error(ErrorCode::timed_out, "no answer");
  if (failure) throw Error(ErrorCode::network, failure.message());
  place.socket.set_option(tcp::no_delay(true), failure);
}

// Keeps the error of the previous attempt at this place if the present attempt had too little time for an answer.
void ServerSearch::failed(Place& place, const std::string& why, bool late, bool cut_short) {
  const bool is_first = place.failure.empty();
  if (is_first || !late || !cut_short) place.failure = why;
  if (late) place.patience = std::min(2 * place.patience, kLastLimitOfSeveral);
  asio::error_code ignored;
  place.socket.close(ignored);
  if (has_ended()) stop();
  if (is_first) turn_.cancel();
}

bool ServerSearch::has_ended() {
  ended_ = options_.ends_if_refused && all_added_ && std::ranges::all_of(places_, &Place::refused) &&
           std::ranges::all_of(names_, [](const auto& name) { return name.second.failure.empty(); });
  return ended_;
}

void ServerSearch::stop() {
  over_ = true;
  turn_.cancel();
  asio::error_code ignored;
  for (Place& place : places_) {
    place.rest.cancel();
    if (&place != found_) place.socket.close(ignored);
  }
}

// Returns a handler that keeps the error of the coroutine that ends the search.
std::function<void(std::exception_ptr)> ServerSearch::keep_error() {
  return [this](std::exception_ptr error) {
    if (!error || thrown_ || found_) return;
    thrown_ = std::move(error);
    stop();
  };
}

std::string ServerSearch::tried() const {
  std::string all;
  const auto add = [&](const std::string& where, const std::string& failure) {
    if (!failure.empty()) all += text(all.empty() ? "" : ", ", where, " (", failure, ")");
  };
  for (const auto& [host, name] : names_) add(text("to resolve '", host, "'"), name.failure);
  for (const Place& place : places_) {
    const std::string address = place.where.address().to_string();
    add(text(net::host_port(place.host, place.where.port()), place.host == address ? "" : " at " + address),
        place.failure);
  }
  return all;
}

}  // namespace anello::rendezvous
