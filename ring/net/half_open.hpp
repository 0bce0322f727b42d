// Connections that have not proved yet who they are: so many at most, and the oldest makes room. Whoever means well
// needs some milliseconds; who floods a listener crowds out its own. On the event loop's thread.
#pragma once
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace anello {

// For whoever means well, on a busy machine.
inline constexpr std::chrono::milliseconds kTimeEnough{200};

class HalfOpen {
 public:
  using Socket = asio::ip::tcp::socket;
  struct Entry {
    Socket* socket;
    std::chrono::steady_clock::time_point since;
  };
  using Sockets = std::map<std::uint64_t, Entry>;  // by age

  explicit HalfOpen(std::size_t most) : most_(most) {}

  // For as long as the connection is one of them; in a coroutine that may be destroyed after the HalfOpen. The socket
  // must not move or die before it.
  class Place {
   public:
    Place(HalfOpen& all, Socket& socket);
    ~Place() { sockets_->erase(number_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    std::shared_ptr<Sockets> sockets_;
    std::uint64_t number_;
  };

  // Closes the oldest one if it is older than that; what it waits for ends with operation_aborted.
  void close_oldest(std::chrono::milliseconds than = {});
  std::size_t size() const { return sockets_->size(); }

 private:
  std::size_t most_;
  std::uint64_t next_ = 0;
  std::shared_ptr<Sockets> sockets_ = std::make_shared<Sockets>();
};

}  // namespace anello
