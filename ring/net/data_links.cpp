#include "ring/net/data_links.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/tcp_link.hpp"

namespace anello {

using asio::ip::tcp;

namespace {
constexpr std::chrono::seconds kConnectLimit{10};
}

DataLinks::DataLinks(asio::io_context& context, Mesh& mesh, int rank, int size, Bell& bell, Failed failed)
    : context_(context), mesh_(mesh), rank_(rank), bell_(bell), failed_(std::move(failed)) {
  tcp::socket{never_run_};  // Asio opens its own descriptors with the first socket: here it may still fail
  links_.resize(std::size_t(size));
  asked_.resize(std::size_t(size));
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
  for (const Arrival& arrival : arrivals_) {
    auto& link = links_[std::size_t(arrival.peer)];
    tcp::socket socket(never_run_, arrival.protocol, arrival.descriptor);
    if (link)
      log(Severity::info, text("dropped a second data connection of rank ", arrival.peer));
    else
      link = std::make_unique<TcpLink>(std::move(socket));
  }
  arrivals_.clear();
}

void DataLinks::accepted(int peer, Mesh::Socket socket) {
  const tcp protocol = socket.local_endpoint().protocol();
  const int descriptor = socket.release();
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back({peer, protocol, descriptor});
  }
  bell_.ring();
}

asio::awaitable<void> DataLinks::dial(int peer) {
  try {
    Mesh::Socket socket = co_await mesh_.connect(peer, Role::data, std::chrono::steady_clock::now() + kConnectLimit);
    accepted(peer, std::move(socket));
  } catch (const std::exception& e) {
    failed_(peer, e.what());
  }
}

}  // namespace anello
