#include "rendezvous/client/client.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/client/own_join.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello {

using rendezvous::Assigned;
using rendezvous::Gathered;
using rendezvous::MeetAgain;
using rendezvous::Reply;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kTryLimit{5000};

}  // namespace

RendezvousClient::RendezvousClient(const Settings& settings, std::string secret, Server server, NotJoined)
    : settings_(settings),
      is_reached_from_elsewhere_(server.other_hosts),
      has_invitation_(server.listens),
      interfaces_(net::local_interfaces()),
      connection_(settings, {settings.job, secret}, std::move(server)) {
  identity_.job = settings.job;
  identity_.secret = std::move(secret);
}

RendezvousClient::RendezvousClient(const Settings& settings, std::string secret, Server server)
    : RendezvousClient(settings, std::move(secret), std::move(server), NotJoined()) {
  connect_and_join(Clock::now() + settings.start_timeout);
}

void RendezvousClient::try_server(const Settings& settings, std::string secret, Server server) {
  Settings impatient = settings;
  impatient.start_timeout = std::min(settings.start_timeout, kTryLimit);
  RendezvousClient client(impatient, std::move(secret), std::move(server), NotJoined());
  client.connection_.connect(Clock::now() + impatient.start_timeout);
  client.leave();
}

void RendezvousClient::report_failure(const Settings& settings, std::string secret, Server server,
                                      const std::exception& why) {
  RendezvousClient client(settings, std::move(secret), std::move(server), NotJoined());
  client.connection_.connect(Clock::now() + settings.start_timeout);
  client.refuse(why);
}

// Joins only to fail, so that the failure that the other ranks receive names this rank.
void RendezvousClient::refuse(const std::exception& why) try {
  connection_.send(own_join({connection_.local_address()}));
  fail(why);
} catch (const std::exception& error) {
  log(Severity::debug, text("the rendezvous server did not receive the reason: ", error.what()));
}

// Throws StartFailed, because the other ranks have already received the reason.
void RendezvousClient::throw_as_start_failed(const std::exception& thrown) const {
  const Error error = rendezvous::as_error(thrown);
  throw rendezvous::StartFailed(error.code(), error.message(), settings_.rank);
}

// Connects and joins. Does both again if the connection ends: the server closes a connection that does not join soon
// after its handshake. If too many such connections are open, it closes the oldest of them.
void RendezvousClient::connect_and_join(Clock::time_point deadline) {
  for (milliseconds pause = rendezvous::kFirstRest;; pause = std::min(2 * pause, rendezvous::kMaxRest)) {
    connection_.connect(deadline);
    rendezvous::Join mine;
    try {
      mine = own_join(rendezvous::own_addresses(settings_, identity_.secret, connection_.local_address(),
                                                is_reached_from_elsewhere_, interfaces_));
    } catch (const std::exception& error) {
      refuse(error);
      throw_as_start_failed(error);
    }
    try {
      return join(std::move(mine), rendezvous::time_left(deadline));
    } catch (const Error& error) {
      const bool is_early = dynamic_cast<const MeetAgain*>(&error);
      if (is_early && has_invitation_) throw;
      if (error.code() == ErrorCode::network && connection_.is_intact()) {
        fail(error);
        throw_as_start_failed(error);
      }
      const bool may_be_tried_again =
          is_early || error.code() == ErrorCode::network || error.code() == ErrorCode::timed_out;
      const milliseconds rest = rendezvous::jittered(pause);
      if (!may_be_tried_again || rendezvous::time_left(deadline) <= rest) throw;
      log(Severity::info, text("joining again: ", error.what()));
      rendezvous::Interruption::sleep(rest);
    } catch (const std::exception& error) {
      fail(error);
      throw_as_start_failed(error);
    }
  }
}

RendezvousClient::~RendezvousClient() = default;

void RendezvousClient::join(rendezvous::Join mine, milliseconds patience) {
  mine.patience = patience;
  const Reply reply = connection_.ask(mine, patience);
  const auto* assigned = std::get_if<Assigned>(&reply);
  if (!assigned) throw Error(ErrorCode::protocol, "the rendezvous server sent a wrong reply to a request to join");
  rendezvous::take_place(identity_, *assigned);
}

rendezvous::Join RendezvousClient::own_join(const std::vector<std::string>& addresses) {
  identity_.address = addresses.front();
  identity_.further_addresses.assign(addresses.begin() + 1, addresses.end());
  return rendezvous::join_of_this_process(settings_, identity_.address);
}

std::vector<std::string> RendezvousClient::exchange(std::string blob) {
  rendezvous::require_exchangeable(blob.size());
  Reply reply =
      connection_.ask(rendezvous::Contribution{std::move(blob), settings_.start_timeout}, settings_.start_timeout);
  auto* gathered = std::get_if<Gathered>(&reply);
  if (!gathered || gathered->blobs.size() != std::size_t(identity_.size))
    throw Error(ErrorCode::protocol, "the rendezvous server sent a wrong reply to an exchange");
  return std::move(gathered->blobs);
}

void RendezvousClient::check(milliseconds patience) {
  connection_.check(patience);
}

void RendezvousClient::leave(std::uint16_t port) {
  connection_.send_and_close(rendezvous::Leave{port});
}

void RendezvousClient::fail(const std::exception& why) noexcept {
  try {
    const Error why_it_failed = rendezvous::as_error(why);
    connection_.send_and_close(rendezvous::Fail{why_it_failed.what(), why_it_failed.rank()});
  } catch (const std::exception& error) {
    log(Severity::debug, text("the rendezvous server did not receive the reason: ", error.what()));
  }
}

}  // namespace anello
