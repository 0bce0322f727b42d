// Links with windows between every two of several ranks in one process, for tests whose ranks take turns in one thread.
#pragma once
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

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
