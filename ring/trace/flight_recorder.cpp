#include "ring/trace/flight_recorder.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace anello::trace {

void FlightRecorder::Free::operator()(Record* records) const {
  std::free(records);
}

// Zeroed memory means that there is no record. calloc() does not touch the pages of large memory.
FlightRecorder::Records FlightRecorder::allocate(std::size_t count) {
  auto* const records = static_cast<Record*>(std::calloc(count, sizeof(Record)));
  if (!records) throw std::bad_alloc();
  return Records(records);
}

void FlightRecorder::queue(const Signature& signature, std::string_view name, Ticks at) {
  const MutexLock lock(mutex_);
  queued_[signature.sequence % kQueued].set(signature, name, at, 0);
}

bool FlightRecorder::begin(const Signature& signature, std::string_view name, Ticks queued, Ticks begun) {
  const MutexLock lock(mutex_);
  begun_[newest_ % kBegun].ended = ended_.load(std::memory_order_relaxed);
  ended_.store(0, std::memory_order_relaxed);
  begun_[signature.sequence % kBegun].set(signature, name, queued, begun);
  newest_ = signature.sequence;
  return signature.sequence < ends_at_;
}

void FlightRecorder::end(std::uint64_t bytes, std::uint64_t sent_bytes, std::uint64_t received_bytes) {
  const Record& record = begun_[newest_ % kBegun];
  const Ticks now = ticks();
  ended_.store(now, std::memory_order_relaxed);
  tally.done(record.signature.kind, bytes, sent_bytes, received_bytes, now - record.begun);
}

Record FlightRecorder::newest() const {
  Record record = begun_[newest_ % kBegun];
  record.ended = ended_.load(std::memory_order_relaxed);
  return record;
}

std::optional<NamedSignature> FlightRecorder::begun(std::uint64_t sequence) const {
  const MutexLock lock(mutex_);
  const Record& record = begun_[sequence % kBegun];
  const Signature& signature = record.signature;
  if (signature.generation == 0 || signature.sequence != sequence) return std::nullopt;  // generation 0: no record
  return NamedSignature(signature, std::string(record.title()));
}

std::optional<Signature> FlightRecorder::ends_at(std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  ends_at_ = sequence;
  const Record& newest = begun_[newest_ % kBegun];
  const bool underway = newest.begun != 0 && ended_.load(std::memory_order_relaxed) == 0;
  if (!underway || newest_ < sequence) return std::nullopt;
  return newest.signature;
}

bool FlightRecorder::can_begin(std::uint64_t sequence) const {
  const MutexLock lock(mutex_);
  return sequence < ends_at_;
}

std::vector<Record> FlightRecorder::records() const {
  std::vector<Record> all;
  const MutexLock lock(mutex_);
  const auto gather = [&](const Records& records, std::size_t max, std::uint64_t first) {
    for (std::size_t k = 0; k < max; k++)
      if (const Record& record = records[k]; record.signature.generation != 0 && record.signature.sequence >= first)
        all.push_back(record);
  };
  gather(begun_, kBegun, 0);
  for (Record& record : all)
    if (record.signature.sequence == newest_) record.ended = ended_.load(std::memory_order_relaxed);
  gather(queued_, kQueued, all.empty() ? 0 : newest_ + 1);
  std::ranges::sort(all, {}, [](const Record& record) { return record.signature.sequence; });
  return all;
}

}  // namespace anello::trace
