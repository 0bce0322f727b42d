#include "gpu/nccl_communicator.hpp"

#include <anello/error.hpp>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"

namespace anello::gpu {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kBetweenLooks{20};
// An error of NCCL may be the consequence of another rank's death, which the control plane detects within this time.
constexpr milliseconds kForTheCause{300};
// A non-blocking communicator starts a thread for each call, which takes a part of this time.
constexpr std::chrono::microseconds kEager{300}, kNap{50};

// Ranks must start the kernels of several communicators on a device in the same order, or they wait for each other.
// Launches exclude each other, so that they keep the program's order.
std::mutex& launches_of(DeviceId device) {
  static std::array<std::mutex, 64> all;
  return all[std::size_t(device) % all.size()];
}

}  // namespace

// Shared by the communicator and its watcher, which may outlive it.
struct NcclCommunicator::State {
  struct Queued {
    Event done;
    std::string what;
    Clock::time_point until;
  };

  State(Group of, const Device& on, const AnelloNcclTable& by, const Limits& within)
      : group(std::move(of)), device(on), table(&by), limits(within) {}

  std::string describe(int status) const {
    const char* details = comm ? table->details(comm) : nullptr;
    return text("NCCL on GPU ", int(device.id), ": ", table->describe(status), details && *details ? " (" : "",
                details ? details : "", details && *details ? ")" : "");
  }
  // Describes an error of NCCL or an operation over its limit; empty if there is none. The mutex is held.
  std::string find_failure();
  void end_world(const std::string& why);
  void watch();

  Group group;
  const Device device;
  const AnelloNcclTable* const table;
  const Limits limits;

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  void* comm = nullptr;    // null after it was aborted or destroyed
  bool calling = false;    // a call with it is in progress
  bool stopping = false;   // the owner has ended
  bool finalized = false;  // it may be destroyed instead of aborted
  bool ended = false;      // the watcher is done with it
  std::deque<Queued> queued;
  std::vector<std::shared_ptr<State>> children;  // from split(): NCCL may write their `comm` late
};

std::string NcclCommunicator::State::find_failure() {
  if (const int status = calling ? 0 : table->state(comm); status != 0 && status != ANELLO_NCCL_IN_PROGRESS)
    return describe(status);
  while (!queued.empty() && device.table->event_query(queued.front().done.get()) == 0) queued.pop_front();
  if (!queued.empty() && Clock::now() >= queued.front().until)
    return text("GPU ", int(device.id), ": ", queued.front().what, " took more than ", limits.operation.count(), " ms");
  return {};
}

void NcclCommunicator::State::end_world(const std::string& why) {
  for (const auto until = Clock::now() + kForTheCause; !group.failure() && Clock::now() < until;)
    std::this_thread::sleep_for(kBetweenLooks);
  group.abort(why);
}

void NcclCommunicator::State::watch() {
  device.table->set_device(int(device.id));
  std::unique_lock lock(mutex);
  bool failed = false;
  while (!stopping && !failed) {
    changed.wait_for(lock, kBetweenLooks, [this] { return stopping; });
    if (stopping || !comm) continue;
    const std::string why = find_failure();
    lock.unlock();
    if (!why.empty()) end_world(why);
    failed = group.failure().has_value();
    lock.lock();
  }
  // A call inside NCCL returns by itself, or because of the abort.
  changed.wait_for(lock, limits.end, [this] { return !calling; });
  if (void* const last = std::exchange(comm, nullptr)) {
    const auto end = finalized ? table->destroy : table->abort;
    lock.unlock();
    if (const int status = end(last); status != 0)
      log(Severity::warning, text("NCCL on GPU ", int(device.id), " could not be ended: ", table->describe(status)));
    lock.lock();
  }
  queued.clear();
  ended = true;
  changed.notify_all();
}

NcclCommunicator::NcclCommunicator(Group group, const Device& device, const AnelloNcclTable& table,
                                   const Limits& limits)
    : state_(std::make_shared<State>(std::move(group), device, table, limits)) {
  const std::string what = "making a communicator";
  Group& all = state_->group;
  AnelloNcclId id{};
  if (all.rank() == 0)
    if (const int status = table.unique_id(&id); status != 0) fail(what, state_->describe(status));
  all.broadcast(Tensor(id.bytes, sizeof id.bytes, DType::u8), 0, {.name = "NCCL's id"});
  start([&] { return table.create(&state_->comm, all.size(), &id, all.rank()); }, what);
}

// NCCL may write the new communicator after this call has failed: `children` keeps its State alive.
std::unique_ptr<NcclCommunicator> NcclCommunicator::split(Group group) {
  const std::string what = "splitting a communicator";
  const int colour = group.members()[0], key = group.rank();  // no other part has that member
  std::unique_ptr<NcclCommunicator> part(
      new NcclCommunicator(std::make_shared<State>(std::move(group), state_->device, *state_->table, state_->limits)));
  const Shared child = part->state_;
  state_->children.push_back(child);
  part->start(
      [&] {
        launch(what, [&](void* comm) { return state_->table->split(comm, colour, key, &child->comm); });
        return 0;
      },
      what);
  return part;
}

// The watcher runs from the beginning, so that a start can be aborted too.
void NcclCommunicator::start(const std::function<int()>& create, const std::string& what) {
  const DeviceGuard guard(state_->device);
  const int status = create();
  watcher_ = quiet_thread([state = state_] { state->watch(); });
  try {
    finish(status, what, state_->limits.start);
  } catch (...) {
    shut_down();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (!shut_down())
    log(Severity::warning,
        text("NCCL on GPU ", int(state_->device.id), " does not return from its end; a thread is left behind"));
}

// Gives queued work a little time to finish, unless the world has failed. The watcher ends the communicator in any
// case, since even destroying it may block. True: the watcher has ended.
bool NcclCommunicator::shut_down() noexcept {
  State& state = *state_;
  if (!watcher_.joinable()) return true;
  try {
    if (!state.group.failure()) {
      const std::string why = poll(attempt(state.table->finalize, "finalizing"), state.limits.end);
      if (!why.empty())
        log(Severity::warning,
            text("NCCL on GPU ", int(state.device.id), " is aborted with queued work that has not finished: ", why));
      const std::lock_guard lock(state.mutex);
      state.finalized = why.empty();
    }
  } catch (const std::exception& error) {
    log(Severity::info, text("a communicator ends early: ", error.what()));
  }
  std::unique_lock lock(state.mutex);
  state.stopping = true;
  state.changed.notify_all();
  const bool ended = state.changed.wait_for(lock, 2 * state.limits.end, [&] { return state.ended; });
  lock.unlock();
  if (ended)
    watcher_.join();
  else
    watcher_.detach();
  return ended;
}

int NcclCommunicator::attempt(const Call& call, const std::string& what) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.comm) {
    lock.unlock();
    fail(what, "it has been aborted");
  }
  state.calling = true;
  void* const comm = state.comm;
  lock.unlock();
  const int status = call(comm);
  lock.lock();
  state.calling = false;
  state.changed.notify_all();
  return status;
}

// Waits while the call is in progress. Returns an empty string, or why it failed.
std::string NcclCommunicator::poll(int status, milliseconds limit) {
  State& state = *state_;
  for (const auto began = Clock::now();;) {
    const auto waited = Clock::now() - began;
    {
      const std::lock_guard lock(state.mutex);
      if (status != 0 && status != ANELLO_NCCL_IN_PROGRESS) return state.describe(status);
      if (!state.comm) return "it has been aborted";
      status = state.table->state(state.comm);
      if (status == 0) return {};
    }
    if (limit.count() > 0 && waited > limit) return text("it took more than ", limit.count(), " ms");
    if (waited < kEager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

void NcclCommunicator::finish(int status, const std::string& what, milliseconds limit) {
  if (const std::string why = poll(status, limit); !why.empty()) fail(what, why);
}

void NcclCommunicator::launch(const std::string& what, const Call& call) {
  const DeviceGuard guard(state_->device);
  const std::lock_guard launching(launches_of(state_->device.id));
  finish(attempt(call, what), what, state_->limits.launch);
}

void NcclCommunicator::run(const std::string& what, GpuStream stream, const Call& call) {
  launch(what, call);
  State& state = *state_;
  if (state.limits.operation.count() == 0) return;
  const DeviceGuard guard(state.device);
  State::Queued queued{make_event(state.device), what, Clock::now() + state.limits.operation};
  record(state.device, queued.done, stream);
  const std::lock_guard lock(state.mutex);
  state.queued.push_back(std::move(queued));
}

// Fails the world, if it has not failed yet, and throws its failure: the same on all ranks.
void NcclCommunicator::fail(const std::string& what, const std::string& why) {
  state_->end_world(why);
  std::optional<Error> failure = state_->group.failure();
  if (!failure) throw Error(ErrorCode::device, why).within(what);
  throw failure->within(what);
}

const AnelloNcclTable& NcclCommunicator::table() const {
  return *state_->table;
}

}  // namespace anello::gpu
