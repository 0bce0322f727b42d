#include "gpu/nccl_communicator.hpp"

#include <anello/error.hpp>
#include <array>
#include <atomic>
#include <condition_variable>
#include <new>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/or_abort.hpp"
#include "ring/base/log.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"

namespace anello::gpu {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kBetweenLooks{20};
// If another rank's death is the cause of an error of NCCL, the control plane detects the death within this time.
constexpr milliseconds kForTheCause{300};
// A wait for a call yields until kEager, and then sleeps for kNap at a time. A call takes a part of this time, because
// a non-blocking communicator starts a thread for each call.
constexpr std::chrono::microseconds kEager{300}, kNap{50};

// A launch may wait for peers to connect. It excludes other launches for at most this time.
constexpr milliseconds kKeepsOrder{1000};
std::atomic<int> all_left_behind{0};
constexpr int kAborted = -2;  // returned if `comm` has been ended; no status of NCCL has this value

// Ranks must start the kernels of several communicators on a device in the same order, or the ranks wait for each other
// for ever. Launches exclude each other, so that they keep the program's order.
Mutex& launches_of(DeviceId device) {
  static std::array<Mutex, 64> all;
  return all[std::size_t(device) % all.size()];
}

Group of_same_ranks(const Group& group) {
  std::vector<int> all(std::size_t(group.size()));
  std::iota(all.begin(), all.end(), 0);
  return group.group(all);
}

// Logs nothing if there is no memory for the message, because no exception may leave a destructor.
template <class Message>
void log_at_end(Severity severity, Message message) noexcept {
  try {
    log(severity, message());
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

// Shared by the communicator and its watcher, because the watcher may outlive the communicator.
struct NcclCommunicator::State {
  State(Group of, const Device& on, const AnelloNcclTable& by, const Limits& within, StartFailure if_it_fails)
      : group(std::move(of)),
        device(on),
        table(&by),
        limits(within),
        start_failure(if_it_fails),
        queued(of_same_ranks(group), on, within.operation) {}

  std::string describe(int status) const ANELLO_REQUIRES(mutex) {
    const char* details = comm ? table->details(comm) : nullptr;
    return text("NCCL on GPU ", int(device.id), ": ", table->describe(status), details && *details ? " (" : "",
                details ? details : "", details && *details ? ")" : "");
  }
  // Returns an error of NCCL or of QueuedCalls::poll(); empty if there is no error.
  std::optional<Error> find_failure() ANELLO_REQUIRES(mutex);
  bool has_started() {
    const MutexLock lock(mutex);
    return started;
  }
  void end_world(const Error& why);
  int call_it(Call call);  // returns the call's status, or kAborted
  void watch();

  Group group;
  const Device device;
  const AnelloNcclTable* const table;
  const Limits limits;
  const StartFailure start_failure;
  // States of communicators whose split() failed; NCCL may still write their `comm`.
  std::vector<std::shared_ptr<State>> children;

  Mutex mutex;
  std::condition_variable changed;
  // True once NCCL was asked to make `comm`. Before that, NCCL may write `comm` without the mutex.
  bool created ANELLO_GUARDED_BY(mutex) = false;
  void* comm ANELLO_GUARDED_BY(mutex) = nullptr;   // null after it was aborted or destroyed
  bool calling ANELLO_GUARDED_BY(mutex) = false;   // a call with `comm` is in progress
  bool awaited ANELLO_GUARDED_BY(mutex) = false;   // true if the watcher waits for the end of that call
  bool started ANELLO_GUARDED_BY(mutex) = false;   // the communicator has been made
  bool stopping ANELLO_GUARDED_BY(mutex) = false;  // the NcclCommunicator is being destroyed
  // True once NCCL has finished all queued work; then `comm` may be destroyed instead of aborted.
  bool finalized ANELLO_GUARDED_BY(mutex) = false;
  bool ended ANELLO_GUARDED_BY(mutex) = false;  // the watcher has finished with `comm`
  bool is_left_behind ANELLO_GUARDED_BY(mutex) = false;
  QueuedCalls queued ANELLO_GUARDED_BY(mutex);
};

std::optional<Error> NcclCommunicator::State::find_failure() {
  if (const int status = calling ? 0 : table->state(comm); failed(status))
    return Error(ErrorCode::device, describe(status));
  return queued.poll();
}

int NcclCommunicator::State::call_it(Call call) {
  MutexLock lock(mutex);
  if (!comm) return kAborted;
  calling = true;
  void* const its = comm;
  lock.unlock();
  const int status = call(its);
  lock.lock();
  calling = false;
  if (awaited) changed.notify_all();  // notifies only if awaited, because otherwise each call would wake the watcher
  return status;
}

void NcclCommunicator::State::end_world(const Error& why) {
  for (const auto until = Clock::now() + kForTheCause; !group.failure() && Clock::now() < until;)
    std::this_thread::sleep_for(kBetweenLooks);
  abort_because(group, why);
}

void NcclCommunicator::State::watch() {
  device.table->set_device(int(device.id));
  device.table->ignore_captures();
  MutexLock lock(mutex);
  changed.wait(lock, [this]() ANELLO_REQUIRES(mutex) { return created || stopping; });
  bool failed = false;
  while (!stopping && !failed) {
    changed.wait_for(lock, kBetweenLooks, [this]() ANELLO_REQUIRES(mutex) { return stopping; });
    if (stopping || !comm) continue;
    // If a failed start is to be thrown (StartFailure::is_thrown), the thread that starts the communicator finds the
    // failure itself, so this thread looks for failures only after the start. It always checks whether the world has
    // failed, because then it must abort the communicator, so that the start ends too.
    const bool looks = started || start_failure == StartFailure::ends_world;
    const std::optional<Error> why = looks ? find_failure() : std::nullopt;
    lock.unlock();
    if (why) end_world(*why);
    failed = group.failure().has_value();
    lock.lock();
  }
  // A call inside NCCL returns either by itself or because of the abort.
  awaited = true;
  changed.wait_for(lock, limits.end, [this]() ANELLO_REQUIRES(mutex) { return !calling; });
  if (void* const last = std::exchange(comm, nullptr)) {
    const auto end = finalized ? table->destroy : table->abort;
    lock.unlock();
    if (const int status = end(last); status != 0)
      log(Severity::warning, text("NCCL on GPU ", int(device.id), " could not be ended: ", table->describe(status)));
    lock.lock();
  }
  queued.clear();
  ended = true;
  if (is_left_behind) all_left_behind--;
  changed.notify_all();
}

NcclCommunicator::NcclCommunicator(Group group, const Device& device, const AnelloNcclTable& table,
                                   const Limits& limits, StartFailure start_failure)
    : state_(std::make_shared<State>(std::move(group), device, table, limits, start_failure)) {
  const Doing what{"making a communicator"};
  Group& all = state_->group;
  AnelloNcclId id{};
  std::string no_id;
  if (all.rank() == 0)
    if (const int status = table.unique_id(&id); status != 0) no_id = state_->describe(status);
  if (!no_id.empty() && start_failure == StartFailure::ends_world) fail(what, no_id);
  all.broadcast(Tensor(id.bytes, sizeof id.bytes, DType::u8), 0, {.name = "NCCL's id"});
  if (!no_id.empty()) fail(what, no_id);
  start([&] { return table.create(&state_->comm, all.size(), &id, all.rank()); }, what);
}

// If this call fails, NCCL may still write the new communicator. So `children` keeps the new communicator's State
// alive.
std::unique_ptr<NcclCommunicator> NcclCommunicator::split(Group group) {
  const Doing what{"splitting a communicator"};
  // The colour is the lowest member of the part: no other part has this member, so no other part has this colour.
  const int colour = group.members()[0], key = group.rank();
  std::unique_ptr<NcclCommunicator> part(new NcclCommunicator(std::make_shared<State>(
      std::move(group), state_->device, *state_->table, state_->limits, StartFailure::ends_world)));
  const Shared child = part->state_;
  state_->children.push_back(child);
  part->start(
      [&] {
        launch(
            what, [&](void* comm) { return state_->table->split(comm, colour, key, &child->comm); },
            state_->limits.start);
        return 0;
      },
      what);
  state_->children.pop_back();
  return part;
}

// The watcher runs from the beginning. So it can also abort a start, and every communicator has a thread that ends it.
void NcclCommunicator::start(FunctionRef<int()> create, const Doing& what) {
  const DeviceGuard guard(state_->device);
  try {
    watcher_ = quiet_thread("watching NCCL", [state = state_] { state->watch(); });
  } catch (const Error& error) {
    fail(what, error.what());
  }
  try {
    const int status = create();
    {
      const MutexLock lock(state_->mutex);
      state_->created = true;
      state_->changed.notify_all();
    }
    require(settle(status, state_->limits.start), what, state_->limits.start);
    const MutexLock lock(state_->mutex);
    state_->started = true;
  } catch (...) {
    shut_down();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (!shut_down())
    log_at_end(Severity::warning,
               [&] { return text("NCCL on GPU ", int(state_->device.id), " does not end, a thread is left"); });
}

// Gives queued work a short time to finish, unless the world has failed. The watcher ends the communicator in any case,
// because even destroying a communicator may block. Returns true if the watcher has ended.
bool NcclCommunicator::shut_down() noexcept {
  State& state = *state_;
  if (!watcher_.joinable()) return true;
  try {
    if (state.has_started() && !state.group.failure()) {
      const int status = settle(attempt(state.table->finalize, {"finalizing"}), state.limits.end);
      if (status != 0)
        log(Severity::warning,
            text("NCCL on GPU ", int(state.device.id),
                 " is aborted with queued work that has not finished: ", why(status, state.limits.end)));
      const MutexLock lock(state.mutex);
      if (status == 0) state.queued.poll();  // records the ends of the calls made last
      state.finalized = status == 0;
    }
  } catch (const std::exception& error) {
    log_at_end(Severity::info, [&] { return text("a communicator ends early: ", error.what()); });
  }
  MutexLock lock(state.mutex);
  state.stopping = true;
  state.changed.notify_all();
  const bool ended =
      state.changed.wait_for(lock, 2 * state.limits.end, [&]() ANELLO_REQUIRES(state.mutex) { return state.ended; });
  state.is_left_behind = !ended;
  if (!ended) all_left_behind++;
  lock.unlock();
  if (ended)
    watcher_.join();
  else
    watcher_.detach();
  return ended;
}

int NcclCommunicator::attempt(Call call, const Doing& what) {
  const int status = state_->call_it(call);
  if (status == kAborted) fail(what, "it has been aborted");
  return status;
}

// If NCCL refuses, only this rank gets an error, because the other ranks do not wait.
std::function<void()> NcclCommunicator::register_memory(void* memory, std::size_t bytes) {
  const DeviceGuard guard(state_->device);
  // Makes the function before the registration. If there were no memory for it afterwards, nothing could end the
  // registration.
  const auto handle = std::make_shared<void*>(nullptr);
  std::function<void()> end = [weak = std::weak_ptr(state_), handle] {
    const Shared state = weak.lock();
    if (!state) return;
    const DeviceGuard its(state->device);
    state->call_it([&](void* comm) { return state->table->deregister_memory(comm, *handle); });
  };
  const int status =
      settle(attempt([&](void* comm) { return state_->table->register_memory(comm, memory, bytes, handle.get()); },
                     {"registering memory"}),
             state_->limits.start);
  if (status != 0) throw Error(ErrorCode::device, text("registering memory: ", why(status, state_->limits.start)));
  return end;
}

// Waits while NCCL is in progress. Returns 0, an error of NCCL, kAborted, or ANELLO_NCCL_IN_PROGRESS if the limit
// passes.
int NcclCommunicator::settle(int status, milliseconds limit) {
  State& state = *state_;
  for (const auto began = Clock::now();;) {
    {
      const MutexLock lock(state.mutex);
      if (failed(status)) return status;
      if (!state.comm) return kAborted;
      status = state.table->state(state.comm);
      if (status == 0) return 0;
    }
    const auto waited = Clock::now() - began;
    if (limit.count() > 0 && waited > limit) return status;
    if (waited < kEager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

std::string NcclCommunicator::why(int status, milliseconds limit) const {
  if (status == kAborted) return "it has been aborted";
  if (status == ANELLO_NCCL_IN_PROGRESS) return text("it took more than ", limit.count(), " ms");
  const MutexLock lock(state_->mutex);
  return state_->describe(status);
}

void NcclCommunicator::require(int status, const Doing& what, milliseconds limit) {
  if (status != 0) fail(what, why(status, limit));
}

// Call with the device current. QueuedCalls enforces the limit of operations: it ends the world, and then the watcher
// aborts the call for which this function waits.
void NcclCommunicator::launch(const Doing& what, Call call, milliseconds limit) {
  MutexLock launching(launches_of(state_->device.id));
  int status = settle(attempt(call, what), limit.count() > 0 ? std::min(limit, kKeepsOrder) : kKeepsOrder);
  launching.unlock();
  if (status == ANELLO_NCCL_IN_PROGRESS && (limit.count() == 0 || limit > kKeepsOrder))
    status = settle(status, limit.count() > 0 ? limit - kKeepsOrder : limit);
  require(status, what, limit);
}

void NcclCommunicator::run(const NcclCall& call, GpuStream stream, Call queue) {
  State& state = *state_;
  const DeviceGuard guard(state.device);
  const Doing what{{}, &call};
  if (is_capturing(state.device, stream)) {
    if (state.limits.operation.count() > 0) refuse_capture(state.device, stream, "a call with ANELLO_OPERATION_LIMIT");
    return launch(what, queue);
  }
  {
    const MutexLock lock(state.mutex);
    state.queued.add(call);
  }
  launch(what, queue);
  const MutexLock lock(state.mutex);
  state.queued.launched(stream);
}

// Makes the world fail, if it has not failed yet, and throws the world's failure, which is equal on all ranks. With
// StartFailure::is_thrown, a failed start does not make the world fail.
void NcclCommunicator::fail(const Doing& what, const std::string& why) {
  State& state = *state_;
  const bool ends_world = state.has_started() || state.start_failure == StartFailure::ends_world;
  if (ends_world) state_->end_world({ErrorCode::device, why});
  const std::optional<Error> failure = state.group.failure();
  if (!failure) throw Error(ErrorCode::device, why).within(what.text());
  throw Error(*failure).within(what.text());
}

int NcclCommunicator::left_behind() {
  return all_left_behind;
}

const AnelloNcclTable& NcclCommunicator::table() const {
  return *state_->table;
}

}  // namespace anello::gpu
