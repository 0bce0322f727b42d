#include "rendezvous/join/manager_connection.hpp"

#include <unistd.h>

#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello::rendezvous {

ManagerConnection::Turn::Turn(ManagerConnection& connection) : connection_(&connection) {
  const MutexLock lock(connection.mutex_);
  if (connection.in_use_)
    throw Error(ErrorCode::configuration, text("another thread of this process starts a world through ",
                                               connection.protocol_, "; start one at a time"));
  if (connection.is_open() && !connection.is_own())
    throw Error(ErrorCode::unsupported, text("a forked process cannot use ", connection.protocol_,
                                             ": the process manager serves only the process that it started"));
  connection.in_use_ = true;
}

ManagerConnection::Turn::~Turn() {
  if (!connection_) return;
  const MutexLock lock(connection_->mutex_);
  connection_->in_use_ = false;
}

void ManagerConnection::opened() {
  owner_ = getpid();
}

bool ManagerConnection::is_own() const {
  return owner_ == getpid();
}

std::string ManagerSpace::own_key(const std::string& key) const {
  return text("anello", number_, "-", key);
}

std::string ManagerSpace::own_name(const std::string& job) const {
  return number_ == 0 ? job : text(job, ".", number_);
}

}  // namespace anello::rendezvous
