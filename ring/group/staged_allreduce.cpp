#include "ring/group/staged_allreduce.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ring/group/direct_parts.hpp"
#include "ring/run/step_trace.hpp"

namespace anello::group {
namespace {

// Calls use(bytes of the tensors, their offset) for each contiguous run of these elements.
template <class Use>
void each_piece(const run::Buffer& tensors, plan::Range range, std::uint32_t shift, Use use) {
  for (std::uint64_t at = range.begin; at < range.end();) {
    const Bytes piece = tensors.run(at, range.end() - at, shift);
    use(piece, (at - range.begin) << shift);
    at += piece.size() >> shift;
  }
}

void copy_from(const run::Buffer& tensors, plan::Range range, std::uint32_t shift, std::byte* to,
               shm::SharedCopier& copier) {
  each_piece(tensors, range, shift,
             [&](Bytes piece, std::uint64_t offset) { copier.copy(to + offset, piece.data(), piece.size()); });
}

void copy_to(const run::Buffer& tensors, plan::Range range, std::uint32_t shift, const std::byte* from) {
  each_piece(tensors, range, shift,
             [from](Bytes piece, std::uint64_t offset) { std::memcpy(piece.data(), from + offset, piece.size()); });
}

}  // namespace

StagedAllreduce::StagedAllreduce(int rank, int size, Posts& posts)
    : rank_(std::size_t(rank)), size_(std::size_t(size)), posts_(posts) {}

bool StagedAllreduce::prepare(const run::Load& load, std::size_t slab_bytes) {
  return !load.inputs() && stage_.make(slab_bytes);
}

plan::Range StagedAllreduce::slab(Slabs number) const {
  const std::uint64_t begin = number * slab_elems_;
  return {begin, std::min(slab_elems_, elems_ - begin)};
}

plan::Range StagedAllreduce::chunk(Slabs number, std::size_t rank) const {
  return chunk_of(slab(number).count, int(size_), int(rank), load_.arithmetic->shift);
}

void StagedAllreduce::begin(const run::Load& load) {
  load_ = load;
  const std::uint32_t shift = load.arithmetic->shift;
  elems_ = load.plan->output_elems;
  slab_elems_ = stage_.view().slab_bytes >> shift;
  slabs_ = (elems_ + slab_elems_ - 1) / slab_elems_;
  copied_ = made_ = taken_ = 0;
  taken_from_ = 0;
  met_ = slept_ = false;
  is_list_ = !load.input->list().empty() || !load.output->list().empty();
  if (load.trace) load.trace->start();
  copy_in_slab();
  const shm::Window::Places places{stage_.place(), stage_.place()};
  set(posts_.post(*load.signature, shm::Shown::stage, places) ? Status::moving : Status::refused);
}

bool StagedAllreduce::pass() {
  if (slept_) posts_.each_window([](std::size_t, shm::Window& window) { window.stay_awake(); });
  slept_ = false;
  return met_ ? move() : meet();
}

bool StagedAllreduce::meet() {
  const Posts::Seen seen = posts_.look();
  if (seen == Posts::Seen::refusal) set(Status::refused);
  if (seen == Posts::Seen::all) {
    find_stages();
    met_ = true;
  }
  return seen != Posts::Seen::nothing_new;
}

void StagedAllreduce::find_stages() {
  const std::size_t bytes = stage_.view().bytes();
  peers_.clear();
  posts_.each_window([&](std::size_t peer, shm::Window&) {
    peers_.push_back({peer, {posts_.memory_of(peer, bytes, 0).input, stage_.view().slab_bytes}});
  });
}

// First does the work for which the peers wait.
bool StagedAllreduce::move() {
  const bool copied = copy_in(), made = make(), taken = take();
  if (taken_ == slabs_) {
    before_ += slabs_;
    set(Status::done);
  }
  return copied || made || taken;
}

void StagedAllreduce::publish(std::atomic<std::uint64_t>& counter, Slabs slabs) {
  counter.store(before_ + slabs);
  posts_.each_window([](std::size_t, shm::Window& window) { window.wake(); });
}

// Does not copy the first slab: begin() has copied it, and the post announces it.
bool StagedAllreduce::copy_in() {
  if (!may_copy_in()) return false;
  copy_in_slab();
  publish(stage_.view().counters().copied, copied_);
  return true;
}

// For a list, also copies this rank's own chunk in, because its elements are not contiguous.
void StagedAllreduce::copy_in_slab() {
  const std::uint32_t shift = load_.arithmetic->shift;
  const std::uint64_t begin = slab(copied_).begin;
  std::byte* const to = stage_.view().input(before_ + copied_);
  for (std::size_t reader = 0; reader < size_; reader++) {
    if (reader == rank_ && !is_list_) continue;
    const plan::Range its = chunk(copied_, reader);
    copy_from(*load_.input, {begin + its.begin, its.count}, shift, to + (its.begin << shift), copiers_[reader]);
  }
  copied_++;
}

// A peer copies a slab into a slot only when it has completed the previous slab of that slot. Then the peer does not
// read this rank's previous result any more, and this rank may write the next result.
bool StagedAllreduce::lets_make(const Peer& peer) const {
  return made_ == 0 || peer.stage.counters().copied.load() > before_ + made_;
}

bool StagedAllreduce::may_make() const {
  return made_ < copied_ && std::ranges::all_of(peers_, [&](const Peer& peer) { return lets_make(peer); });
}

bool StagedAllreduce::make() {
  if (!may_make()) return false;
  if (load_.trace) load_.trace->mark();
  make_chunk();
  if (load_.trace) load_.trace->folded(chunk(made_, rank_).count << load_.arithmetic->shift);
  made_++;
  publish(stage_.view().counters().made, made_);
  return true;
}

void StagedAllreduce::make_chunk() {
  const run::Arithmetic& arithmetic = *load_.arithmetic;
  const std::uint32_t shift = arithmetic.shift;
  const plan::Range own = chunk(made_, rank_);
  const std::uint64_t begin = slab(made_).begin + own.begin;
  std::byte* const shown = stage_.view().result(before_ + made_);
  std::byte* const out = is_list_ ? shown : load_.output->single(begin, shift);
  std::array<const std::byte*, 8> sources{};
  sources[rank_] =
      is_list_ ? stage_.view().input(before_ + made_) + (own.begin << shift) : load_.input->single(begin, shift);
  for (const Peer& peer : peers_) sources[peer.rank] = peer.stage.input(before_ + made_) + (own.begin << shift);
  const std::uint64_t block = run::block_elems(arithmetic);
  for (std::uint64_t at = 0; at < own.count; at += block) {
    const std::uint64_t elems = std::min(block, own.count - at);
    const std::uint64_t offset = at << shift;
    run::fold(
        arithmetic, std::uint32_t(size_), [&](std::uint32_t k) { return sources[k] + offset; }, out + offset,
        partial_.data(), elems);
    if (load_.results()) load_.results()->apply(out + offset, elems);
    if (!is_list_) copiers_[rank_].copy(shown + offset, out + offset, elems << shift);
  }
  if (is_list_) copy_to(*load_.output, {begin, own.count}, shift, shown);
}

bool StagedAllreduce::may_take(const Peer& peer) const {
  return taken_ < made_ && (taken_from_ >> peer.rank & 1) == 0 && peer.stage.counters().made.load() > before_ + taken_;
}

bool StagedAllreduce::take() {
  bool moved = false;
  for (const Peer& peer : peers_)
    if (may_take(peer)) {
      take_chunk(peer);
      moved = true;
    }
  if (taken_ < made_ && std::size_t(std::popcount(taken_from_)) == peers_.size()) {
    taken_from_ = 0;
    taken_++;
    moved = true;
  }
  return moved;
}

void StagedAllreduce::take_chunk(const Peer& peer) {
  const std::uint32_t shift = load_.arithmetic->shift;
  const plan::Range its = chunk(taken_, peer.rank);
  copy_to(*load_.output, {slab(taken_).begin + its.begin, its.count}, shift, peer.stage.result(before_ + taken_));
  taken_from_ |= 1U << peer.rank;
}

bool StagedAllreduce::can_move() const {
  return may_copy_in() || may_make() || std::ranges::any_of(peers_, [&](const Peer& peer) { return may_take(peer); });
}

bool StagedAllreduce::may_sleep() {
  slept_ = true;
  if (!met_) return posts_.may_sleep();
  bool may = true;
  posts_.each_window([&](std::size_t, shm::Window& window) { may &= window.may_sleep([&] { return can_move(); }); });
  return may;
}

std::vector<int> StagedAllreduce::awaited() const {
  if (!met_) return {posts_.awaited().begin(), posts_.awaited().end()};
  std::vector<int> peers;
  for (const Peer& peer : peers_) {
    const bool completes = taken_ < made_ && (taken_from_ >> peer.rank & 1) == 0 && !may_take(peer);
    if (completes || (made_ < copied_ && !lets_make(peer))) peers.push_back(int(peer.rank));
  }
  return peers;
}

std::pair<std::uint64_t, std::uint64_t> StagedAllreduce::progress() const {
  const std::uint32_t shift = load_.arithmetic->shift;
  return {std::min(elems_, taken_ * slab_elems_) << shift, elems_ << shift};
}

StagedAllreduce::Moved StagedAllreduce::moved() const {
  const std::uint64_t own = (slabs_ - 1) * chunk(0, rank_).count + chunk(slabs_ - 1, rank_).count;
  const std::uint64_t bytes = (own * peers_.size() + elems_ - own) << load_.arithmetic->shift;
  return {bytes, bytes};
}

}  // namespace anello::group
