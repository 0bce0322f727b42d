// What two ranks of a host show each other beside their pipes: where their tensors lie, for an operation that reads and
// writes them there. Operations are numbered, from 1 on. Each side posts an operation, with its tensors or without. If
// all ranks have shown theirs, each begins to use those of the others, and ends its use before the operation is
// complete. A side that gives up withdraws its tensors: then the other side stops as soon as it looks.
// Flags that different sides write share no cache line; what is read first lies in one. One thread at a time.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "ring/base/signature.hpp"
#include "ring/shm/region_files.hpp"

namespace anello::shm {

// Written by one side, except `sleeps`, which the other side clears; all zero at first.
struct WindowState {
  struct Spot {
    std::uint64_t region, offset;
  };
  alignas(64) std::atomic<std::uint64_t> posted;  // the operation's number << 1 | whether tensors are shown
  std::array<std::atomic<std::uint64_t>, kSignatureBytes / sizeof(std::uint64_t)> signature;
  std::uint64_t version;  // how often the spots have changed
  alignas(64) Spot input;
  Spot output;
  alignas(64) std::atomic<std::uint64_t> ended;  // the operation after which the other's tensors are used no more
  alignas(64) std::atomic<std::uint64_t> begun;  // the operation that uses them; 0: none does
  alignas(64) std::atomic<std::uint32_t> sleeps;
  std::atomic<std::uint32_t> withdrawn;
  RegionFiles::Counts files;
};

class Window {
 public:
  // `bell` is the other side's. Everything outlives this.
  Window(WindowState& mine, WindowState& theirs, RegionFiles& files, int bell)
      : mine_(mine), theirs_(theirs), files_(files), bell_(bell) {}

  struct Places {
    Place input, output;
    friend bool operator==(const Places&, const Places&) = default;
  };
  // Lets the other side map them. False if it has not mapped earlier ones: then they cannot be shown.
  bool can_show(const Places& places);
  // Null: this rank's tensors are not shown, and nothing will be used. Otherwise can_show() was true.
  void post(std::uint64_t number, const EncodedSignature& signature, const Places* places);

  struct Post {
    EncodedSignature signature;
    bool shows = false;
    bool is_later = false;  // of a later operation: the other side went on without this one; the rest says nothing
  };
  std::optional<Post> posted(std::uint64_t number) const;
  struct Tensors {
    std::byte *input = nullptr, *output = nullptr;
  };
  // Where the other side's tensors, which it shows, are mapped. They have these sizes; 0: that one is not used. Throws
  // Error{protocol} if they are not there.
  Tensors tensors(std::uint64_t input_bytes, std::uint64_t output_bytes);

  // This side uses the other's tensors from begin() to end(), in bites, and looks before each, and after the last,
  // whether the other side has withdrawn them.
  void begin(std::uint64_t number);
  bool is_withdrawn() const;
  void end(std::uint64_t number);
  bool ended(std::uint64_t number) const { return theirs_.ended.load(std::memory_order_acquire) >= number; }

  // Call before sleeping until the other side has posted, or has ended. False if that is so already.
  bool may_sleep_until_posted(std::uint64_t number);
  bool may_sleep_until_ended(std::uint64_t number);

  // This side gives up: it uses nothing any more, and its own tensors should not be used.
  void withdraw();
  // After withdraw(): the other side may still be using them.
  bool is_used(std::uint64_t number) const;

 private:
  bool send_files(const Places& places);
  void wake();
  // A tensor of the other side, as far as it is known to be there.
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
  Places shown_;  // last
  std::uint64_t files_when_shown_ = 0;
  Found input_, output_;  // of the version that was seen last
  std::uint64_t seen_version_ = 0, files_when_seen_ = 0;
};

}  // namespace anello::shm
