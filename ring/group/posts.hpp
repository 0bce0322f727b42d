// How the ranks of a host agree to carry out an operation through memory that they show each other. Each rank posts
// what it shows. If all ranks show the same kind of memory, they use this memory. Otherwise all ranks refuse, before
// any data has moved, and carry out the plan. One thread at a time.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/link/link.hpp"
#include "ring/run/message_header.hpp"
#include "ring/shm/window.hpp"

namespace anello::group {

class Posts {
 public:
  // `rank`: this process's rank among `size` ranks.
  Posts(int rank, int size, run::Explain explain);

  // Connects this object to a peer's link. A link over TCP has no window, so nothing can be shown then.
  void connect(int peer, link::Link& link);
  void connect_all(std::span<link::Link* const> links);  // by rank; all except this rank's must be open

  // Posts an operation, and what this rank shows in it. Returns false if this rank shows nothing: because `shown` is
  // `nothing`, or because a peer cannot map the memory. Then all ranks refuse.
  bool post(const Signature& signature, shm::Shown shown, const shm::Window::Places& places = {});

  // Looks for the peers' posts. Throws the error that `explain` returns, or Error{protocol}, if a peer has posted
  // another operation.
  enum class Seen { nothing_new, some, all, refusal };
  Seen look();

  std::uint64_t number() const { return number_; }                      // the operation's number, from 1 on
  const std::vector<std::size_t>& awaited() const { return awaited_; }  // the peers whose posts have not been seen
  bool may_sleep();                                                     // call before sleeping until they post

  // Returns where the memory that a peer shows is mapped; see Window::tensors(). Throws its Error{protocol} with the
  // peer's rank.
  shm::Window::Tensors memory_of(std::size_t peer, std::uint64_t input_bytes, std::uint64_t output_bytes) const;

  shm::Window& window(std::size_t peer) const { return *windows_[peer]; }
  template <class Use>
  void each_window(Use use) const {  // calls use(peer, window)
    for (std::size_t peer = 0; peer < windows_.size(); peer++)
      if (windows_[peer]) use(peer, *windows_[peer]);
  }

 private:
  bool can_show(const shm::Window::Places& places) const;

  std::size_t rank_;
  std::vector<shm::Window*> windows_;  // by peer; null for this rank, and for peers without a window
  run::Explain explain_;
  std::uint64_t number_ = 0;
  EncodedSignature signature_{};
  shm::Shown shown_ = shm::Shown::nothing;
  std::vector<std::size_t> awaited_;
};

}  // namespace anello::group
