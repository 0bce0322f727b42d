// The flight recorder of one group: its last operations, and counters. The thread that moves the group's data records
// the begin and end of operations; callers record the operations that they queue. The control plane reads the recorder.
// The code that explains a mismatch and the code that writes the file read it too. Any thread. Takes memory as needed,
// at most 800 KiB. Does not depend on the group's other objects.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/trace/record.hpp"
#include "ring/trace/tally.hpp"

namespace anello::trace {

class FlightRecorder {
 public:
  FlightRecorder() : begun_(allocate(kBegun)), queued_(allocate(kQueued)) {}

  // Records that the operation waits for earlier ones to end.
  void queue(const Signature& signature, std::string_view name, Ticks at);

  // Records that an operation began. `begun`: the time at which it began, which may be earlier than this call. False if
  // the operation can never be completed, because a member has left.
  bool begin(const Signature& signature, std::string_view name, Ticks queued, Ticks begun = ticks());
  // Records the end of the operation that began last.
  void end(std::uint64_t bytes, std::uint64_t sent_bytes, std::uint64_t received_bytes) ANELLO_UNCHECKED;
  Record newest() const ANELLO_UNCHECKED;  // call this after end(), on the same thread

  // Returns the operation with this number, if it is one of the last kBegun operations that have begun.
  std::optional<NamedSignature> begun(std::uint64_t sequence) const;

  // From now on, operations with this or a higher number can never be completed. If such an operation is running,
  // returns it.
  std::optional<Signature> ends_at(std::uint64_t sequence);

  // False if an operation with this number can never be completed: see ends_at().
  bool can_begin(std::uint64_t sequence) const;

  // Returns the last operations that began, and the last queued operations, by sequence.
  std::vector<Record> records() const;

  Tally tally;

 private:
  static constexpr std::size_t kBegun = 4096, kQueued = 1024;
  struct Free {
    void operator()(Record* records) const;
  };
  using Records = std::unique_ptr<Record[], Free>;
  static Records allocate(std::size_t count);

  // When the newest operation ended; stored in its record when the next operation begins.
  std::atomic<Ticks> ended_ = 0;
  mutable Mutex mutex_;
  Records begun_ ANELLO_GUARDED_BY(mutex_), queued_ ANELLO_GUARDED_BY(mutex_);  // ring buffers, by sequence
  std::uint64_t newest_ ANELLO_GUARDED_BY(mutex_) = 0;  // number of the newest operation that has begun
  std::uint64_t ends_at_ ANELLO_GUARDED_BY(mutex_) = UINT64_MAX;
};

}  // namespace anello::trace
