// The state that two ranks of a host show each other beside their pipes: where their tensors are, for an operation that
// reads and writes them directly. Operations are numbered from 1 on. Each side posts an operation, together with the
// memory that it shows in this operation. If all ranks have shown their tensors, each rank begins to use the other
// ranks' tensors, and ends this use before the operation is complete. A side that gives up withdraws its tensors, and
// the other side stops at its next check.
//
// Flags that different sides write are on different cache lines. The fields that are read first share one line. One
// thread at a time.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "ring/base/signature.hpp"
#include "ring/shm/region_files.hpp"

namespace anello::shm {

// Written by one side, except `sleeps`, which the other side clears. Initially all zero.
struct WindowState {
  struct Spot {
    std::uint64_t region, offset;
  };
  alignas(64) std::atomic<std::uint64_t> posted;  // the operation's number << 2 | Shown
  std::array<std::atomic<std::uint64_t>, kSignatureBytes / sizeof(std::uint64_t)> signature;
  std::uint64_t version;  // number of changes of the tensors' places so far
  alignas(64) Spot input;
  Spot output;
  alignas(64) std::atomic<std::uint64_t> ended;  // the last operation that used the other side's tensors and has ended
  alignas(64) std::atomic<std::uint64_t> begun;  // the operation that is using the other side's tensors; 0: none
  alignas(64) std::atomic<std::uint32_t> sleeps;
  std::atomic<std::uint32_t> withdrawn;
  RegionFiles::Counts files;
};

// Memory that a side shows in an operation: none, its tensors, or a stage, which is memory of its group into which it
// copies its tensors.
enum class Shown : std::uint64_t { nothing, tensors, stage };

class Window {
 public:
  // `bell`: the other side's bell. All arguments must outlive this window.
  Window(WindowState& mine, WindowState& theirs, RegionFiles& files, int bell)
      : mine_(mine), theirs_(theirs), files_(files), bell_(bell) {}

  struct Places {
    Place input, output;
    friend bool operator==(const Places&, const Places&) = default;
  };
  // Sends the files of these tensors to the other side. False if the tensors cannot be shown, because the other side
  // has not yet mapped earlier files.
  bool can_show(const Places& places);
  // Shown::nothing: no rank uses another rank's memory in this operation, and `places` does not matter. Otherwise
  // can_show(places) must have returned true.
  void post(std::uint64_t number, const EncodedSignature& signature, Shown shown, const Places& places);

  struct Post {
    EncodedSignature signature;
    Shown shown = Shown::nothing;
    bool is_later = false;  // the peer is in a later operation; then the other members are not valid
  };
  std::optional<Post> posted(std::uint64_t number) const;
  struct Tensors {
    std::byte *input = nullptr, *output = nullptr;
  };
  // Returns where the tensors of the other side are mapped. The arguments are the tensors' sizes; 0: this side does not
  // use that tensor. Throws Error{protocol} if the memory does not exist.
  Tensors tensors(std::uint64_t input_bytes, std::uint64_t output_bytes);

  // Between begin() and end(), this side uses the other side's tensors. It copies in blocks. Before each block and
  // after the last one, it checks is_withdrawn().
  void begin(std::uint64_t number);
  bool is_withdrawn() const;
  void end(std::uint64_t number);
  bool ended(std::uint64_t number) const { return theirs_.ended.load(std::memory_order_acquire) >= number; }

  // Call before sleeping until the other side has posted, or has ended. False if that has already happened.
  bool may_sleep_until_posted(std::uint64_t number);
  bool may_sleep_until_ended(std::uint64_t number);

  // Call before sleeping until came() is true. The other side makes came() true before it calls wake(). Returns false
  // if came() is true already.
  template <class Came>
  bool may_sleep(Came came) {
    mine_.sleeps.store(1);
    if (!came()) return true;
    mine_.sleeps.store(0);
    return false;
  }
  // The other side need not wake this side any more.
  void stay_awake() { mine_.sleeps.store(0, std::memory_order_relaxed); }
  void wake();  // if the other side sleeps

  // Gives up: this side stops using tensors, and the other side must stop using this side's tensors.
  void withdraw();
  // Call after withdraw(). True if the other side may still be using this side's tensors.
  bool is_used(std::uint64_t number) const;

 private:
  bool send_files(const Places& places);
  // A tensor of the other side, and how many of its bytes are mapped.
  struct Found {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };
  void find(Found& found, const WindowState::Spot& spot, std::uint64_t bytes);

  WindowState &mine_, &theirs_;
  RegionFiles& files_;
  int bell_;
  Places shown_;  // the places that were shown last
  std::uint64_t files_when_shown_ = 0;
  Found input_, output_;  // the other side's tensors, as of the version that was seen last
  std::uint64_t seen_version_ = 0, files_when_seen_ = 0;
};

}  // namespace anello::shm
