// The common part of the connections with process managers (PMI, PMIx). A process has one connection for its whole
// life. One thread at a time uses it, for one key-value space. MPI and other worlds keep their keys in the same space.
// So the keys and the space's name contain the number of fences passed so far. The number of fences is equal on all
// processes, even if a start has failed on one of them before the start's fence. A forked child must not use the
// connection.
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>

#include "rendezvous/join/key_value_space.hpp"
#include "ring/base/mutex.hpp"

namespace anello::rendezvous {

class ManagerConnection {
 public:
  // `protocol`: a name for error messages, such as "PMI".
  explicit ManagerConnection(std::string protocol) : protocol_(std::move(protocol)) {}

  // The right to use the connection. It lasts as long as this object.
  class Turn {
   public:
    // Throws Error{configuration} if another thread has the turn, and Error{unsupported} in a forked process.
    explicit Turn(ManagerConnection& connection);
    ~Turn();
    Turn(Turn&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    friend class ManagerSpace;
    ManagerConnection* connection_;
  };

  // These functions are for the holder of the turn.
  void opened();  // call this when this process has opened the connection
  bool is_open() const { return owner_ >= 0; }
  bool is_own() const;  // true if this process opened the connection, and not the process that forked this one

 private:
  friend class ManagerSpace;

  const std::string protocol_;
  Mutex mutex_;
  bool in_use_ ANELLO_GUARDED_BY(mutex_) = false;
  pid_t owner_ = -1;
  int fences_ = 0;  // fences passed so far
};

class ManagerSpace : public KeyValueSpace {
 protected:
  explicit ManagerSpace(ManagerConnection::Turn turn) : turn_(std::move(turn)), number_(turn_.connection_->fences_) {}
  void passed_fence() { turn_.connection_->fences_++; }  // call this after each fence
  std::string own_key(const std::string& key) const;
  std::string own_name(const std::string& job) const;

 private:
  const ManagerConnection::Turn turn_;
  const int number_;
};

}  // namespace anello::rendezvous
