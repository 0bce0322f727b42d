// Limits the number of connections that have not authenticated yet, by closing the oldest of them. A real peer
// authenticates within milliseconds, so in a flood of connections, mostly connections of the flood itself are closed.
// Used on the event loop's thread.
#pragma once
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace anello::net {

// The maximum time that a real peer needs to authenticate on a busy machine.
inline constexpr std::chrono::milliseconds kTimeEnough{200};

class HalfOpen {
 public:
  using Socket = asio::ip::tcp::socket;
  struct Entry {
    Socket* socket;
    std::chrono::steady_clock::time_point since;
  };
  using Sockets = std::map<std::uint64_t, Entry>;  // by number; the oldest has the lowest number

  explicit HalfOpen(std::size_t max_count) : max_count_(max_count) {}

  // Counts a connection as half open while the Place exists. A Place is in a coroutine, and may outlive the HalfOpen.
  // The socket must not move, and must outlive the Place.
  class Place {
   public:
    Place(HalfOpen& all, Socket& socket) : sockets_(all.sockets_), number_(all.next_++) {
      if (sockets_->size() >= all.max_count_) all.close_oldest();
      sockets_->emplace(number_, Entry{&socket, std::chrono::steady_clock::now()});
    }
    ~Place() { sockets_->erase(number_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    std::shared_ptr<Sockets> sockets_;
    std::uint64_t number_;
  };

  // Closes the oldest connection if its age is at least `min_age`; its pending operations end with operation_aborted.
  // False if all connections are younger.
  bool close_oldest(std::chrono::milliseconds min_age = {}) {
    if (sockets_->empty()) return false;
    const Entry oldest = sockets_->begin()->second;
    if (std::chrono::steady_clock::now() < oldest.since + min_age) return false;
    asio::error_code ignored;
    oldest.socket->close(ignored);
    sockets_->erase(sockets_->begin());
    return true;
  }
  std::size_t size() const { return sockets_->size(); }

 private:
  std::size_t max_count_;
  std::uint64_t next_ = 0;
  std::shared_ptr<Sockets> sockets_ = std::make_shared<Sockets>();
};

}  // namespace anello::net
