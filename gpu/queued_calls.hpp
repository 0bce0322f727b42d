// The calls of one NCCL communicator that are not done. An event after each call shows when it is done. Collectives are
// recorded like a Group's operations, in flight recorder, timeline and counters, as operations of a group of their own.
// A collective that is not done for ANELLO_STALL_TIME is reported with the ranks that have not called it; one that is
// not done within the limit ends the world with an error that names these ranks. A call counts as begun when the one
// before it is done on this rank; other work on its stream counts as part of it.
//
// Not thread-safe: the communicator's mutex guards it. Begin and end are noticed by poll(), so the precision of times
// depends on how often that is called.
#pragma once
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.hpp"
#include "ring/group/group_impl.hpp"

namespace anello::gpu {

// A call, as messages describe it. send() and recv() concern two ranks only: they have a peer, and no common number.
struct NcclCall {
  Signature signature;
  std::string_view name;  // given by the program
  int peer = -1;
  bool sends = false;

  std::string describe() const;  // "NCCL allreduce #7 (sum of 100 f32) 'loss'", "NCCL send of 100 f32 to rank 1"
};

class QueuedCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // `records`: a group of the communicator's ranks that carries nothing else. `limit`: for a call; 0: none.
  QueuedCalls(Group records, const Device& device, std::chrono::milliseconds limit);
  ~QueuedCalls();
  QueuedCalls(const QueuedCalls&) = delete;
  QueuedCalls& operator=(const QueuedCalls&) = delete;

  // Call when a call is given to NCCL, which may wait for peers to connect; then launched(), before the next call.
  // launched() throws Error{device}. The numbers of collectives grow; some may be missing, the same ones on all ranks.
  void add(const NcclCall& call);
  void launched(GpuStream stream);

  // Removes calls that are done, and reports stalls and calls over their limit. Returns an error that must end the
  // world: an error of the device, which most likely belongs to the oldest call or to work before it; or a call over
  // its limit if the other ranks cannot be asked about it. Empty if there is neither.
  std::optional<Error> poll();
  // call when the device will not do the calls any more
  void clear() { count_ = 0; }

 private:
  // An entry in the ring of calls; entries are reused.
  struct Queued {
    Event done;  // recorded if the call is launched
    bool launched;
    GpuStream stream;
    Signature signature;
    std::array<char, trace::Record::kNameBytes> name;
    std::uint8_t name_bytes;
    int peer;
    bool sends;
    trace::Ticks queued;
    NcclCall call() const { return {signature, {name.data(), name_bytes}, peer, sends}; }
  };

  Queued& at(std::size_t k) { return ring_[(first_ + k) % ring_.size()]; }
  Queued& first() { return at(0); }
  Queued& last() { return at(count_ - 1); }
  void make_room();
  int take_done();  // returns 0, or the device's error
  std::size_t count_on_one_stream();
  void take_first();
  void begin(const Queued& call);
  void end(const Queued& call);
  void report_stall(const Queued& call, std::chrono::milliseconds stuck);
  std::optional<Error> exceed_limit(const Queued& call);

  Group records_;
  group::Carriers carriers_;
  Device device_;
  std::chrono::milliseconds limit_, report_after_;
  std::vector<Queued> ring_;
  std::size_t first_ = 0, count_ = 0;
  std::uint64_t carried_out_ = 0;  // the number after the newest collective's
  Clock::time_point front_since_;  // when the first call became the first
  std::chrono::milliseconds next_report_;
  bool reported_ = false, overdue_ = false;  // messages sent about the first call
};

}  // namespace anello::gpu
