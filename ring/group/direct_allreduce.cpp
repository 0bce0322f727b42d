#include "ring/group/direct_allreduce.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/shm/shm_link.hpp"

namespace anello::group {

using std::chrono::steady_clock;

DirectAllreduce::DirectAllreduce(int rank, int size, Explain explain)
    : rank_(rank),
      windows_(std::size_t(size)),
      explain_(std::move(explain)),
      connected_(windows_.size()),
      missing_(windows_.size() - 1),
      inputs_(windows_.size()),
      outputs_(windows_.size()) {}

void DirectAllreduce::start(const run::Arithmetic& arithmetic, const run::Scaling* scaling, const run::Buffer& input,
                            const run::Buffer& output, std::uint64_t elems) {
  clear();
  arithmetic_ = arithmetic;
  scaling_ = scaling;
  elems_ = elems;
  if (!input.list().empty() || !output.list().empty()) return;
  const Bytes from = input.run(0, elems, arithmetic.shift), to = output.run(0, elems, arithmetic.shift);
  for (const Bytes run : {from, to}) {
    if (!loans_.empty() && from.data() == to.data()) break;
    std::optional<shm::Loan> loan = shm::lend(run);
    if (!loan) return loans_.clear();
    loans_.push_back(std::move(*loan));
  }
  inputs_[std::size_t(rank_)] = from.data();
  outputs_[std::size_t(rank_)] = to.data();
  places_ = {loans_.front().place, loans_.back().place};
}

void DirectAllreduce::clear() {
  state_ = State::idle;
  number_ = 0;
  begin_ = at_ = end_ = 0;
  loans_.clear();
}

// A link over TCP has no window: then this rank cannot show its tensors to all.
void DirectAllreduce::connect(int peer, link::Link& link) {
  connected_[std::size_t(peer)] = true;
  missing_--;
  if (auto* const shared = dynamic_cast<shm::ShmLink*>(&link)) windows_[std::size_t(peer)] = &shared->window();
}

void DirectAllreduce::post(const Signature& signature) {
  number_ = signature.sequence + 1;
  signature_ = encode(signature);
  bool shows = may_show();
  for (std::size_t peer = 0; peer < windows_.size() && shows; peer++)
    if (peer != std::size_t(rank_)) shows = windows_[peer] && windows_[peer]->can_show(places_);
  each_window([&](std::size_t, shm::Window& window) { window.post(number_, signature_, shows ? &places_ : nullptr); });
  if (!shows) return loans_.clear();
  await_all(State::meeting);
}

void DirectAllreduce::await_all(State state) {
  state_ = state;
  awaited_.clear();
  each_window([&](std::size_t peer, shm::Window&) { awaited_.push_back(peer); });
}

bool DirectAllreduce::pass() {
  switch (state_) {
    case State::meeting:
      return meet();
    case State::reducing:
      reduce();
      return true;
    case State::ending:
      return end();
    default:
      return false;
  }
}

bool DirectAllreduce::meet() {
  const std::size_t before = awaited_.size();
  bool refused = false;
  std::erase_if(awaited_, [&](std::size_t peer) {
    const auto post = windows_[peer]->posted(number_);
    if (!post) return false;
    if (post->signature != signature_)
      throw explain_(int(peer), decode_signature({post->signature.data(), kSignatureBytes}));
    refused |= !post->shows;
    return true;
  });
  if (refused) {
    state_ = State::idle;
    loans_.clear();
  } else if (awaited_.empty()) {
    begin();
  }
  return refused || awaited_.size() < before;
}

// Chunks begin cache lines if the tensors do.
void DirectAllreduce::begin() {
  each_window([&](std::size_t peer, shm::Window& window) {
    try {
      const shm::Window::Tensors theirs = window.tensors(bytes());
      inputs_[peer] = theirs.input;
      outputs_[peer] = theirs.output;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::protocol) throw;  // of this process
      throw Error(e.code(), e.message(), int(peer));
    }
    window.begin(number_);
  });
  const std::uint64_t line = 64 >> arithmetic_.shift, lines = windows_.size() * line;
  const std::uint64_t chunk = (elems_ + lines - 1) / lines * line;
  begin_ = at_ = std::min(elems_, chunk * std::uint64_t(rank_));
  end_ = std::min(elems_, begin_ + chunk);
  state_ = State::reducing;
}

// What was read is good if the peers had not withdrawn their tensors after that.
void DirectAllreduce::reduce() {
  check_not_withdrawn();
  const std::uint64_t to = std::min(end_, at_ + (kBiteBytes >> arithmetic_.shift));
  const std::uint64_t block = run::block_elems(arithmetic_);
  while (at_ < to) {
    const std::uint64_t elems = std::min(block, to - at_);
    reduce_block(at_, elems);
    at_ += elems;
  }
  if (at_ < end_) return;
  check_not_withdrawn();
  each_window([&](std::size_t, shm::Window& window) { window.end(number_); });
  await_all(State::ending);
}

void DirectAllreduce::check_not_withdrawn() const {
  each_window([](std::size_t peer, const shm::Window& window) {
    if (window.is_withdrawn())
      throw Error(ErrorCode::network, "shared memory: the operation was given up while its tensor was being used",
                  int(peer));
  });
}

// The outputs may be the inputs, so they are written last.
void DirectAllreduce::reduce_block(std::uint64_t at, std::uint64_t elems) {
  const std::uint64_t offset = at << arithmetic_.shift;
  const Bytes mine{outputs_[std::size_t(rank_)] + offset, std::size_t(elems) << arithmetic_.shift};
  const auto input = [&](std::uint32_t rank) { return inputs_[rank] + offset; };
  if (windows_.size() == 2 && arithmetic_.combine_twice && !scaling_) {
    std::byte* const theirs = outputs_[std::size_t(1 - rank_)] + offset;
    return arithmetic_.combine_twice(mine.data(), theirs, input(0), input(1), elems);
  }
  run::fold(arithmetic_, std::uint32_t(windows_.size()), input, mine.data(), partial_.data(), elems);
  if (scaling_) scaling_->apply(mine.data(), elems);
  for (std::size_t rank = 0; rank < outputs_.size(); rank++)
    if (rank != std::size_t(rank_)) std::memcpy(outputs_[rank] + offset, mine.data(), mine.size());
}

bool DirectAllreduce::end() {
  const std::size_t before = awaited_.size();
  std::erase_if(awaited_, [&](std::size_t peer) { return windows_[peer]->ended(number_); });
  if (awaited_.empty()) {
    state_ = State::done;
    loans_.clear();
  }
  return awaited_.size() < before;
}

bool DirectAllreduce::may_sleep() {
  bool may = state_ == State::meeting || state_ == State::ending;
  for (const std::size_t peer : awaited_)
    may &= state_ == State::meeting ? windows_[peer]->may_sleep_until_posted(number_)
                                    : windows_[peer]->may_sleep_until_ended(number_);
  return may;
}

// In this order: no two ranks wait for each other.
void DirectAllreduce::give_up() {
  constexpr std::chrono::milliseconds kLimit{100};
  if (!active() || done()) return loans_.clear();
  each_window([](std::size_t, shm::Window& window) { window.withdraw(); });
  const auto until = steady_clock::now() + kLimit;
  each_window([&](std::size_t peer, const shm::Window& window) {
    while (window.is_used(number_) && steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (window.is_used(number_))
      log(Severity::warning, text("rank ", peer,
                                  " of the group did not stop using this rank's tensors; if it goes on, it "
                                  "may write ",
                                  kBiteBytes, " bytes there"));
  });
  state_ = State::idle;
  loans_.clear();
}

std::pair<std::uint64_t, std::uint64_t> DirectAllreduce::progress() const {
  return {(at_ - begin_) << arithmetic_.shift, (end_ - begin_) << arithmetic_.shift};
}

}  // namespace anello::group
