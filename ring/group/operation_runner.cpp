#include "ring/group/operation_runner.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/drive_loop.hpp"
#include "ring/group/operation_load.hpp"
#include "ring/link/with_rank.hpp"

namespace anello::group {

using std::chrono::milliseconds;

OperationRunner::OperationRunner(int rank, const link::GroupInfo& group, trace::FlightRecorder& recorder,
                                 control::ControlPlane* control, net::DataLinks* links, trace::Timeline* timeline,
                                 const StallClock::Limits& limits, bool compares)
    : rank_(rank),
      size_(int(group.members.size())),
      group_(group),
      recorder_(recorder),
      control_(control),
      links_(links),
      timeline_(timeline),
      agreement_(rank, group, recorder, compares && size_ > 1),
      stall_(limits),
      trace_(group.members),
      link_of_(group.members.size()),
      streaming_([this](int peer, const Signature& theirs) { return agreement_.explain(peer, theirs); }),
      messages_([this](int peer, const Signature& theirs) { return agreement_.explain(peer, theirs); }),
      posts_(rank, size_, [this](int peer, const Signature& theirs) { return agreement_.explain(peer, theirs); }),
      direct_(rank, size_, posts_),
      staged_(rank, size_, posts_) {
  load_.links = link_of_;
}

void OperationRunner::start(const Operation& pending) {
  operation_ = &pending;
  moving_ = false;
  agreement_.begin(pending);
  stall_.begin();
  const trace::Ticks begun = pending.begins_at_once ? pending.queued : trace::ticks();
  const double factor = early_factor(*pending.call, size_);
  // Multiplying a large input takes long, so the call is recorded first. If the world fails meanwhile, the record
  // contains the call.
  if (factor != 1 && pending.may_be_direct) {
    record_begin(begun);
    return take_up(factor);
  }
  try {
    take_up(factor);
  } catch (...) {
    record_begin(begun);
    throw;
  }
  record_begin(begun);
}

// Runs `work`. Converts the ranks in its errors from ranks of the group to world ranks.
template <class Work>
auto OperationRunner::with_world_ranks(Work work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), e.rank() < 0 ? -1 : world_rank(e.rank()));
  }
}

// First sends the data for which the peers wait. The caller records the beginning of the operation while the bytes
// travel. Looks for received data only later: a rank that looks too early takes the cache line away, and the sender
// must fetch it back before it can write its message.
void OperationRunner::take_up(double factor) {
  set_load(load_, *operation_, size_, factor, nothing_);
  load_.signature = &agreement_.signature();
  load_.trace = timeline_->active() ? &trace_ : nullptr;
  carrier_ = &choose();
  if (open_links()) with_world_ranks([&] { return carrier_->send(); });
}

void OperationRunner::record_begin(trace::Ticks begun) {
  const Operation& pending = *operation_;
  if (!recorder_.begin(pending.signature, pending.call->name, pending.queued, begun))
    control_->needs(pending.signature);
}

// The choice may not be final: unless all ranks show their tensors, or all show a stage, the ranks later refuse these
// two carriers and use the plan.
run::Carrier& OperationRunner::choose() {
  if (operation_->may_be_direct && show_tensors()) return direct_;
  if (can_stage()) return staged_;
  const bool is_short = operation_->in_short_messages && !operation_->may_be_direct && !load_.trace;
  if (is_short && run::MessageExecution::suits(*load_.input, *load_.output, load_.inputs())) return messages_;
  streaming_.prepare(load_);
  return streaming_;
}

// Returns true if other ranks can use this rank's tensors directly. In that case, it has already multiplied the input
// by its factor.
bool OperationRunner::show_tensors() {
  const Call& operation = *operation_->call;
  const bool multiplies = load_.inputs(), has_room = load_.plan->output_elems >= load_.plan->input_elems;
  if (!operation_->shows_tensors || (multiplies && !has_room)) {
    direct_.clear();
    return false;
  }
  direct_.start(operation, multiplies ? operation.output : operation.input, *load_.arithmetic, load_.results());
  if (multiplies && direct_.may_show()) multiply_input(load_, operation.dtype);
  return direct_.may_show();
}

bool OperationRunner::can_stage() {
  return operation_->stage_slab > 0 && operation_->shows_tensors && staged_.prepare(load_, operation_->stage_slab);
}

// Calls use(peer) for every peer to which the operation needs a link.
template <class Use>
void OperationRunner::each_peer(Use use) const {
  for (const plan::Stream& stream : operation_->plan->streams)
    if (stream.peer >= 0) use(stream.peer);
  for (int peer = 0; peer < size_ && operation_->may_be_direct; peer++)
    if (peer != rank_) use(peer);
}

bool OperationRunner::open_links() {
  bool ready = true;
  each_peer([&](int peer) {
    link::Link*& link = link_of_[std::size_t(peer)];
    if (!link) link = links_->find(peer);
    ready &= link != nullptr;
  });
  if (ready) begin_to_move();
  return ready;
}

void OperationRunner::begin_to_move() {
  if (operation_->may_be_direct) {
    posts_.connect_all(link_of_);
    // This rank shows no memory, so all ranks use the plan.
    if (carrier_ != &direct_ && carrier_ != &staged_) posts_.post(agreement_.signature(), shm::Shown::nothing);
  }
  carrier_->begin(load_);
  if (carrier_->refused()) stream_instead();
  moving_ = true;
}

// Call when the ranks have refused to use memory that they show each other. This rank has already posted.
void OperationRunner::stream_instead() {
  streaming_.prepare(load_);
  streaming_.begin(load_);
  carrier_ = &streaming_;
}

bool OperationRunner::pass() {
  if (carrier_->done()) return false;
  return with_world_ranks([&] {
    const bool moved = carrier_->pass();
    if (carrier_->refused()) stream_instead();
    return moved;
  });
}

bool OperationRunner::advance(link::Waiter& waiter, const std::atomic<int>& interrupt, const Until& until) {
  Step last = Step::stuck;
  const auto move = [&] { return (last = step()) != Step::stuck; };
  const auto pause = [&] { return !moving_ || waiter.pause(); };
  const auto rest = [&] { return (!moving_ || carrier_->want(waiter)) && sleep(waiter, until); };
  while (last != Step::complete && interrupt.load(std::memory_order_relaxed) == 0 && !has_passed(until))
    move_or_sleep(waiter, move, pause, rest);
  return last == Step::complete;
}

OperationRunner::Step OperationRunner::step() {
  if (!moving_ && !open_links()) {
    if (has_failed()) throw control_->error();
    return Step::stuck;
  }
  bool moved = pass();
  const bool failed = has_failed();
  // Data that peers sent before the world failed may have arrived after the first pass, so one more pass is made.
  if (failed && !moved) moved = pass();
  if (moved && stall_.moved()) control_->moving(operation_->signature);
  if (carrier_->done()) {
    conclude();
    return Step::complete;
  }
  if (failed && !(moved && carrier_->goes_on_after_failure())) throw control_->error();
  return moved ? Step::moved : Step::stuck;
}

void OperationRunner::conclude() {
  const plan::Plan& plan = *operation_->plan;
  const std::uint32_t shift = operation_->arithmetic.shift;
  agreement_.check_numbers();
  if (load_.trace) trace_.mark();
  if (multiply_results(*operation_) && load_.trace) trace_.scaled(plan.output_elems << shift);
  agreement_.keep_results();
  if (has_elements(*operation_->call)) {
    const run::Carrier::Moved moved = carrier_->moved();
    recorder_.end(std::max(plan.input_elems, plan.output_elems) << shift, moved.sent_bytes, moved.received_bytes);
  } else {
    recorder_.end(0, 0, 0);
  }
  if (load_.trace) timeline_->add(recorder_.newest(), group_.name, group_.members, trace_.spans());
  moving_ = false;
}

// Returns false at once if the world has failed.
bool OperationRunner::sleep(link::Waiter& waiter, const Until& until) {
  if (has_failed()) return false;
  const milliseconds limit = no_longer_than(until, note_stuck());
  const trace::Ticks from = trace::ticks();
  waiter.sleep(limit);
  slept(from);
  return true;
}

bool OperationRunner::prepare_sleep(link::Waiter& waiter, milliseconds& limit) {
  if (has_failed() || (moving_ && !carrier_->want(waiter))) return false;
  waiter.want(*group_.bell);
  limit = std::min(limit, note_stuck());
  return true;
}

void OperationRunner::slept(trace::Ticks from) {
  recorder_.tally.slept(trace::ticks() - from);
  if (load_.trace) trace_.slept(from);
}

// Sends the control plane the reports and pings that are due because nothing moves. Returns how long the thread may
// sleep. Most peers send this rank no heartbeats, so two faults are only detected by a ping: the network between two
// ranks is cut, or a rank has died that is connected to no other rank.
milliseconds OperationRunner::note_stuck() {
  const StallClock::Due due = stall_.look();
  if (due.question) control_->waiting(operation_->signature);
  if (due.report) {
    control_->stalled(operation_->signature, *due.report);
    recorder_.tally.stalled();
  }
  if (due.end) control_->overdue(operation_->signature, stall_.limits().end);
  if (due.pings)
    for (const int peer : awaited()) control_->ping(world_rank(peer));
  return due.sleep;
}

std::vector<int> OperationRunner::awaited() const {
  if (moving_) return carrier_->awaited();
  std::vector<int> peers;
  each_peer([&](int peer) {
    if (!link_of_[std::size_t(peer)]) peers.push_back(peer);
  });
  return peers;
}

bool OperationRunner::has_arrived(int peer) {
  link::Link* const link = links_->find(peer);
  return link && link::with_rank(world_rank(peer), [&] { return link->has_arrived(); });
}

void OperationRunner::give_up() {
  if (moving_)
    carrier_->give_up();
  else
    direct_.give_up();
}

std::string OperationRunner::how_far() const {
  const auto [moved, all] = moving_ ? carrier_->progress() : std::pair<std::uint64_t, std::uint64_t>(0, 1);
  return text(all ? 100 * moved / all : 0, " % done");
}

}  // namespace anello::group
