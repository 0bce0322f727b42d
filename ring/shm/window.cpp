#include "ring/shm/window.hpp"

#include <anello/error.hpp>
#include <bit>
#include <tuple>

#include "ring/link/bell.hpp"
#include "ring/shm/prefetch.hpp"

namespace anello::shm {
namespace {

constexpr std::size_t kWords = std::tuple_size_v<decltype(WindowState::signature)>;
constexpr std::uint64_t kShownBits = 2, kShownMask = 3;

}  // namespace

bool Window::can_show(const Places& places) {
  if (places == shown_ && files_when_shown_ == files_.sent()) return true;
  try {
    return send_files(places);
  } catch (const Error&) {  // a tensor was freed, or too many descriptors are in transit
    return false;
  }
}

// Makes two passes, because sending one tensor's file may make both sides drop the other tensor's file.
bool Window::send_files(const Places& places) {
  files_.take_all();  // so that the other side has room for more files
  for (int k = 0; k < 2; k++)
    for (const std::uint64_t region : {places.input.region, places.output.region})
      if (!files_.has_sent(region)) {
        if (!files_.has_room()) return false;
        files_.send(region);
      }
  return true;
}

// The other side may still be reading the signature of an earlier operation, in which this side did not take part. It
// reads `posted` again after reading the signature, so this function clears `posted` before it changes the signature.
void Window::post(std::uint64_t number, const EncodedSignature& signature, Shown shown, const Places& places) {
  mine_.posted.store(0, std::memory_order_relaxed);
  const auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(signature);
  for (std::size_t k = 0; k < kWords; k++) mine_.signature[k].store(words[k], std::memory_order_release);
  if (shown != Shown::nothing) {
    if (places != shown_) {
      shown_ = places;
      mine_.input = {places.input.region, places.input.offset};
      mine_.output = {places.output.region, places.output.offset};
      mine_.version++;
    }
    files_when_shown_ = files_.sent();
  }
  mine_.posted.store(number << kShownBits | std::uint64_t(shown));
  wake();
}

std::optional<Window::Post> Window::posted(std::uint64_t number) const {
  const std::uint64_t posted = theirs_.posted.load(std::memory_order_acquire);
  if (posted >> kShownBits < number) return std::nullopt;
  std::array<std::uint64_t, kWords> words;
  for (std::size_t k = 0; k < kWords; k++) words[k] = theirs_.signature[k].load(std::memory_order_acquire);
  const bool is_later = posted >> kShownBits > number || theirs_.posted.load(std::memory_order_relaxed) != posted;
  return Post{std::bit_cast<EncodedSignature>(words), Shown(posted & kShownMask), is_later};
}

// The sizes of the tensors change from one operation to the next, even if their places do not.
Window::Tensors Window::tensors(std::uint64_t input_bytes, std::uint64_t output_bytes) {
  if (seen_version_ != theirs_.version || files_when_seen_ != files_.taken()) {
    files_.take_all();
    files_when_seen_ = files_.taken();
    seen_version_ = theirs_.version;
    input_ = output_ = {};
  }
  find(input_, theirs_.input, input_bytes);
  find(output_, theirs_.output, output_bytes);
  return {input_.memory, output_.memory};
}

void Window::find(Found& found, const WindowState::Spot& spot, std::uint64_t bytes) {
  if (bytes <= found.bytes) return;
  found = {files_.memory_of({spot.region, spot.offset, bytes}).data(), bytes};
}

// The fence makes all earlier reads of tensors happen before the read of `withdrawn`.
bool Window::is_withdrawn() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return theirs_.withdrawn.load() != 0;
}

// Fetches the cache line of `ended` now. The other side reads this line only after it has done its own part, so the
// line stays here until end() writes it.
void Window::begin(std::uint64_t number) {
  prefetch_to_write(&mine_.ended);
  mine_.begun.store(number);
}

// Fetches the cache line of `posted` early, for this side's next write. The other side has read `posted`, and reads it
// again only for the next operation, after this operation is complete.
void Window::end(std::uint64_t number) {
  mine_.ended.store(number);
  wake();
  prefetch_to_write(&mine_.posted);
}

void Window::withdraw() {
  mine_.begun.store(0);
  mine_.withdrawn.store(1);
}

bool Window::is_used(std::uint64_t number) const {
  return theirs_.begun.load() >= number && theirs_.ended.load() < number;
}

bool Window::may_sleep_until_posted(std::uint64_t number) {
  return may_sleep([&] { return theirs_.posted.load() >> kShownBits >= number; });
}

bool Window::may_sleep_until_ended(std::uint64_t number) {
  return may_sleep([&] { return theirs_.ended.load() >= number; });
}

// All flags are sequentially consistent, so at least one of the two sides sees the other side's flag.
void Window::wake() {
  if (theirs_.sleeps.load() != 0 && theirs_.sleeps.exchange(0) != 0) link::ring_bell(bell_);
}

}  // namespace anello::shm
