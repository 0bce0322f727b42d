#include "ring/net/half_open.hpp"

namespace anello {

HalfOpen::Place::Place(HalfOpen& all, Socket& socket) : sockets_(all.sockets_), number_(all.next_++) {
  if (sockets_->size() >= all.most_) all.close_oldest();
  sockets_->emplace(number_, &socket);
}

void HalfOpen::close_oldest() {
  if (sockets_->empty()) return;
  asio::error_code ignored;
  sockets_->begin()->second->close(ignored);
  sockets_->erase(sockets_->begin());
}

}  // namespace anello
