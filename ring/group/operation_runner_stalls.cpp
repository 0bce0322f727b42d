// Messages to the control plane about an operation in which nothing moves, and their times.
#include <algorithm>
#include <utility>

#include "ring/group/operation_runner.hpp"

namespace anello::group {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kDiagnosisAfter{200};  // if nothing moves for this time, other ranks are asked
constexpr milliseconds kLongSleep{1000};

}  // namespace

// Call when nothing moves. After kDiagnosisAfter sends the control plane this operation's signature. Returns for how
// long the thread may sleep before it checks again.
milliseconds OperationRunner::note_stuck() {
  const auto now = steady_clock::now();
  if (!stuck_since_) stuck_since_ = now;
  const auto stuck = std::chrono::duration_cast<milliseconds>(now - *stuck_since_);
  if (stuck >= kDiagnosisAfter && !std::exchange(sent_waiting_, true)) control_->waiting(operation_->signature);
  milliseconds limit = sent_waiting_ ? kLongSleep : kDiagnosisAfter - stuck;
  if (limits_.report.count() > 0) limit = std::min(limit, report_stall(stuck));
  if (limits_.end.count() > 0) limit = std::min(limit, end_world(stuck));
  if (limits_.ping.count() > 0) limit = std::min(limit, ping_peers(stuck));
  return limit;
}

void OperationRunner::moves_again() {
  stuck_since_.reset();
  const bool sent = sent_waiting_ || sent_stalled_ || sent_overdue_;
  sent_waiting_ = sent_stalled_ = sent_overdue_ = false;
  if (sent) control_->moving(operation_->signature);
}

// Reports after `next_report_`, which then doubles. Returns the time until the next report.
milliseconds OperationRunner::report_stall(milliseconds stuck) {
  if (stuck >= next_report_) {
    control_->stalled(operation_->signature, next_report_);
    sent_stalled_ = true;
    recorder_.tally.stalled();
    while (next_report_ <= stuck) next_report_ *= 2;
  }
  return next_report_ - stuck;
}

// Returns the time until the operation is overdue. After that, the verdict of the control plane rings the bell.
milliseconds OperationRunner::end_world(milliseconds stuck) {
  if (stuck < limits_.end) return limits_.end - stuck;
  if (!std::exchange(sent_overdue_, true)) control_->overdue(operation_->signature, limits_.end);
  return kLongSleep;
}

// Calls want(peer) for every peer for which this rank waits.
template <class Want>
void OperationRunner::each_awaited(Want want) {
  if (direct_.active()) return direct_.each_awaited(want);
  if (moving_)
    return each_wanted([&](const link::Link& link, link::Wanted) {
      want(int(std::ranges::find(link_of_, &link) - link_of_.begin()));
    });
  for (const plan::Stream& stream : operation_->plan->streams)
    if (stream.peer >= 0 && !link_of_[std::size_t(stream.peer)]) want(stream.peer);
  for (int peer = 0; peer < size_ && operation_->may_be_direct; peer++)
    if (direct_.is_missing(peer)) want(peer);
}

// Most peers send this rank no heartbeats. Only these pings detect that the network between two ranks is cut, or the
// death of a rank that is connected to no other rank. Returns the time until the next pings.
milliseconds OperationRunner::ping_peers(milliseconds stuck) {
  const auto since = std::chrono::floor<milliseconds>(steady_clock::now() - pinged_at_);
  if (const milliseconds due = limits_.ping - std::min(stuck, since); due.count() > 0) return due;
  pinged_at_ = steady_clock::now();
  each_awaited([this](int peer) { control_->ping(world_rank(peer)); });
  return limits_.ping;
}

}  // namespace anello::group
