// One round of an exchange: collects a blob from each rank, and returns all blobs for all ranks. Pure.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

class ExchangeRound {
 public:
  static constexpr std::size_t kMaxBytes = kMaxReplyBytes / 2;

  // Returns false if the blobs together are larger than kMaxBytes.
  bool add(int rank, std::string blob) {
    bytes_ += blob.size();
    blobs_.emplace(rank, std::move(blob));
    return bytes_ <= kMaxBytes;
  }
  bool has(int rank) const { return blobs_.contains(rank); }
  std::size_t count() const { return blobs_.size(); }
  // Returns the blobs by rank, and begins the next round.
  Gathered take() {
    Gathered gathered;
    for (auto& [rank, blob] : blobs_) gathered.blobs.push_back(std::move(blob));
    clear();
    return gathered;
  }
  void clear() {
    blobs_.clear();
    bytes_ = 0;
  }

 private:
  std::map<int, std::string> blobs_;
  std::size_t bytes_ = 0;
};

}  // namespace anello::rendezvous
