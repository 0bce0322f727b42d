#include "ring/group/operation_runner.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/link/with_rank.hpp"
#include "ring/run/checksum.hpp"

namespace anello::group {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// An operation without elements is carried out as a barrier, or as a transfer of one byte.
bool has_elements(const Call& operation) {
  return operation.count > 0 || !operation.received.empty();
}

// Returns the divisor of an average that is applied before the data is sent: in f16 the sum may overflow although the
// mean does not. It is a power of two, so it loses no bits except in subnormal numbers. late_divisor() is the rest of
// it.
double early_divisor(const Call& operation, int size) {
  const bool may_overflow = operation.op == Op::average && operation.wire.value_or(operation.dtype) == DType::f16;
  return may_overflow ? std::bit_ceil(unsigned(size)) : 1;
}

// Returns the factor that is applied to the input before the data is sent.
double early_factor(const Call& operation, int size) {
  return has_elements(operation) ? operation.prescale / early_divisor(operation, size) : 1;
}

bool is_narrowed(const Call& operation) {
  return operation.wire.value_or(operation.dtype) != operation.dtype;
}

// Returns the divisor that is applied to the result.
double late_divisor(const Call& operation, int size) {
  return operation.op == Op::average ? size / early_divisor(operation, size) : 1;
}

// Returns the factor that is applied to the result. If results are sent in a narrower type, the product might not fit
// into it, so finish() multiplies instead.
double late_factor(const Call& operation) {
  return is_narrowed(operation) ? 1 : operation.postscale;
}

}  // namespace

OperationRunner::OperationRunner(int rank, const link::GroupInfo& group, trace::FlightRecorder& recorder,
                                 control::ControlPlane* control, net::DataLinks* links, trace::Timeline* timeline,
                                 const OperationLimits& limits, bool compares)
    : rank_(rank),
      size_(int(group.members.size())),
      group_(group),
      recorder_(recorder),
      control_(control),
      links_(links),
      timeline_(timeline),
      limits_(limits),
      compares_(compares && size_ > 1),
      link_of_(group.members.size()),
      driver_([this](int peer, const Signature& theirs) { return explain(peer, theirs); }),
      messages_([this](int peer, const Signature& theirs) { return explain(peer, theirs); }),
      direct_(rank, size_, [this](int peer, const Signature& theirs) { return explain(peer, theirs); }) {}

void OperationRunner::start(const Operation& pending) {
  operation_ = &pending;
  started_ = moving_ = sent_waiting_ = sent_stalled_ = sent_overdue_ = false;
  next_report_ = limits_.report;
  stuck_since_.reset();
  const trace::Ticks begun = pending.begins_at_once ? pending.queued : trace::ticks();
  const double factor = early_factor(*pending.call, size_);
  // Multiplying a large input takes long. The call is recorded first, so that it is in the record if the world fails
  // meanwhile.
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

// Runs `work`, whose errors have ranks of the group, and converts these to world ranks.
template <class Work>
auto OperationRunner::with_world_ranks(Work work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), e.rank() < 0 ? -1 : world_rank(e.rank()));
  }
}

// Sends first what the peers wait for, unless they read it from this rank's memory; the caller records the beginning
// while the bytes travel. Received data is looked for later: a rank that polls for a message too early delays it,
// because the sender must fetch the cache line back before it can write.
void OperationRunner::take_up(double factor) {
  const Operation& pending = *operation_;
  const Call& operation = *pending.call;
  result_scaling_.reset();
  input_scaling_.reset();
  if (has_elements(operation)) {
    input_ = operation.input;
    const double divisor = late_divisor(operation, size_), result_factor = late_factor(operation);
    if (divisor != 1 || result_factor != 1) result_scaling_ = run::scaling(operation.dtype, divisor, result_factor);
    if (factor != 1) input_scaling_ = run::scaling(operation.dtype, 1, factor);
  }
  traced_ = timeline_->active();
  by_message_ = pending.in_short_messages && !pending.may_be_direct && !traced_ &&
                run::MessageExecution::suits(operation.input, operation.output, input_scaling());
  if (pending.may_be_direct && pending.shows_tensors && show_tensors()) return;
  direct_.clear();
  if (!by_message_) start_plan();
  if (size_ > 1 && open_links()) with_world_ranks([&] { return by_message_ ? messages_.send() : driver_.send(); });
}

void OperationRunner::record_begin(trace::Ticks begun) {
  const Operation& pending = *operation_;
  if (!recorder_.begin(pending.signature, pending.call->name, pending.queued, begun))
    control_->needs(pending.signature);
}

// Calls start(arithmetic, input, output, scaling of the results). An operation without elements sends one byte.
template <class Start>
void OperationRunner::with_data(Start start) {
  const Call& operation = *operation_->call;
  if (has_elements(operation)) return start(operation_->arithmetic, input_, operation.output, result_scaling());
  const run::Buffer nothing(nothing_.data(), 1);
  start(run::arithmetic(DType::u8, Op::max), nothing, nothing, nullptr);
}

void OperationRunner::start_plan() {
  with_data([this](const run::Arithmetic& arithmetic, const run::Buffer& input, const run::Buffer& output,
                   const run::Scaling* results) {
    execution_.start(*operation_->plan, arithmetic, input, output, results, input_scaling());
  });
  started_ = true;
  const run::Arithmetic& arithmetic = operation_->arithmetic;
  if (traced_) trace_.start(execution_, group_.members, arithmetic.wire_shift, arithmetic.shift);
}

void OperationRunner::start_messages() {
  with_data([this](const run::Arithmetic& arithmetic, const run::Buffer& input, const run::Buffer& output,
                   const run::Scaling* results) {
    messages_.start(*operation_->plan, arithmetic, input, output, results, signature(), link_of_);
  });
  started_ = true;
}

// Other ranks read this rank's input directly, so a prescale factor is applied first: the product is written to the
// output, if that is large enough.
bool OperationRunner::show_tensors() {
  const Call& operation = *operation_->call;
  const plan::Plan& plan = *operation_->plan;
  if (input_scaling_ && plan.output_elems < plan.input_elems) return false;
  const run::Buffer& shown = input_scaling_ ? operation.output : operation.input;
  direct_.start(operation, shown, operation_->arithmetic, result_scaling());
  if (!direct_.may_show()) return false;
  if (input_scaling_)
    each_run(shown, operation.input, plan.input_elems, operation_->arithmetic.shift,
             [&](Bytes out, Bytes in) { run::scale(operation.dtype, out, in, input_scaling_->factor); });
  input_ = shown;
  input_scaling_.reset();
  return true;
}

bool OperationRunner::advance(link::Waiter& waiter, const std::atomic<int>& interrupt, const Until& until) {
  if (size_ == 1)
    while (!execution_.done()) execution_.compute();
  else if (!move(waiter, interrupt, until))
    return false;
  conclude();
  return true;
}

OperationRunner::Step OperationRunner::step() {
  while (size_ == 1 && !execution_.done()) execution_.compute();
  if (size_ > 1 && !(moving_ || open_links())) {
    if (control_->failed()) throw control_->error();
    return Step::stuck;
  }
  bool moved = !done() && pass();
  if (!moved && !done() && control_->failed()) moved = pass();  // as in move()
  if (moved && stuck_since_) moves_again();
  if (done()) {
    conclude();
    return Step::complete;
  }
  if ((!moved || direct_.active()) && control_->failed()) throw control_->error();
  return moved ? Step::moved : Step::stuck;
}

void OperationRunner::conclude() {
  if (!operation_->call->agreed.empty()) check_agreed();
  if (traced_) trace_.mark();
  finish();
  if (compares_) remember_results();
  note_end();
}

void OperationRunner::note_end() {
  const plan::Plan& plan = *operation_->plan;
  const run::Arithmetic& arithmetic = operation_->arithmetic;
  if (has_elements(*operation_->call)) {
    const DirectCollective::Moved moved = direct_.active()
                                              ? direct_.moved()
                                              : DirectCollective::Moved{plan.sent_elems << arithmetic.wire_shift,
                                                                        plan.received_elems << arithmetic.wire_shift};
    recorder_.end(std::max(plan.input_elems, plan.output_elems) << arithmetic.shift, moved.sent_bytes,
                  moved.received_bytes);
  } else {
    recorder_.end(0, 0, 0);
  }
  if (traced_) timeline_->add(recorder_.newest(), group_.name, group_.members, trace_.spans());
}

bool OperationRunner::move(link::Waiter& waiter, const std::atomic<int>& interrupt, const Until& until) {
  const auto interrupted = [&] { return interrupt.load(std::memory_order_relaxed) != 0 || has_passed(until); };
  while (!moving_) {
    if (interrupted()) return false;
    waiter.forget();
    if (open_links()) break;
    if (control_->failed()) throw control_->error();
    sleep(waiter, until);
  }
  while (!done()) {
    if (interrupted()) return false;
    if (pass()) {
      waiter.moved();
      if (stuck_since_) moves_again();
      // A dead peer's shared memory stays mapped, so the failure of the world is checked explicitly.
      if (direct_.active() && !done() && control_->failed()) throw control_->error();
      continue;
    }
    if (control_->failed()) {
      if (pass()) continue;  // data that peers sent before the world failed may have arrived after the first pass
      throw control_->error();
    }
    if (!waiter.pause()) continue;
    waiter.forget();
    if (want_links(waiter))
      sleep(waiter, until);
    else
      waiter.moved();
  }
  return true;
}

void OperationRunner::begin_to_move() {
  moving_ = true;
  if (operation_->may_be_direct) direct_.post(signature());
  if (by_message_)
    start_messages();
  else if (!direct_.active())
    begin_plan();
  else if (traced_)
    trace_.start();
}

void OperationRunner::begin_plan() {
  if (!started_) start_plan();
  driver_.start(execution_, signature(), link_of_, traced_ ? &trace_ : nullptr);
}

Signature OperationRunner::signature() const {
  Signature signature = operation_->signature;
  signature.results = results_.checksum;
  return signature;
}

bool OperationRunner::pass() {
  return with_world_ranks([&] {
    if (by_message_) return messages_.pass();
    return direct_.active() ? pass_direct() : driver_.pass();
  });
}

bool OperationRunner::pass_direct() {
  const std::uint64_t before = direct_.progress().first;
  const bool moved = direct_.pass();
  if (!direct_.active())
    begin_plan();
  else if (traced_ && direct_.progress().first > before)
    trace_.folded(direct_.progress().first - before);
  else if (traced_)
    trace_.mark();
  return moved;
}

// Connects the direct collective to all open links. Returns true if none is missing.
bool OperationRunner::connect_direct() {
  for (int peer = 0; peer < size_ && direct_.misses_any(); peer++)
    if (direct_.is_missing(peer))
      if (link::Link* const link = links_->find(peer)) direct_.connect(peer, *link);
  return !direct_.misses_any();
}

// Returns at once in a world that has failed.
void OperationRunner::sleep(link::Waiter& waiter, const Until& until) {
  if (control_->failed()) return;
  milliseconds limit = note_stuck();
  if (until) limit = std::clamp(std::chrono::ceil<milliseconds>(*until - steady_clock::now()), milliseconds(0), limit);
  const trace::Ticks from = trace::ticks();
  waiter.sleep(limit);
  slept(from);
}

bool OperationRunner::prepare_sleep(link::Waiter& waiter, milliseconds& limit) {
  if (control_->failed() || (moving_ && !want_links(waiter))) return false;
  waiter.want(*group_.bell);
  limit = std::min(limit, note_stuck());
  return true;
}

void OperationRunner::slept(trace::Ticks from) {
  recorder_.tally.slept(trace::ticks() - from);
  if (traced_) trace_.slept(from);
}

// Adds the descriptors to wait for to the waiter. False if something can move already.
bool OperationRunner::want_links(link::Waiter& waiter) {
  if (direct_.active()) return direct_.may_sleep();
  bool may = true;
  each_wanted([&](link::Link& link, link::Wanted wanted) { may &= link.want(wanted, waiter); });
  return may;
}

bool OperationRunner::has_arrived(int peer) {
  link::Link* const link = links_->find(peer);
  return link && link::with_rank(world_rank(peer), [&] { return link->has_arrived(); });
}

bool OperationRunner::open_links() {
  bool ready = true;
  for (const plan::Stream& stream : operation_->plan->streams) {
    if (stream.peer < 0) continue;
    link::Link*& link = link_of_[std::size_t(stream.peer)];
    if (!link) link = links_->find(stream.peer);
    ready &= link != nullptr;
  }
  if (operation_->may_be_direct) ready &= connect_direct();
  if (ready) begin_to_move();
  return ready;
}

// Multiplies the results by postscale after the reduction, if late_factor() did not.
void OperationRunner::finish() {
  const Call& operation = *operation_->call;
  if (direct_.active() || operation.postscale == 1 || !is_narrowed(operation) || !has_elements(operation)) return;
  const std::uint32_t shift = operation_->arithmetic.shift;
  each_run(operation.output, operation.output, operation_->plan->output_elems, shift,
           [&](Bytes run, Bytes) { run::scale(operation.dtype, run, run, operation.postscale); });
  if (traced_) trace_.scaled(operation_->plan->output_elems << shift);
}

void OperationRunner::remember_results() {
  const Call& operation = *operation_->call;
  if (!has_elements(operation) || !facts_of(operation.kind).equal_results) return;
  const run::Nans nans = operation.kind == Kind::allreduce ? run::Nans::alike : run::Nans::as_they_are;
  results_ = {operation_->signature.sequence,
              checksum(operation.dtype, operation.output, operation_->plan->output_elems, nans)};
}

void OperationRunner::give_up() {
  direct_.give_up();
  for (link::Link* const link : link_of_)
    if (link) link->revoke();
}

std::pair<std::uint64_t, std::uint64_t> OperationRunner::progress() const {
  if (by_message_) return messages_.progress();
  return direct_.active() ? direct_.progress() : execution_.progress();
}

std::string OperationRunner::how_far() const {
  if (!started_ && !direct_.active()) return "0 % done";
  const auto [moved, all] = progress();
  return text(all ? 100 * moved / all : 0, " % done");
}

}  // namespace anello::group
