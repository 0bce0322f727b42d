#include "ring/net/link_maker.hpp"

#include <asio/post.hpp>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/shm_negotiation.hpp"
#include "ring/net/spawn.hpp"
#include "ring/net/striped_link.hpp"

namespace anello::net {

void LinkMaker::begin() {
  asio::post(context_.context, [alive = shared_from_this()] {
    std::vector<Error> failures;
    {
      const MutexLock lock(alive->mutex_);
      alive->begun_ = true;
      failures = std::exchange(alive->early_failures_, {});
    }
    for (const Error& why : failures) alive->context_.failed(alive->group_, why);
  });
}

void LinkMaker::connect(int peer) {
  spawn(context_.context, dial(peer, shared_from_this()));
}

// The two ranks agree on the first connection (lane 0) whether they use shared memory or TCP.
void LinkMaker::accepted(const Claim& claim, PeerConnections::Socket socket) {
  if (claim.lane >= lanes_to(claim.from))
    log(Severity::info,
        text("dropped connection ", claim.lane, " of rank ", claim.from, ": there are only ", lanes_to(claim.from)));
  else if (claim.lane == 0)
    spawn(context_.context, agree(claim.from, std::move(socket), shared_from_this()));
  else
    add_lane(claim.from, claim.lane, std::move(socket));
}

std::vector<LinkMaker::Made> LinkMaker::take() {
  const MutexLock lock(mutex_);
  return std::exchange(made_, {});
}

void LinkMaker::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  made_.clear();
}

bool LinkMaker::closed() const {
  const MutexLock lock(mutex_);
  return closed_;
}

void LinkMaker::report(int peer, const std::exception& why) {
  const auto* known = dynamic_cast<const Error*>(&why);
  const auto* system = dynamic_cast<const asio::system_error*>(&why);
  // For any other error, such as a lack of memory, this rank is at fault.
  Error error(ErrorCode::network, why.what(), known || system ? peer : context_.rank);
  if (known && (known->rank() == context_.rank || known->code() == ErrorCode::configuration)) error = *known;
  if (const auto remedy = remedy_for_lack_of_files(system ? system->code().value() : 0); !remedy.empty())
    error = Error(ErrorCode::network, text(why.what(), remedy), context_.rank);
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    if (!begun_) return early_failures_.push_back(error);
  }
  context_.failed(group_, error);
}

void LinkMaker::add_lane(int peer, std::uint32_t lane, PeerConnections::Socket socket) {
  auto& lanes = lanes_[peer];
  lanes.emplace(lane, Descriptor(socket.release()));
  if (lanes.size() < lanes_to(peer)) return;
  std::vector<Descriptor> sockets;
  for (auto& [number, each] : lanes) sockets.push_back(std::move(each));
  lanes_.erase(peer);
  if (sockets.size() == 1)
    add(peer, std::make_unique<TcpLink>(std::move(sockets[0])));
  else
    add(peer, std::make_unique<StripedLink>(std::move(sockets)));
}

void LinkMaker::add(int peer, std::unique_ptr<link::Link> link) {
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    made_.push_back({peer, std::move(link)});
  }
  bell_->ring();
}

// Connecting has no deadline: if the peer dies, the control plane detects its death.
asio::awaitable<void> LinkMaker::dial(int peer, std::shared_ptr<LinkMaker> alive) {
  const auto wanted = [this] { return !closed(); };
  const auto lane_to = [&](std::uint32_t lane) {
    return context_.peer_connections.connect(peer, Role::data, lane, group_, PeerConnections::kNoDeadline, wanted);
  };
  try {
    if (co_await agree(peer, co_await lane_to(0), alive)) co_return;
    for (std::uint32_t lane = 1; lane < lanes_to(peer); lane++) add_lane(peer, lane, co_await lane_to(lane));
  } catch (const std::exception& e) {
    report(peer, e);
  }
}

// Both sides run this function, each on its end of one connection. If the sides cannot share memory, the connection
// becomes the link's first lane. Returns true if the link needs no further connections.
asio::awaitable<bool> LinkMaker::agree(int peer, PeerConnections::Socket socket, std::shared_ptr<LinkMaker> /*alive*/) {
  try {
    std::unique_ptr<link::Link> link;
    if (context_.options.shares_memory[std::size_t(peer)]) link = co_await share_memory(peer, socket);
    if (link) {
      add(peer, std::move(link));
      co_return true;
    }
    add_lane(peer, 0, std::move(socket));
    co_return lanes_to(peer) == 1;
  } catch (const std::exception& e) {
    report(peer, e);
    co_return true;
  }
}

// The higher rank has connected, so the higher rank offers memory. Returns null if the two ranks must use TCP.
asio::awaitable<std::unique_ptr<link::Link>> LinkMaker::share_memory(int peer, PeerConnections::Socket& socket) {
  Negotiated negotiated;
  if (peer < context_.rank)
    negotiated = co_await offer_memory(socket, context_.options.pipe_bytes, bell_->descriptor());
  else
    negotiated = co_await take_memory(socket, bell_->descriptor());
  if (negotiated.link) co_return std::move(negotiated.link);
  const std::string why = text("no shared memory with rank ", peer, " of this host: ", negotiated.why_not);
  if (context_.options.memory_required)
    throw Error(ErrorCode::configuration, text(why, "; ANELLO_TRANSPORT=shm allows nothing else, 'auto' uses TCP"),
                negotiated.lies_here ? context_.rank : peer);
  const bool warns = negotiated.lies_here && !std::exchange(context_.has_warned, true);
  log(warns ? Severity::warning : Severity::info,
      text(why, "; TCP is used, which is slower; ANELLO_TRANSPORT=tcp chooses it"));
  co_return nullptr;
}

}  // namespace anello::net
