// Links with windows between every two of several ranks in one process, for tests whose ranks take turns in one thread.
#pragma once
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ring/group/posts.hpp"
#include "ring/shm/shm_link.hpp"

namespace anello::group {

class Links {
 public:
  explicit Links(int size) : links_(std::size_t(size)) {
    for (auto& row : links_) row.resize(std::size_t(size));
    for (int a = 0; a < size; a++)
      for (int b = 0; b < a; b++) connect(a, b);
  }
  shm::ShmLink& between(int from, int to) { return *links_[std::size_t(from)][std::size_t(to)]; }

 private:
  using ShmLink = shm::ShmLink;
  static constexpr std::size_t kPipe = 4096;

  static Descriptor bell() { return Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }
  void connect(int a, int b) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    const std::size_t bytes = ShmLink::file_bytes(kPipe);
    shm::MemoryFile file = shm::MemoryFile::create(bytes);
    shm::MemoryFile same = shm::MemoryFile::adopt(Descriptor(dup(file.descriptor())), bytes);
    const auto make = [&](int from, int to, shm::MemoryFile memory, ShmLink::Side side, int end) {
      links_[std::size_t(from)][std::size_t(to)] =
          std::make_unique<ShmLink>(std::move(memory), kPipe, side, bell(), Descriptor(end));
    };
    make(a, b, std::move(file), ShmLink::Side::maker, ends[0]);
    make(b, a, std::move(same), ShmLink::Side::taker, ends[1]);
  }
  std::vector<std::vector<std::unique_ptr<ShmLink>>> links_;
};

// A rank that agrees with the others by posts.
struct PostingRank {
  PostingRank(int rank, int size)
      : posts(rank, size, [this](int peer, const Signature&) {
          told_of = peer;
          return Error(ErrorCode::mismatch, "they differ", peer);
        }) {}

  Posts posts;
  bool complete = false;
  int told_of = -1;  // rank whose signature differs
};

// Ranks that take turns. `Rank` is a PostingRank.
template <class Rank>
class RanksInTurn {
 public:
  explicit RanksInTurn(int size) : links_(size) {
    for (int rank = 0; rank < size; rank++) ranks_.push_back(std::make_unique<Rank>(rank, size));
    for (int rank = 0; rank < size; rank++)
      for (int peer = 0; peer < size; peer++)
        if (peer != rank) (*this)[rank].posts.connect(peer, links_.between(rank, peer));
  }
  virtual ~RanksInTurn() = default;
  int size() const { return int(ranks_.size()); }
  Rank& operator[](int rank) { return *ranks_[std::size_t(rank)]; }

  // Gives this rank one turn. Returns false if the rank could not do anything.
  virtual bool turn(int rank) = 0;
  // Gives turns in this order, and then to all ranks in rounds until nothing moves.
  void run(const std::vector<int>& order = {}) {
    for (const int rank : order) turn(rank);
    for (bool moved = true; std::exchange(moved, false);)
      for (int rank = 0; rank < size(); rank++) moved |= turn(rank);
  }
  bool all_complete() const {
    return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->complete; });
  }

 protected:
  const std::vector<std::unique_ptr<Rank>>& all() const { return ranks_; }

 private:
  Links links_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// Calls `use` with all orders of `turns` turns by `ranks` ranks.
inline void each_order(int ranks, int turns, std::vector<int>& order, const std::function<void()>& use) {
  if (turns == 0) return use();
  for (int rank = 0; rank < ranks; rank++) {
    order.push_back(rank);
    each_order(ranks, turns - 1, order, use);
    order.pop_back();
  }
}

}  // namespace anello::group
