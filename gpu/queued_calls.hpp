// The calls of one NCCL communicator that are not done. An event after each call shows when the call is done.
// Collectives are recorded in flight recorder, timeline and counters like operations of a Group, but as operations of a
// separate group. A collective that is not done for ANELLO_STALL_TIME is reported with the ranks that have not called
// it. If a collective is not done within the limit, the world ends with an error that names these ranks. A call counts
// as begun when the previous call is done on this rank; other work on its stream counts as part of the call.
//
// Not thread-safe: the communicator's mutex guards this object. poll() notices when calls begin and end, so the
// precision of these times depends on how often poll() is called.
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

// The facts of a call that error messages need. A collective has a number that is the same on all ranks. send() and
// recv() have no such number, because only two ranks call them; they have a peer.
struct NcclCall {
  Signature signature;
  std::string_view name;  // the name that the program gave
  int peer = -1;
  bool sends = false;

  std::string describe() const;  // "NCCL allreduce #7 (sum of 100 f32) 'loss'", "NCCL send of 100 f32 to rank 1"
};

class QueuedCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // `records`: a group of the communicator's ranks that has no operations of its own. `limit`: the time limit for one
  // call; 0: no limit.
  QueuedCalls(Group records, const Device& device, std::chrono::milliseconds limit);
  ~QueuedCalls();
  QueuedCalls(const QueuedCalls&) = delete;
  QueuedCalls& operator=(const QueuedCalls&) = delete;

  // add(): call when a call is given to NCCL, which may wait for peers to connect. launched(): call after NCCL has
  // launched it, before the next add(); throws Error{device}. The numbers of collectives grow. Some numbers may be
  // missing; then the same numbers are missing on all ranks.
  void add(const NcclCall& call);
  void launched(GpuStream stream);

  // Removes calls that are done, and reports stalls and calls over their limit. Returns an error that must end the
  // world; empty if there is none. There are two such errors: an error of the device, which most likely belongs to the
  // oldest call or to earlier work; and a call that is over its limit, if the other ranks cannot be asked about this
  // call.
  std::optional<Error> poll();
  // Call when the device will not carry out the remaining calls.
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
  int take_done();  // returns 0 or the device's error
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
  std::uint64_t carried_out_ = 0;  // number of the newest collective plus 1
  Clock::time_point front_since_;  // since when the oldest queued call has been the oldest
  std::chrono::milliseconds next_report_;
  // True if the control plane has got the report, or the exceeded limit, of the oldest call.
  bool reported_ = false, overdue_ = false;
};

}  // namespace anello::gpu
