#include "ring/net/data_links.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/handover.hpp"
#include "ring/net/tcp_link.hpp"

namespace anello {

using asio::ip::tcp;

namespace {
constexpr std::chrono::seconds kConnectLimit{10};
}

DataLinks::DataLinks(asio::io_context& context, Mesh& mesh, int rank, Sharing sharing, Bell& bell, Failed failed)
    : context_(context),
      mesh_(mesh),
      rank_(rank),
      sharing_(std::move(sharing)),
      bell_(bell),
      failed_(std::move(failed)) {
  tcp::socket{never_run_};  // Asio opens its own descriptors with the first socket: here it may still fail
  links_.resize(sharing_.with.size());
  asked_.resize(sharing_.with.size());
}

Link* DataLinks::find(int peer) {
  auto& link = links_[std::size_t(peer)];
  if (link) return link.get();
  collect();
  if (!link && peer < rank_ && !asked_[std::size_t(peer)]) {
    asked_[std::size_t(peer)] = true;
    asio::co_spawn(context_, dial(peer), asio::detached);
  }
  return link.get();
}

void DataLinks::collect() {
  const std::lock_guard lock(mutex_);
  for (Arrival& arrival : arrivals_) {
    auto& link = links_[std::size_t(arrival.peer)];
    if (link)
      log(Severity::info, text("dropped a second data connection of rank ", arrival.peer));
    else
      link = std::move(arrival.link);
  }
  arrivals_.clear();
}

void DataLinks::accepted(int peer, Mesh::Socket socket) {
  asio::co_spawn(context_, agree(peer, std::move(socket)), asio::detached);
}

void DataLinks::arrive(int peer, std::unique_ptr<Link> link) {
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back({peer, std::move(link)});
  }
  bell_.ring();
}

asio::awaitable<void> DataLinks::dial(int peer) {
  try {
    Mesh::Socket socket = co_await mesh_.connect(peer, Role::data, std::chrono::steady_clock::now() + kConnectLimit);
    co_await agree(peer, std::move(socket));
  } catch (const std::exception& e) {
    failed_(peer, e.what());
  }
}

// Both sides are here, with the two ends of one connection; it becomes the link if they cannot share memory.
asio::awaitable<void> DataLinks::agree(int peer, Mesh::Socket socket) {
  try {
    std::unique_ptr<Link> link;
    if (sharing_.with[std::size_t(peer)]) {
      if (peer < rank_)
        link = co_await offer_memory(socket, sharing_.pipe_bytes, bell_.descriptor());
      else
        link = co_await take_memory(socket, bell_.descriptor());
      if (!link && sharing_.required)
        throw Error(Code::network, "no shared memory, and ANELLO_TRANSPORT=shm allows nothing else");
    }
    if (!link) {
      const tcp protocol = socket.local_endpoint().protocol();
      link = std::make_unique<TcpLink>(tcp::socket(never_run_, protocol, socket.release()));
    }
    arrive(peer, std::move(link));
  } catch (const std::exception& e) {
    failed_(peer, e.what());
  }
}

}  // namespace anello
