#include "ring/group/posts.hpp"

#include <utility>

#include "ring/link/memory_link.hpp"

namespace anello::group {

Posts::Posts(int rank, int size, run::Explain explain)
    : rank_(std::size_t(rank)), windows_(std::size_t(size)), explain_(std::move(explain)) {}

void Posts::connect(int peer, link::Link& link) {
  if (link::MemoryLink* const memory = link.memory()) windows_[std::size_t(peer)] = memory->window();
}

void Posts::connect_all(std::span<link::Link* const> links) {
  for (std::size_t peer = 0; peer < windows_.size(); peer++)
    if (peer != rank_ && !windows_[peer]) connect(int(peer), *links[peer]);
}

bool Posts::can_show(const shm::Window::Places& places) const {
  for (std::size_t peer = 0; peer < windows_.size(); peer++)
    if (peer != rank_ && !(windows_[peer] && windows_[peer]->can_show(places))) return false;
  return true;
}

bool Posts::post(const Signature& signature, shm::Shown shown, const shm::Window::Places& places) {
  number_ = signature.sequence + 1;
  encode(signature, signature_);
  shown_ = shown != shm::Shown::nothing && can_show(places) ? shown : shm::Shown::nothing;
  awaited_.clear();
  each_window([&](std::size_t peer, shm::Window& window) {
    window.post(number_, signature_, shown_, places);
    awaited_.push_back(peer);
  });
  return shown_ != shm::Shown::nothing;
}

Posts::Seen Posts::look() {
  const std::size_t before = awaited_.size();
  bool refused = false;
  std::erase_if(awaited_, [&](std::size_t peer) {
    const auto post = windows_[peer]->posted(number_);
    if (!post) return false;
    if (!post->is_later)
      run::check_signature(signature_, std::as_bytes(std::span(post->signature)), int(peer), explain_);
    refused |= post->is_later || post->shown != shown_;
    return true;
  });
  if (refused) return Seen::refusal;
  if (awaited_.empty()) return Seen::all;
  return awaited_.size() < before ? Seen::some : Seen::nothing_new;
}

// Other errors are faults of this process, not of the peer.
shm::Window::Tensors Posts::memory_of(std::size_t peer, std::uint64_t input_bytes, std::uint64_t output_bytes) const
    try {
  return windows_[peer]->tensors(input_bytes, output_bytes);
} catch (const Error& e) {
  if (e.code() != ErrorCode::protocol) throw;
  throw Error(e.code(), e.message(), int(peer));
}

bool Posts::may_sleep() {
  bool may = true;
  for (const std::size_t peer : awaited_) may &= windows_[peer]->may_sleep_until_posted(number_);
  return may;
}

}  // namespace anello::group
