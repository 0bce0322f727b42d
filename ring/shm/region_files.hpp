// The regions of one rank that another rank of its host has mapped, in both directions: the file of each is passed over
// a Unix socket before its first use. Both sides forget the oldest region when there are too many; the side that maps
// it forgets it later than its owner does, because it may still have references to read. One thread at a time.
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
  // Counters in memory that both sides see, written by one of them: the files that it has sent, and that it has taken.
  struct Counts {
    std::atomic<std::uint64_t> sent, taken;
  };

  RegionFiles(Descriptor socket, Counts& mine, const Counts& theirs);

  // Sends the region's file unless the other side has it. It has arrived before the other side sees anything that is
  // published after this call. Throws Error{network}.
  void send(std::uint64_t region);
  bool has_sent(std::uint64_t region) const;
  // False if the other side has not taken files for long. Then call send() only for a file that it is about to take.
  bool has_room() const;

  // Returns where the other side's memory is mapped. Valid until a file is taken. Throws Error{protocol} if the other
  // side has sent no such memory, and std::runtime_error, for which it is not to blame, if this process could not map
  // it.
  Bytes memory_of(const Place& place);
  // Maps all files that have been sent. If one cannot be mapped, the error is thrown when it is used.
  void take_all();
  std::uint64_t sent() const { return sent_count_; }
  std::uint64_t taken() const { return taken_count_; }

 private:
  // A side refers only to the regions whose files it sent last. It may have sent a file for every other reference after
  // the oldest pending one.
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
  unsigned colour_;  // colour of the next file; each link of a process has another one
  Counts& mine_;
  const Counts& theirs_counts_;
  std::uint64_t sent_count_ = 0, taken_count_ = 0;
  std::deque<std::uint64_t> sent_;  // regions of this rank whose files the other side has
  std::deque<Theirs> theirs_;
  std::optional<std::string> lost_;  // the reason why a file could not be mapped
};

}  // namespace anello::shm
