#include "ring/group/direct_collective.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/run/step_trace.hpp"

namespace anello::group {

using std::chrono::steady_clock;

DirectCollective::DirectCollective(int rank, int size, Posts& posts)
    : rank_(rank), posts_(posts), parts_(size), tensors_(std::size_t(size)) {}

void DirectCollective::start(const Call& operation, const run::Buffer& input, const run::Arithmetic& arithmetic,
                             const run::Scaling* scaling) {
  clear();
  arithmetic_ = arithmetic;
  scaling_ = scaling;
  parts_.divide(operation, arithmetic.shift);
  elems_ = parts_.of(rank_).count;
  const bool shows_input = parts_.shows_input(rank_), shows_output = parts_.shows_output(rank_);
  if (shows_input && !lend(input, parts_.input_elems(rank_))) return;
  const bool is_lent = shows_input && input.is_same(operation.output);
  if (shows_output && !is_lent && !lend(operation.output, parts_.output_elems(rank_))) return;
  places_ = {loans_.front().place, loans_.back().place};
  tensors_[std::size_t(rank_)] = {input.run(0, parts_.input_elems(rank_), arithmetic.shift).data(),
                                  operation.output.run(0, parts_.output_elems(rank_), arithmetic.shift).data()};
}

// Adds the tensor to loans_. If other ranks cannot map the tensor, clears loans_ and returns false.
bool DirectCollective::lend(const run::Buffer& tensor, std::uint64_t elems) {
  const Bytes run = tensor.run(0, elems, arithmetic_.shift);
  std::optional<shm::Loan> loan;
  if (run.size() == elems << arithmetic_.shift) loan = shm::lend(run);
  if (!loan) return loans_.clear(), false;
  loans_.push_back(std::move(*loan));
  return true;
}

void DirectCollective::clear() {
  state_ = State::idle;
  at_ = elems_ = 0;
  loans_.clear();
}

void DirectCollective::begin(const run::Load& load) {
  trace_ = load.trace;
  if (trace_) trace_->start();
  post(*load.signature);
}

void DirectCollective::post(const Signature& signature) {
  const bool shows = posts_.post(signature, may_show() ? shm::Shown::tensors : shm::Shown::nothing, places_);
  set(shows ? Status::moving : Status::refused);
  if (!shows) return loans_.clear();
  state_ = State::meeting;
}

bool DirectCollective::pass() {
  const std::uint64_t before = at_;
  const bool moved = take_turn();
  if (!active())
    set(Status::refused);
  else if (trace_)
    record(before);
  return moved;
}

void DirectCollective::record(std::uint64_t before) {
  if (at_ > before)
    trace_->folded((at_ - before) << arithmetic_.shift);
  else
    trace_->mark();
}

bool DirectCollective::take_turn() {
  switch (state_) {
    case State::meeting:
      return meet();
    case State::making:
      make();
      return true;
    case State::ending:
      return end();
    default:
      return false;
  }
}

bool DirectCollective::meet() {
  const Posts::Seen seen = posts_.look();
  if (seen == Posts::Seen::refusal) {
    state_ = State::idle;
    loans_.clear();
  } else if (seen == Posts::Seen::all) {
    begin_making();
  }
  return seen != Posts::Seen::nothing_new;
}

void DirectCollective::begin_making() {
  posts_.each_window([&](std::size_t peer, shm::Window& window) {
    const auto bytes = [&](bool shown, std::uint64_t elems) { return shown ? elems << arithmetic_.shift : 0; };
    const int rank = int(peer);
    tensors_[peer] = posts_.memory_of(peer, bytes(parts_.shows_input(rank), parts_.input_elems(rank)),
                                      bytes(parts_.shows_output(rank), parts_.output_elems(rank)));
    window.begin(posts_.number());
  });
  find_sources_and_destinations();
  state_ = State::making;
}

void DirectCollective::find_sources_and_destinations() {
  const std::uint64_t in_input = parts_.begin_in_input(rank_) << arithmetic_.shift;
  const std::uint64_t in_output = parts_.begin_in_output(rank_) << arithmetic_.shift;
  const auto output_of = [&](int rank) { return tensors_[std::size_t(rank)].output + in_output; };
  sources_.clear();
  destinations_.clear();
  if (parts_.writes(rank_, rank_)) destinations_.push_back(output_of(rank_));
  for (int rank = 0; rank < int(tensors_.size()); rank++) {
    if (parts_.reads(rank_, rank)) sources_.push_back(tensors_[std::size_t(rank)].input + in_input);
    if (rank != rank_ && parts_.writes(rank_, rank)) destinations_.push_back(output_of(rank));
  }
}

// The data that was read is valid only if no peer has withdrawn its tensors before this rank has read them, so this
// function checks again after reading.
void DirectCollective::make() {
  check_not_withdrawn();
  const std::uint64_t to = std::min(elems_, at_ + (kBiteBytes >> arithmetic_.shift));
  const std::uint64_t block = run::block_elems(arithmetic_);
  while (at_ < to) {
    const std::uint64_t elems = std::min(block, to - at_);
    make_block(at_, elems);
    at_ += elems;
  }
  if (at_ < elems_) return;
  check_not_withdrawn();
  unended_.clear();
  posts_.each_window([&](std::size_t peer, shm::Window& window) {
    window.end(posts_.number());
    unended_.push_back(peer);
  });
  state_ = State::ending;
}

void DirectCollective::check_not_withdrawn() const {
  posts_.each_window([](std::size_t peer, const shm::Window& window) {
    if (window.is_withdrawn())
      throw Error(ErrorCode::network, "shared memory: the operation was given up while its tensor was being used",
                  int(peer));
  });
}

// An output may also be an input, so all inputs are read before any output is written.
void DirectCollective::make_block(std::uint64_t at, std::uint64_t elems) {
  const std::uint64_t offset = at << arithmetic_.shift;
  const auto source = [&](std::uint32_t k) { return sources_[k] + offset; };
  std::byte* const first = destinations_[0] + offset;
  if (sources_.size() == 2 && destinations_.size() == 2 && arithmetic_.combine_twice && !scaling_)
    return arithmetic_.combine_twice(first, destinations_[1] + offset, source(0), source(1), elems);
  const std::byte* made = source(0);
  if (sources_.size() > 1) {
    run::fold(arithmetic_, std::uint32_t(sources_.size()), source, first, partial_.data(), elems);
    if (scaling_) scaling_->apply(first, elems);
    made = first;
  }
  for (std::byte* const destination : destinations_)
    if (destination + offset != made) std::memcpy(destination + offset, made, elems << arithmetic_.shift);
}

bool DirectCollective::end() {
  const std::size_t before = unended_.size();
  std::erase_if(unended_, [&](std::size_t peer) { return posts_.window(peer).ended(posts_.number()); });
  if (unended_.empty()) {
    state_ = State::ended;
    set(Status::done);
    loans_.clear();
  }
  return unended_.size() < before;
}

std::vector<int> DirectCollective::awaited() const {
  const std::vector<std::size_t>& peers = state_ == State::meeting ? posts_.awaited() : unended_;
  return {peers.begin(), peers.end()};
}

bool DirectCollective::may_sleep() {
  if (state_ == State::meeting) return posts_.may_sleep();
  bool may = state_ == State::ending;
  for (const std::size_t peer : unended_) may &= posts_.window(peer).may_sleep_until_ended(posts_.number());
  return may;
}

// Withdraws from all windows before it waits for any of them, so that no two ranks wait for each other.
void DirectCollective::give_up() {
  constexpr std::chrono::milliseconds kLimit{100};
  if (!active() || done()) return loans_.clear();
  posts_.each_window([](std::size_t, shm::Window& window) { window.withdraw(); });
  const auto until = steady_clock::now() + kLimit;
  posts_.each_window([&](std::size_t peer, const shm::Window& window) {
    while (window.is_used(posts_.number()) && steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (window.is_used(posts_.number()))
      log(Severity::warning, text("rank ", peer,
                                  " of the group did not stop using this rank's tensors; if it goes on, it "
                                  "may write ",
                                  kBiteBytes, " bytes there"));
  });
  state_ = State::idle;
  loans_.clear();
}

std::pair<std::uint64_t, std::uint64_t> DirectCollective::progress() const {
  return {at_ << arithmetic_.shift, elems_ << arithmetic_.shift};
}

DirectCollective::Moved DirectCollective::moved() const {
  std::uint64_t sent = 0, received = 0;
  for (int peer = 0; peer < int(tensors_.size()); peer++) {
    if (peer == rank_) continue;
    const std::uint64_t mine = elems_, theirs = parts_.of(peer).count;
    sent += mine * parts_.writes(rank_, peer) + theirs * parts_.reads(peer, rank_);
    received += mine * parts_.reads(rank_, peer) + theirs * parts_.writes(peer, rank_);
  }
  return {sent << arithmetic_.shift, received << arithmetic_.shift};
}

}  // namespace anello::group
