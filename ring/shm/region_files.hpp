// The regions (memory from anello::allocate) that two ranks of a host have mapped from each other. The owner passes the
// file of each region over a Unix socket before the region's first use. When there are too many regions, both sides
// drop the oldest. The side that has mapped a region drops it later than the owner does, because unread references to
// the region may still exist. One thread at a time.
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
  // Counters in memory that both sides see: how many files one side has sent and received. Only that side writes them.
  struct Counts {
    std::atomic<std::uint64_t> sent, taken;
  };

  RegionFiles(Descriptor socket, Counts& mine, const Counts& theirs);

  // Sends the region's file, unless the other side has it. The file arrives before the other side sees anything that
  // this side publishes after this call. Throws Error{network}.
  void send(std::uint64_t region);
  bool has_sent(std::uint64_t region) const;
  // False if the other side has received no files for a long time. Then call send() only for a file that the other side
  // is about to receive.
  bool has_room() const;

  // Returns where the other side's memory is mapped. Valid until the next file is received. Throws Error{protocol} if
  // the other side has not sent this memory. Throws std::runtime_error if this process could not map the memory,
  // because that is not the other side's fault.
  Bytes memory_of(const Place& place);
  // Maps all files that have arrived. If a file cannot be mapped, memory_of() throws when the file is used.
  void take_all();
  std::uint64_t sent() const { return sent_count_; }
  std::uint64_t taken() const { return taken_count_; }

 private:
  // A side refers only to the kMaxSent regions whose files it sent last. But after it made its oldest pending
  // reference, it may have sent one more file for each further reference. So the other side keeps more files mapped.
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
  unsigned colour_;  // colour of the next file; up to 15 links of a process have different colours
  Counts& mine_;
  const Counts& theirs_counts_;
  std::uint64_t sent_count_ = 0, taken_count_ = 0;
  std::deque<std::uint64_t> sent_;  // numbers of this rank's regions whose files the other side has
  std::deque<Theirs> theirs_;
  std::optional<std::string> lost_;  // why a file could not be mapped
};

}  // namespace anello::shm
