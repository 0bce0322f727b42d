#include "gpu/queued_calls.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/trace/timeline.hpp"

namespace anello::gpu {

using std::chrono::milliseconds;

std::string NcclCall::describe() const {
  const std::string title = name.empty() ? "" : text(" '", name, "'");
  if (peer < 0) return text("NCCL ", anello::describe(signature), title);
  return text("NCCL ", sends ? "send" : "recv", " of ", signature.count, " ", anello::name(signature.dtype),
              sends ? " to" : " from", " rank ", peer, title);
}

QueuedCalls::QueuedCalls(Group records, const Device& device, milliseconds limit)
    : records_(std::move(records)),
      carriers_(GroupAccess::carriers(records_)),
      device_(device),
      limit_(limit),
      report_after_(GroupAccess::settings(records_).stall_time),
      next_report_(report_after_) {}

// If the communicator has failed, some ranks may not have all calls. But then the world has failed too.
QueuedCalls::~QueuedCalls() {
  GroupAccess::carried_out(records_, carried_out_);
}

// Queries events only when there is no room, so that most calls cost only one event_record().
void QueuedCalls::make_room() {
  if (count_ < ring_.size()) return;
  if (count_ > 0) take_done();  // poll() reports the error if take_done() finds one
  if (count_ < ring_.size()) return;
  std::vector<Queued> larger(std::max<std::size_t>(64, 2 * count_));
  for (std::size_t i = 0; i < count_; i++) larger[i] = std::move(ring_[(first_ + i) % ring_.size()]);
  ring_ = std::move(larger);
  first_ = 0;
}

void QueuedCalls::add(const NcclCall& call) {
  make_room();
  count_++;
  Queued& queued = last();
  queued.launched = false;
  queued.signature = call.signature;
  queued.peer = call.peer;
  queued.sends = call.sends;
  queued.name_bytes = std::uint8_t(std::min(call.name.size(), queued.name.size()));
  std::copy_n(call.name.begin(), queued.name_bytes, queued.name.begin());
  queued.queued = trace::ticks();
  if (call.peer < 0) {
    queued.signature.group = carriers_.info->id;
    queued.signature.generation = carriers_.generation;
    carried_out_ = call.signature.sequence + 1;
  }
  if (count_ == 1) begin(queued);
}

void QueuedCalls::launched(GpuStream stream) {
  Queued& queued = last();
  if (!queued.done) queued.done = make_event(device_);
  record(device_, queued.done, stream);
  queued.stream = stream;
  queued.launched = true;
}

void QueuedCalls::begin(const Queued& call) {
  front_since_ = Clock::now();
  if (call.peer >= 0) return;
  const std::string_view name = call.name_bytes > 0 ? call.call().name : "NCCL";
  if (!carriers_.recorder->begin(call.signature, name, call.queued) && carriers_.control)
    carriers_.control->needs(call.signature);
}

void QueuedCalls::end(const Queued& call) {
  if (call.peer >= 0) return;
  carriers_.recorder->end(call.signature.count * size_bytes(call.signature.dtype), 0, 0);
  if (carriers_.timeline->active())
    carriers_.timeline->add(carriers_.recorder->newest(), carriers_.info->name, carriers_.info->members, {});
}

// If a call is done, all earlier calls on the same stream are done too. So this function queries the last of these
// calls. If the last call is not done, it queries the call in the middle, and so on. This saves queries, each of which
// costs more than all other work for a call. Calls on other streams may be done earlier, even if NCCL keeps the calls'
// order, because a call that moves no data on this rank launches nothing.
int QueuedCalls::take_done() {
  for (std::size_t some = count_on_one_stream(); some > 0;) {
    const int status = device_.table->event_query(at(some - 1).done.get());
    if (status == ANELLO_GPU_NOT_READY) {
      some /= 2;
    } else if (status != 0) {
      return status;
    } else {
      for (; some > 0; some--) take_first();
      some = count_on_one_stream();
    }
  }
  return 0;
}

// Returns how many launched calls, from the oldest call on, use the same stream.
std::size_t QueuedCalls::count_on_one_stream() {
  std::size_t count = 0;
  while (count < count_ && at(count).launched && at(count).stream == first().stream) count++;
  return count;
}

void QueuedCalls::take_first() {
  const Queued& call = first();
  end(call);
  if ((reported_ || overdue_) && call.peer < 0 && carriers_.control) carriers_.control->moving(call.signature);
  reported_ = overdue_ = false;
  next_report_ = report_after_;
  first_++;
  if (--count_ > 0) begin(first());
}

std::optional<Error> QueuedCalls::poll() {
  const int status = take_done();
  if (count_ == 0) return {};
  const Queued& oldest = first();
  if (status != 0)
    return Error(ErrorCode::device,
                 text("GPU ", int(device_.id), ": ", oldest.call().describe(), ": ", device_.table->describe(status)));
  const auto stuck = std::chrono::duration_cast<milliseconds>(Clock::now() - front_since_);
  if (report_after_.count() > 0) report_stall(oldest, stuck);
  return limit_.count() > 0 && stuck >= limit_ ? exceed_limit(oldest) : std::nullopt;
}

// For a collective, the control plane asks all ranks whether they have called it, and then ends the world. For a
// transfer, returns the error.
std::optional<Error> QueuedCalls::exceed_limit(const Queued& call) {
  if (call.peer >= 0 || !carriers_.control)
    return Error(ErrorCode::timed_out, text("GPU ", int(device_.id), ": ", call.call().describe(), " took more than ",
                                            limit_.count(), " ms"));
  if (!std::exchange(overdue_, true)) carriers_.control->overdue(call.signature, limit_);
  return {};
}

// Reports the oldest call if it has been stuck for next_report_. The time between two reports of one call grows.
void QueuedCalls::report_stall(const Queued& call, milliseconds stuck) {
  if (stuck < next_report_) return;
  if (call.peer >= 0)
    log(Severity::warning, text("GPU ", int(device_.id), ": ", call.call().describe(), " has waited for ",
                                double(next_report_.count()) / 1000, " s"));
  else if (carriers_.control)
    carriers_.control->stalled(call.signature, next_report_);
  carriers_.recorder->tally.stalled();
  reported_ = true;
  while (next_report_ <= stuck) next_report_ *= 2;
}

}  // namespace anello::gpu
