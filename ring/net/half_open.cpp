#include "ring/net/half_open.hpp"

namespace anello {

HalfOpen::Place::Place(HalfOpen& all, Socket& socket) : sockets_(all.sockets_), number_(all.next_++) {
  if (sockets_->size() >= all.most_) all.close_oldest();
  sockets_->emplace(number_, Entry{&socket, std::chrono::steady_clock::now()});
}

void HalfOpen::close_oldest(std::chrono::milliseconds than) {
  if (sockets_->empty()) return;
  const Entry oldest = sockets_->begin()->second;
  if (std::chrono::steady_clock::now() < oldest.since + than) return;
  asio::error_code ignored;
  oldest.socket->close(ignored);
  sockets_->erase(sockets_->begin());
}

}  // namespace anello
