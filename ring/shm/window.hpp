// The state that two ranks of a host show each other beside their pipes: the places of their tensors, for an operation
// that reads and writes them directly. Operations are numbered from 1 on. Each side posts an operation, with or without
// its tensors. If all ranks have shown their tensors, each begins to use those of the others, and ends its use before
// the operation is complete. A side that gives up withdraws its tensors; the other side stops at its next check.
//
// Flags that different sides write are in different cache lines; fields that are read first share one. One thread at a
// time.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "ring/base/signature.hpp"
#include "ring/shm/region_files.hpp"

namespace anello::shm {

// Written by one side, except `sleeps`, which the other side clears; initially all zero.
struct WindowState {
  struct Spot {
    std::uint64_t region, offset;
  };
  alignas(64) std::atomic<std::uint64_t> posted;  // the operation's number << 1 | whether tensors are shown
  std::array<std::atomic<std::uint64_t>, kSignatureBytes / sizeof(std::uint64_t)> signature;
  std::uint64_t version;  // number of changes of the spots
  alignas(64) Spot input;
  Spot output;
  alignas(64) std::atomic<std::uint64_t> ended;  // the last operation whose use of the other's tensors has ended
  alignas(64) std::atomic<std::uint64_t> begun;  // the operation that uses them; 0: none
  alignas(64) std::atomic<std::uint32_t> sleeps;
  std::atomic<std::uint32_t> withdrawn;
  RegionFiles::Counts files;
};

class Window {
 public:
  // `bell`: the other side's bell. All arguments must outlive this.
  Window(WindowState& mine, WindowState& theirs, RegionFiles& files, int bell)
      : mine_(mine), theirs_(theirs), files_(files), bell_(bell) {}

  struct Places {
    Place input, output;
    friend bool operator==(const Places&, const Places&) = default;
  };
  // Sends the files of these tensors to the other side. False if it has not mapped earlier files: then they cannot be
  // shown.
  bool can_show(const Places& places);
  // `places` null: this rank's tensors are not shown, and no tensors will be used. Otherwise can_show() must have been
  // true.
  void post(std::uint64_t number, const EncodedSignature& signature, const Places* places);

  struct Post {
    EncodedSignature signature;
    bool shows = false;
    bool is_later = false;  // the peer is in a later operation; then the other members are not valid
  };
  std::optional<Post> posted(std::uint64_t number) const;
  struct Tensors {
    std::byte *input = nullptr, *output = nullptr;
  };
  // Returns where the tensors that the other side shows are mapped. The arguments are their sizes; 0: that tensor is
  // not used. Throws Error{protocol} if the memory does not exist.
  Tensors tensors(std::uint64_t input_bytes, std::uint64_t output_bytes);

  // This side uses the other's tensors from begin() to end(). It copies in blocks, and checks before each block and
  // after the last whether the other side has withdrawn them.
  void begin(std::uint64_t number);
  bool is_withdrawn() const;
  void end(std::uint64_t number);
  bool ended(std::uint64_t number) const { return theirs_.ended.load(std::memory_order_acquire) >= number; }

  // Call before sleeping until the other side has posted, or has ended. False if that has happened already.
  bool may_sleep_until_posted(std::uint64_t number);
  bool may_sleep_until_ended(std::uint64_t number);

  // Gives up: this side uses no tensors any more, and the other side should stop using its tensors.
  void withdraw();
  // After withdraw(): whether the other side may still be using this side's tensors.
  bool is_used(std::uint64_t number) const;

 private:
  bool send_files(const Places& places);
  void wake();
  // A tensor of the other side, and how many of its bytes are mapped.
  struct Found {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };
  void find(Found& found, const WindowState::Spot& spot, std::uint64_t bytes);
  template <class Came>
  bool may_sleep(Came came);

  WindowState &mine_, &theirs_;
  RegionFiles& files_;
  int bell_;
  Places shown_;  // the last ones
  std::uint64_t files_when_shown_ = 0;
  Found input_, output_;  // what the version seen last refers to
  std::uint64_t seen_version_ = 0, files_when_seen_ = 0;
};

}  // namespace anello::shm
