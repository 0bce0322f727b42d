#include "ring/shm/region_files.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/shm/fd_message.hpp"

namespace anello::shm {
namespace {

constexpr std::size_t kNoteBytes = 16;  // number of the region, and its size

unsigned next_colour() {
  static std::atomic<unsigned> links = 0;
  return 1 + links++ % (MemoryFile::kColours - 1);
}

}  // namespace

RegionFiles::RegionFiles(Descriptor socket, Counts& mine, const Counts& theirs)
    : socket_(std::move(socket)), colour_(next_colour()), mine_(mine), theirs_counts_(theirs) {}

bool RegionFiles::has_sent(std::uint64_t region) const {
  return std::ranges::find(sent_, region) != sent_.end();
}

bool RegionFiles::has_room() const {
  return sent_count_ - theirs_counts_.taken.load(std::memory_order_relaxed) < kMaxOnTheirWay;
}

void RegionFiles::send(std::uint64_t region) {
  if (has_sent(region)) return;
  const RegionFile file = file_of(region);
  Writer note;
  note.u64(region).u64(file.bytes);
  send_fd_message(socket_, note.bytes(), std::array{file.descriptor});
  mine_.sent.store(++sent_count_, std::memory_order_release);
  sent_.push_back(region);
  if (sent_.size() > kMaxSent) sent_.pop_front();
}

void RegionFiles::take_all() {
  const std::uint64_t sent = theirs_counts_.sent.load(std::memory_order_acquire);
  while (taken_count_ < sent) take();
}

// Receives the next file. If this process cannot map it, the other side gets no message; memory_of() throws later.
void RegionFiles::take() {
  mine_.taken.store(++taken_count_, std::memory_order_relaxed);
  try {
    map_one();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::protocol) throw;
    lost_ = text("memory of another rank of this host could not be mapped: ", e.message());
  }
}

void RegionFiles::map_one() {
  FdMessage received = receive_fd_message(socket_, kNoteBytes);
  Reader note("note of shared memory", received.bytes);
  const std::uint64_t number = note.u64(), bytes = note.u64();
  if (received.descriptors.size() != 1)
    throw Error(ErrorCode::network,
                text("a message about shared memory came with ", received.descriptors.size(), " files instead of one"));
  theirs_.push_back({number, MemoryFile::adopt(std::move(received.descriptors[0]), bytes, colour_)});
  if (theirs_.size() > kMaxMapped) theirs_.pop_front();
}

// Allocates pages here, not when the file arrives, because a file that was sent may never be used.
Bytes RegionFiles::memory_of(const Place& place) {
  const auto find = [&] { return std::ranges::find(theirs_, place.region, &Theirs::number); };
  auto region = find();
  if (region == theirs_.end()) {
    take_all();
    region = find();
  }
  if (region == theirs_.end() && lost_) throw std::runtime_error(*lost_);
  if (region != theirs_.end() && !std::exchange(region->populated, true)) region->file.populate();
  const Bytes memory = region == theirs_.end() ? Bytes() : region->file.memory();
  if (place.offset > memory.size() || place.bytes > memory.size() - place.offset)
    throw Error(ErrorCode::protocol, "shared memory: a reference to memory that does not exist");
  return memory.subspan(place.offset, place.bytes);
}

}  // namespace anello::shm
