#include "ring/communicator.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kDiagnosisAfter{200};  // an operation that sleeps longer says what it is
constexpr milliseconds kLongSleep{1000};

Algorithm algorithm_named(Code code, std::string_view what, std::string_view given) {
  Algorithm algorithm;
  if (!parse(given, algorithm)) throw Error(code, text(what, "='", given, "' is no algorithm: ", algorithm_names()));
  return algorithm;
}

// "counts 3, 0, 5"; of many the first.
std::string listed(std::string_view what, std::span<const std::uint64_t> counts) {
  constexpr std::size_t kMost = 16;
  std::string all(what);
  for (std::size_t k = 0; k < std::min(counts.size(), kMost); k++) all += text(k ? ", " : " ", counts[k]);
  return all + (counts.size() > kMost ? ", ..." : "");
}

// Otherwise the operation is carried out as a barrier.
bool has_elements(const Operation& operation) {
  return operation.count > 0 || !operation.received.empty();
}

Facts with_settings(Facts facts, const Settings& settings) {
  facts.slab_bytes = settings.slab_bytes;
  facts.forced = algorithm_named(Code::configuration, "ANELLO_ALGORITHM", settings.algorithm);
  return facts;
}

}  // namespace

// Sleeps for one operation; once it has slept for long, tells the control plane which operation this is.
class Patient {
 public:
  Patient(Waiter& waiter, Control& control, const Signature& signature)
      : waiter_(waiter), control_(control), signature_(signature) {}

  // Throws the verdict if there is one.
  void sleep() {
    if (control_.failed()) throw control_.error();
    const auto now = steady_clock::now();
    if (!std::exchange(sleeping_, true)) began_ = now;
    const auto slept = std::chrono::duration_cast<milliseconds>(now - began_);
    if (slept >= kDiagnosisAfter && !std::exchange(told_, true)) control_.waiting(signature_);
    waiter_.sleep(told_ ? kLongSleep : kDiagnosisAfter - slept);
  }

 private:
  Waiter& waiter_;
  Control& control_;
  const Signature& signature_;
  steady_clock::time_point began_;  // of the first sleep
  bool sleeping_ = false, told_ = false;
};

Communicator::Communicator(const Identity& identity, const Facts& facts, Table table, const Settings& settings,
                           Patience patience, Bell& bell, Control* control, DataLinks* links)
    : rank_(identity.rank),
      size_(identity.size),
      generation_(identity.generation),
      facts_(with_settings(facts, settings)),
      table_(std::move(table)),
      control_(control),
      links_(links),
      waiter_(patience, bell),
      link_of_(std::size_t(identity.size)),
      progress_([this](int peer, const Signature& theirs) { return explain(peer, theirs); }) {}

void Communicator::run(const Operation& operation) {
  const std::lock_guard baton(baton_);
  const Signature signature = sign(operation);
  if (failure_ || (control_ && control_->failed())) fail(operation, signature, nullptr);
  start(*plan_, operation);
  try {
    carry_out(signature);
    check_agreed(operation);
  } catch (const Error& e) {
    fail(operation, signature, &e);
  }
  sequence_++;
  if (has_elements(operation)) finish(operation);
}

// What comes after the reduction, on what this rank has of the result.
void Communicator::finish(const Operation& operation) {
  const bool averages = operation.op == Op::average;
  if (!averages && operation.postscale == 1) return;
  const DType dtype = operation.dtype;
  const double factor = averages ? operation.postscale / size_ : operation.postscale;
  const std::uint64_t elems = execution_.plan().output_elems;
  each_run(operation.output, operation.output, elems, arithmetic(dtype, operation.op).shift, [&](Bytes run, Bytes) {
    if (operation.postscale == 1)
      divide(dtype, run, size_);
    else
      scale(dtype, run, run, factor);
  });
}

// In the output, where that is as large, so that it costs no memory.
Buffer Communicator::prescaled(const Plan& plan, const Operation& operation) {
  const std::uint32_t shift = arithmetic(operation.dtype, operation.op).shift;
  Buffer to = operation.output;
  if (plan.output_elems < plan.input_elems) {
    prescaled_.resize(std::max(prescaled_.size(), std::size_t(plan.input_elems << shift)));
    to = Buffer(prescaled_.data(), plan.input_elems);
  }
  each_run(to, operation.input, plan.input_elems, shift,
           [&](Bytes out, Bytes in) { scale(operation.dtype, out, in, operation.prescale); });
  return to;
}

void Communicator::check_agreed(const Operation& operation) const {
  for (std::size_t peer = 0; peer < operation.agreed.size(); peer++) {
    std::uint64_t sent = 0;
    std::memcpy(&sent, operation.output.run(peer, 1, 3).data(), sizeof sent);
    const std::uint64_t expected = operation.agreed[peer];
    if (sent != expected)
      throw Error(Code::mismatch,
                  text("the splits of an all_to_all differ: rank ", peer, " sends ", sent, " elements to rank ", rank_,
                       ", which expects ", expected),
                  int(peer));
  }
}

void Communicator::end(Error why) {
  const std::lock_guard baton(baton_);
  if (!failure_) failure_ = std::move(why);
}

// What is asked for carries the forced algorithm, and in place of a slab's elements the bytes that are wanted.
// Most calls are like the one before, and then nothing is to be chosen or looked up.
Signature Communicator::sign(const Operation& operation) {
  const Signature asked = what_is_asked(operation);
  const bool same_parts =
      std::ranges::equal(operation.counts, shape_.counts) && std::ranges::equal(operation.received, shape_.received);
  if (asked != asked_ || !same_parts || !plan_) {
    plan_ = nullptr;  // if what follows throws, nothing is remembered
    asked_ = asked;
    shape_ = {rank_,
              size_,
              operation.count,
              std::max(operation.root, 0),
              {operation.counts.begin(), operation.counts.end()},
              {operation.received.begin(), operation.received.end()}};
    chosen_ = with_choice(asked);
    plan_ = &plan_for(chosen_);
  }
  Signature signature = chosen_;
  signature.sequence = sequence_;
  return signature;
}

Signature Communicator::what_is_asked(const Operation& operation) const {
  Signature signature;
  signature.generation = generation_;
  signature.count = operation.count;
  signature.fingerprint = operation.fingerprint;
  signature.root = operation.root;
  signature.kind = operation.kind;
  signature.op = operation.op;
  signature.dtype = operation.dtype;
  signature.wire = operation.wire == operation.dtype ? kAsTheyAre : operation.wire.value_or(kAsTheyAre);
  if (!operation.algorithm.empty())
    signature.algorithm = algorithm_named(Code::invalid_argument, "algorithm", operation.algorithm);
  signature.slab_elems = std::uint64_t(operation.slab_bytes);
  return signature;
}

Signature Communicator::with_choice(Signature signature) const {
  const auto slab_bytes = std::int64_t(std::exchange(signature.slab_elems, 0));
  const Algorithm forced = std::exchange(signature.algorithm, Algorithm::automatic);
  const bool reduces =
      signature.kind == Kind::allreduce || signature.kind == Kind::reduce_scatter || signature.kind == Kind::reduce;
  if (!reduces) return signature;
  Facts facts = facts_;
  if (forced != Algorithm::automatic) facts.forced = forced;
  if (slab_bytes != kSuitableSlab) facts.slab_bytes = slab_bytes;
  facts.elem_bytes = size_bytes(signature.dtype);
  const bool scatters = signature.kind == Kind::reduce_scatter && shape_.counts.empty();  // `count` is one of many
  facts.bytes = signature.count * facts.elem_bytes * std::uint64_t(scatters ? size_ : 1);
  if (signature.kind == Kind::reduce) {
    signature.slab_elems = slab_elems(facts);
    return signature;
  }
  const Choice choice = choose(facts, table_);
  signature.algorithm = choice.algorithm;
  signature.slab_elems = choice.slab_elems;
  return signature;
}

// Without elements nothing would move, and nobody would notice that another rank has some: so that becomes a barrier.
Plan Communicator::make_plan(const Signature& signature) const {
  const Shape& shape = shape_;
  if (signature.count == 0 && shape.received.empty() && size_ > 1) return plan_barrier(shape);
  switch (signature.kind) {
    case Kind::allreduce:
      return plan_allreduce(signature.algorithm, shape, signature.slab_elems);
    case Kind::broadcast:
      return plan_broadcast(shape);
    case Kind::all_gather:
      return plan_all_gather(shape);
    case Kind::reduce_scatter:
      return plan_reduce_scatter(shape, signature.slab_elems);
    case Kind::barrier:
      return plan_barrier(shape);
    case Kind::reduce:
      return plan_reduce(shape, signature.slab_elems);
    case Kind::gather:
      return plan_gather(shape);
    case Kind::scatter:
      return plan_scatter(shape);
    case Kind::all_to_all:
      return plan_all_to_all(shape);
  }
  ANELLO_CHECK(!"a known kind");
}

const Plan& Communicator::plan_for(const Signature& signature) {
  const PlanKey key{signature.kind, signature.algorithm, shape_, signature.slab_elems};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  if (plans_.size() >= kMaxPlans) plans_.clear();
  return plans_.emplace(key, make_plan(signature)).first->second;
}

void Communicator::start(const Plan& plan, const Operation& operation) {
  if (has_elements(operation)) {
    const Buffer input = operation.prescale == 1 ? operation.input : prescaled(plan, operation);
    execution_.start(plan, arithmetic(operation.dtype, operation.op, operation.wire.value_or(operation.dtype)), input,
                     operation.output);
  } else {
    const Buffer nothing(nothing_.data(), 1);
    execution_.start(plan, arithmetic(DType::u8, Op::max), nothing, nothing);
  }
}

void Communicator::carry_out(const Signature& signature) {
  if (size_ == 1) {
    execution_.compute();
    return;
  }
  control_->begin(signature);
  Patient patient(waiter_, *control_, signature);
  const Plan& plan = execution_.plan();
  while (!links_ready(plan)) patient.sleep();
  progress_.start(execution_, signature, link_of_);
  while (!execution_.done()) {
    if (progress_.pass()) {
      waiter_.moved();
      continue;
    }
    if (control_->failed()) throw control_->error();
    if (!waiter_.pause()) continue;
    if (may_sleep())
      patient.sleep();
    else
      waiter_.moved();
  }
  control_->end();
}

// Tells the waiter what to wake for. False if something can move already.
bool Communicator::may_sleep() {
  bool may = true;
  waiter_.forget();
  progress_.each_wanted([&](Link& link, bool writable) {
    if (const int descriptor = link.descriptor(writable); descriptor >= 0)
      waiter_.want(descriptor, writable ? POLLOUT : POLLIN);
    else
      may &= link.may_sleep(writable);
  });
  return may;
}

bool Communicator::links_ready(const Plan& plan) {
  bool ready = true;
  for (const Stream& stream : plan.streams) {
    if (stream.peer < 0) continue;
    Link*& link = link_of_[std::size_t(stream.peer)];
    if (!link) link = links_->find(stream.peer);
    ready &= link != nullptr;
  }
  return ready;
}

// A peer that is a number behind or ahead went wrong earlier: what it called then says more than the numbers.
std::string Communicator::explain(int peer, const Signature& theirs) const {
  const std::optional<Signature> then = control_->begun(theirs.sequence);
  if (then == theirs)
    return text("rank ", peer, " sent more for ", describe(theirs), " than rank ", rank_, " expected");
  const Signature mine = then ? *then : *control_->begun(sequence_);
  return rank_ < peer ? difference(rank_, mine, peer, theirs) : difference(peer, theirs, rank_, mine);
}

// Every rank throws the verdict, whoever noticed first; around it this rank's own operation.
void Communicator::fail(const Operation& operation, const Signature& signature, const Error* cause) {
  if (!failure_) {
    if (cause && cause->code() == Code::network && cause->rank() >= 0)
      control_->suspect(cause->rank(), cause->message());
    if (cause && (cause->code() == Code::mismatch || cause->code() == Code::protocol))
      control_->propose({cause->code(), cause->rank(), cause->message()});
    failure_ = control_->error();
  }
  std::string what = describe(signature);
  if (!operation.name.empty()) what += text(" '", operation.name, "'");
  if (!operation.counts.empty()) what += text(" with ", listed("counts", operation.counts));
  if (!operation.received.empty()) what += text(" and ", listed("receive counts", operation.received));
  if (cause) {
    const auto [moved, all] = execution_.progress();
    what += text(", ", all ? 100 * moved / all : 0, " % done");
  }
  Error error = *failure_;
  throw error.within(what);
}

}  // namespace anello
