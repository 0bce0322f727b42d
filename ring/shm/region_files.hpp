// The regions of one rank that another rank of its host has mapped, both ways: the file of each is passed over a Unix
// socket before its first use. Both sides forget the oldest; the one that maps them forgets later, because what it has
// not read yet may lie in memory that the other side has forgotten meanwhile. One thread at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "ring/base/bytes.hpp"
#include "ring/shm/byte_pipe.hpp"
#include "ring/shm/memory_file.hpp"
#include "ring/shm/region.hpp"

namespace anello::shm {

class RegionFiles {
 public:
  // In memory that both sides see, written by one of them: files that it has sent, and that it has taken.
  struct Counts {
    std::atomic<std::uint64_t> sent, taken;
  };

  RegionFiles(Descriptor socket, Counts& mine, const Counts& theirs);

  // Sends the file unless the other side has it. It has arrived when the other side sees what is published next. Throws
  // Error{network}.
  void send(std::uint64_t region);
  bool has_sent(std::uint64_t region) const;
  // False if the other side has not taken files for long: then send() only what it is about to take.
  bool has_room() const;

  // The other side's memory. Valid until a file is taken. Throws Error{protocol} if there is no such memory, and
  // std::runtime_error, for which the other side is not to blame, if this process could not map it.
  Bytes memory_of(const Place& place);
  // Maps all files that have been sent. One that cannot be mapped is missed when it is used.
  void take_all();
  std::uint64_t sent() const { return sent_count_; }
  std::uint64_t taken() const { return taken_count_; }

 private:
  // A side refers to the regions whose files it sent last. Behind the oldest reference that stands it may have sent a
  // file for each of the others.
  static constexpr std::size_t kMaxSent = 64, kMaxMapped = kMaxSent + PipeState::kReferences;
  static constexpr std::uint64_t kMaxOnTheirWay = 16;
  struct Theirs {
    std::uint64_t number;
    MemoryFile file;
    bool populated = false;
  };

  void take();
  void map_one();

  Descriptor socket_;
  unsigned colour_;  // the next one for each link of a process
  Counts& mine_;
  const Counts& theirs_counts_;
  std::uint64_t sent_count_ = 0, taken_count_ = 0;
  std::deque<std::uint64_t> sent_;  // regions of this rank whose file the other side has
  std::deque<Theirs> theirs_;
  std::optional<std::string> lost_;  // why a file could not be mapped
};

}  // namespace anello::shm
