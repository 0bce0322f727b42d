#include "ring/communicator.hpp"

#include <poll.h>

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
  } catch (const Error& e) {
    fail(operation, signature, &e);
  }
  sequence_++;
  const bool has_result = operation.kind != Kind::reduce || operation.root == rank_;
  if (operation.op != Op::average || operation.count == 0 || !has_result) return;
  const std::uint32_t shift = arithmetic(operation.dtype, operation.op).shift;
  divide(operation.dtype, operation.output.run(0, operation.count, shift), size_);
}

void Communicator::end(Error why) {
  const std::lock_guard baton(baton_);
  if (!failure_) failure_ = std::move(why);
}

// What is asked for carries the forced algorithm, and in place of a slab's elements the bytes that are wanted.
// Most calls are like the one before, and then nothing is to be chosen or looked up.
Signature Communicator::sign(const Operation& operation) {
  const Signature asked = what_is_asked(operation);
  if (asked != asked_ || !plan_) {
    plan_ = nullptr;  // if what follows throws, nothing is remembered
    asked_ = asked;
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
  const bool scatters = signature.kind == Kind::reduce_scatter;  // of an input with a part for every rank
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
  const Shape shape{rank_, size_, signature.count, signature.root < 0 ? 0 : signature.root};
  if (signature.count == 0 && size_ > 1) return plan_barrier(shape);
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
  }
  ANELLO_CHECK(!"a known kind");
}

const Plan& Communicator::plan_for(const Signature& signature) {
  const PlanKey key{
      signature.kind, signature.algorithm, {rank_, size_, signature.count, signature.root}, signature.slab_elems};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  if (plans_.size() >= kMaxPlans) plans_.clear();
  return plans_.emplace(key, make_plan(signature)).first->second;
}

void Communicator::start(const Plan& plan, const Operation& operation) {
  if (operation.count > 0) {
    execution_.start(plan, arithmetic(operation.dtype, operation.op, operation.wire.value_or(operation.dtype)),
                     operation.input, operation.output);
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
  if (cause) {
    const auto [moved, all] = execution_.progress();
    what += text(", ", all ? 100 * moved / all : 0, " % done");
  }
  Error error = *failure_;
  throw error.within(what);
}

}  // namespace anello
