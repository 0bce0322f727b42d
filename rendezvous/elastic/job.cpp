// How a process of an elastic job takes part in a world: it gets the state, commits, and finishes.
#include <bit>
#include <utility>

#include "rendezvous/elastic/job_impl.hpp"
#include "ring/base/log.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"
#include "ring/elastic/contents.hpp"
#include "ring/elastic/synchronize.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::elastic {
namespace {

using std::chrono::steady_clock;
constexpr const char* kBeginFirst = "call begin_synchronization() in this world first";

}  // namespace

bool another_can_follow(ErrorCode code) {
  switch (code) {
    case ErrorCode::rank_dead:
    case ErrorCode::rank_left:
    case ErrorCode::rank_silent:
    case ErrorCode::aborted:
    case ErrorCode::network:
      return true;
    default:
      return false;
  }
}

void check_phase(const char* call, bool is_right, const char* remedy) {
  if (!is_right) throw Error(ErrorCode::invalid_argument, text(call, ": ", remedy));
}

World& Job::Impl::world() {
  if (!world_) throw Error(ErrorCode::invalid_argument, "there is no world yet: call next() or enter() first");
  return *world_;
}

// Runs a part of a synchronization, or a comparison, in which all ranks take part. If it fails, and this process cannot
// go on in another world, reports this to the other processes.
template <class Part>
void Job::Impl::together(Part part) try {
  part();
} catch (const Error& error) {
  if (!survives(error)) give_up(error.what());
  log(Severity::info,
      text("world ", change_.generation, " has failed in a comparison or before its training: ", error.what()));
  throw;
} catch (const std::exception& error) {
  give_up(error.what());
}

void Job::Impl::synchronize() {
  check_phase("synchronize", phase_ == Phase::starting, "it is called once in each world, after enter()");
  together([&] {
    Synchronized result = elastic::synchronize(*world_, state_, begun_, options_.verify);
    note(result.sources, result.receivers, result.revision);
    change_.bytes = result.bytes;
  });
  begin_training();
}

void Job::Impl::begin_synchronization(std::string_view manifest) {
  constexpr const char* kCall = "begin_synchronization";
  check_phase(kCall, phase_ == Phase::starting, "it is called once in each world, after enter()");
  check_phase(kCall, StateAccess::contents(state_).entries.empty(),
              "the State has entries, which only synchronize() sends");
  together([&] { decision_ = elastic::begin_synchronization(*world_, state_, manifest, begun_); });
  note(decision_.sources, decision_.receivers, decision_.revision);
  phase_ = Phase::exchanging;
}

void Job::Impl::deliver(std::span<const Tensor> tensors) {
  check_phase("deliver", phase_ == Phase::exchanging, kBeginFirst);
  std::vector<Bytes> memory;
  for (const Tensor& each : tensors)
    memory.push_back({static_cast<std::byte*>(each.data), std::size_t(each.count) * size_bytes(each.dtype)});
  together([&] {
    for (Group& each : elastic::deliver(*world_, decision_, memory)) groups_.push_back(std::move(each));
  });
}

void Job::Impl::end_synchronization(const std::vector<EntryHash>& entries, std::uint64_t bytes) {
  check_phase("end_synchronization", phase_ == Phase::exchanging, kBeginFirst);
  together([&] { elastic::end_synchronization(*world_, state_, decision_, entries); });
  groups_.clear();
  change_.bytes = decision_.receivers.empty() ? 0 : bytes;
  begin_training();
}

void Job::Impl::note(const std::vector<int>& sources, const std::vector<int>& receivers, std::uint64_t revision) {
  change_.sources = sources;
  change_.receivers = receivers;
  change_.revision = revision;
}

void Job::Impl::begin_training() {
  succession_.trains();
  connection_->begin(change_.revision);
  phase_ = Phase::training;
  failed_starts_ = 0;
  change_.paused = steady_clock::now() - paused_since_;
  report();
  if (options_.on_change) options_.on_change(change_);
}

void Job::Impl::report() const {
  if (change_.rank != 0 || (change_.reason.empty() && !was_in_a_world_)) return;
  const std::string reason = change_.reason.empty() ? "no process has ended" : change_.reason;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(change_.paused).count();
  std::string received;
  if (!change_.receivers.empty())
    received = text("; ", rank_list(change_.receivers), " received ", change_.bytes, " bytes, which ",
                    who_has(change_.sources), "too");
  log(Severity::warning,
      text("world ", change_.generation, " has ", change_.size, change_.size == 1 ? " rank" : " ranks",
           " and goes on after commit ", change_.revision, "; ", reason, received, "; paused for ", ms, " ms"));
}

void Job::Impl::begin_commit() {
  check_phase("commit", phase_ != Phase::ended, "the world has ended as planned: call next() or enter()");
  check_phase("commit", phase_ == Phase::training, "the state has not been synchronized in this world");
  StateAccess::contents(state_).begin_commit();
  operations_before_.reset();
  if (std::has_single_bit(state_.revision() + 1)) operations_before_ = world_->counters().operations;
}

// An asynchronous operation of another part of the program may also have ended during the commit, so this is only a
// warning.
void Job::Impl::warn_of_operations() {
  if (!operations_before_ || world_->counters().operations == *operations_before_) return;
  log(Severity::warning, text("during commit ", state_.revision(),
                              " an operation was carried out: if the function that writes the state calls it, and a "
                              "rank is lost there, no rank has a complete state; call it before the commit"));
}

bool Job::Impl::end_commit() {
  check_phase("commit", phase_ == Phase::training, "the world in which this commit began has ended");
  StateAccess::contents(state_).end_commit();
  warn_of_operations();
  if (!connection_->ends_after(state_.revision())) return false;
  phase_ = Phase::ended;
  return true;
}

void Job::Impl::commit(const std::function<void()>& update) {
  begin_commit();
  update();
  if (end_commit()) throw WorldEnds{};
  // Without this comparison, a value that differs would end the job only at the first change of its ranks, perhaps
  // after days. Comparisons after 1, 2, 4, 8, ... commits find the value before the training's length has doubled, and
  // cost almost nothing for each step.
  if (options_.verify && change_.size > 1 && std::has_single_bit(state_.revision()))
    together([&] { elastic::compare(*world_, state_); });
}

void Job::Impl::compare(const std::vector<EntryHash>& entries) {
  check_phase("compare", phase_ == Phase::training, "the state has not been synchronized in this world");
  together([&] { elastic::compare(*world_, state_, entries); });
}

// Returns true if this process can go on in another world after this error. If the entries of the state differ, all
// ranks get the mismatch, and the ranks that are not at fault go on.
bool Job::Impl::survives(const Error& error) const {
  if (!world_ || phase_ == Phase::left || phase_ == Phase::over) return false;
  const bool synchronizes = phase_ == Phase::starting || phase_ == Phase::exchanging;
  if (synchronizes && error.code() == ErrorCode::mismatch)
    return error.rank() != change_.rank && (state_.holds() || error.rank() >= 0);
  return another_can_follow(error.code()) && world::WorldMaker::has_failed(*world_);
}

// If another rank ends before it has finished, the remaining ranks may have to repeat the last step. They do not need
// this rank to repeat the step, so this rank ends successfully.
void Job::Impl::finish() {
  check_phase("finish", phase_ == Phase::training, "the state has not been synchronized in this world");
  try {
    world_->finish();
  } catch (const Error& error) {
    if (!survives(error)) give_up(error.what());
    log(Severity::info, text("a rank has not finished: ", error.what()));
  }
  notice_.reset();
  connection_->done();
  end_part();
  world::WorldMaker::leave(*world_);
}

Job::Job(State& state, Options options, const Settings& settings)
    : impl_(std::make_unique<Impl>(state, std::move(options), settings)) {}
// In a child that fork() made, does not destroy the object, because the child has neither the connection nor the
// threads.
Job::~Job() {
  if (impl_->in_child()) static_cast<void>(impl_.release());
}
bool Job::next() {
  while (impl_->enter()) {
    try {
      impl_->synchronize();
      return true;
    } catch (const Error& error) {
      if (!impl_->survives(error)) throw;
    }
  }
  return false;
}
bool Job::enter() {
  return impl_->enter();
}
World& Job::world() {
  return impl_->world();
}
const Change& Job::change() const {
  return impl_->change();
}
void Job::synchronize() {
  impl_->synchronize();
}
void Job::begin_synchronization(std::string_view manifest) {
  impl_->begin_synchronization(manifest);
}
void Job::deliver(std::span<const Tensor> tensors) {
  impl_->deliver(tensors);
}
void Job::end_synchronization(const std::vector<EntryHash>& entries, std::uint64_t bytes) {
  impl_->end_synchronization(entries, bytes);
}
void Job::commit(const std::function<void()>& update) {
  impl_->commit(update);
}
void Job::begin_commit() {
  impl_->begin_commit();
}
bool Job::end_commit() {
  return impl_->end_commit();
}
void Job::compare(const std::vector<EntryHash>& entries) {
  impl_->compare(entries);
}
bool Job::change_is_planned() const {
  return impl_->change_is_planned();
}
bool Job::survives(const Error& error) const {
  return impl_->survives(error);
}
void Job::finish() {
  impl_->finish();
}

}  // namespace anello::elastic
