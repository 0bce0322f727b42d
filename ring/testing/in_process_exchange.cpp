#include "ring/testing/in_process_exchange.hpp"

#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"

namespace anello {

std::vector<std::string> InProcessExchange::exchange(int rank, std::string blob) {
  MutexLock lock(mutex_);
  blobs_[std::size_t(rank)] = std::move(blob);
  const std::uint64_t round = round_;
  if (++arrived_ == blobs_.size()) {
    complete_ = std::exchange(blobs_, std::vector<std::string>(blobs_.size()));
    arrived_ = 0;
    round_++;
    changed_.notify_all();
  }
  if (!changed_.wait_for(lock, limit_, [&]() ANELLO_REQUIRES(mutex_) { return closed_ || round_ != round; }))
    throw Error(ErrorCode::rendezvous,
                text("only ", arrived_, " of ", blobs_.size(), " ranks came before ANELLO_START_TIMEOUT ran out"));
  if (round_ == round) throw Error(ErrorCode::rendezvous, "another rank failed at start");
  return complete_;
}

void InProcessExchange::check(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  if (changed_.wait_for(lock, limit, [&]() ANELLO_REQUIRES(mutex_) { return closed_; }))
    throw Error(ErrorCode::rendezvous, "another rank failed at start");
}

void InProcessExchange::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace anello
