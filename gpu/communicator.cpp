#include "gpu/communicator.hpp"

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
// What NCCL complains of may follow from another rank's death, which the control plane finds out within this time.
constexpr milliseconds kForTheCause{300};
// A communicator that does not block starts a thread for each call, which takes some of this.
constexpr std::chrono::microseconds kEager{300}, kNap{50};

// Ranks that use several communicators of a device have to start their kernels in the same order, or they wait for each
// other; a launch that is not interrupted by another one keeps the program's order.
std::mutex& launches_of(DeviceId device) {
  static std::array<std::mutex, 64> all;
  return all[std::size_t(device) % all.size()];
}

}  // namespace

// Of the communicator and its watching thread, whichever lasts longer.
struct Communicator::State {
  struct Queued {
    Event done;
    std::string what;
    Clock::time_point until;
  };

  State(Group of, const Device& on, const AnelloNcclTable& by, const Limits& within)
      : group(std::move(of)), device(on), table(&by), limits(within) {}

  std::string say(int status) const {
    const char* details = comm ? table->details(comm) : nullptr;
    return text("NCCL on GPU ", int(device.id), ": ", table->describe(status), details && *details ? " (" : "",
                details ? details : "", details && *details ? ")" : "");
  }
  // What is wrong, if anything is, with what has been queued. The mutex is held.
  std::string complaint();
  void end_world(const std::string& why);
  void watch();

  Group group;
  const Device device;
  const AnelloNcclTable* const table;
  const Limits limits;

  std::mutex mutex;  // over what follows
  std::condition_variable changed;
  void* comm = nullptr;    // none once it is aborted or destroyed
  bool calling = false;    // somebody is inside a call with it
  bool over = false;       // nobody needs it any more
  bool finalized = false;  // and it may be destroyed, rather than aborted
  bool ended = false;      // the thread is done with it
  std::deque<Queued> queued;
  std::vector<std::shared_ptr<State>> children;  // what was split off: NCCL may write its `comm` late
};

std::string Communicator::State::complaint() {
  if (const int status = calling ? 0 : table->state(comm); status != 0 && status != ANELLO_NCCL_IN_PROGRESS)
    return say(status);
  while (!queued.empty() && device.table->event_query(queued.front().done.get()) == 0) queued.pop_front();
  if (!queued.empty() && Clock::now() >= queued.front().until)
    return text("GPU ", int(device.id), ": ", queued.front().what, " took more than ", limits.operation.count(), " ms");
  return {};
}

void Communicator::State::end_world(const std::string& why) {
  for (const auto until = Clock::now() + kForTheCause; !group.failure() && Clock::now() < until;)
    std::this_thread::sleep_for(kBetweenLooks);
  group.abort(why);
}

void Communicator::State::watch() {
  device.table->set_device(int(device.id));
  std::unique_lock lock(mutex);
  bool failed = false;
  while (!over && !failed) {
    changed.wait_for(lock, kBetweenLooks, [this] { return over; });
    if (over || !comm) continue;
    const std::string why = complaint();
    lock.unlock();
    if (!why.empty()) end_world(why);
    failed = group.failure().has_value();
    lock.lock();
  }
  // A call that is inside NCCL comes out by itself, or is freed by the abort.
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

Communicator::Communicator(Group group, const Device& device, const AnelloNcclTable& table, const Limits& limits)
    : state_(std::make_shared<State>(std::move(group), device, table, limits)) {
  const std::string what = "making a communicator";
  Group& all = state_->group;
  AnelloNcclId id{};
  if (all.rank() == 0)
    if (const int status = table.unique_id(&id); status != 0) fail(what, state_->say(status));
  all.broadcast(Tensor(id.bytes, sizeof id.bytes, DType::u8), 0, {.name = "NCCL's id"});
  start([&] { return table.create(&state_->comm, all.size(), &id, all.rank()); }, what);
}

// NCCL may write down the new communicator after this call has failed: the place outlives both.
std::unique_ptr<Communicator> Communicator::split(Group group) {
  const std::string what = "splitting a communicator";
  const int colour = group.members()[0], key = group.rank();  // no other part has that member
  std::unique_ptr<Communicator> part(
      new Communicator(std::make_shared<State>(std::move(group), state_->device, *state_->table, state_->limits)));
  const Shared born = part->state_;
  state_->children.push_back(born);
  part->start(
      [&] {
        launch(what, [&](void* comm) { return state_->table->split(comm, colour, key, &born->comm); });
        return 0;
      },
      what);
  return part;
}

// The thread watches from the beginning, so that a start can be aborted too.
void Communicator::start(const std::function<int()>& create, const std::string& what) {
  const DeviceGuard guard(state_->device);
  const int status = create();
  watcher_ = quiet_thread([state = state_] { state->watch(); });
  try {
    finish(status, what, state_->limits.start);
  } catch (...) {
    say_goodbye();
    throw;
  }
}

Communicator::~Communicator() {
  if (!say_goodbye())
    log(Severity::warning,
        text("NCCL on GPU ", int(state_->device.id), " does not come back from its end; a thread is left behind"));
}

// Of a failed world nobody waits for the others. What is queued has a little time to be done. The thread ends the
// communicator in any case, since even to destroy it may block. True: nothing of it is left.
bool Communicator::say_goodbye() noexcept {
  State& state = *state_;
  if (!watcher_.joinable()) return true;
  try {
    if (!state.group.failure()) {
      const std::string why = poll(attempt(state.table->finalize, "finalizing"), state.limits.end);
      if (!why.empty())
        log(Severity::warning, text("NCCL on GPU ", int(state.device.id),
                                    " is ended with work that was queued and not waited for: ", why));
      const std::lock_guard lock(state.mutex);
      state.finalized = why.empty();
    }
  } catch (const std::exception& error) {
    log(Severity::info, text("a communicator ends early: ", error.what()));
  }
  std::unique_lock lock(state.mutex);
  state.over = true;
  state.changed.notify_all();
  const bool ended = state.changed.wait_for(lock, 2 * state.limits.end, [&] { return state.ended; });
  lock.unlock();
  if (ended)
    watcher_.join();
  else
    watcher_.detach();
  return ended;
}

int Communicator::attempt(const Call& call, const std::string& what) {
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

// Until it is no longer in progress; why that was nothing, or an empty string.
std::string Communicator::poll(int status, milliseconds limit) {
  State& state = *state_;
  for (const auto began = Clock::now();;) {
    const auto waited = Clock::now() - began;
    {
      const std::lock_guard lock(state.mutex);
      if (status != 0 && status != ANELLO_NCCL_IN_PROGRESS) return state.say(status);
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

void Communicator::finish(int status, const std::string& what, milliseconds limit) {
  if (const std::string why = poll(status, limit); !why.empty()) fail(what, why);
}

void Communicator::launch(const std::string& what, const Call& call) {
  const DeviceGuard guard(state_->device);
  const std::lock_guard launching(launches_of(state_->device.id));
  finish(attempt(call, what), what, state_->limits.launch);
}

void Communicator::run(const std::string& what, void* stream, const Call& call) {
  launch(what, call);
  State& state = *state_;
  if (state.limits.operation.count() == 0) return;
  const DeviceGuard guard(state.device);
  State::Queued queued{make_event(state.device), what, Clock::now() + state.limits.operation};
  record(state.device, queued.done, stream);
  const std::lock_guard lock(state.mutex);
  state.queued.push_back(std::move(queued));
}

// What the world failed of, now at the latest: the same on all ranks.
void Communicator::fail(const std::string& what, const std::string& why) {
  state_->end_world(why);
  std::optional<Error> failure = state_->group.failure();
  if (!failure) throw Error(ErrorCode::device, why).within(what);
  throw failure->within(what);
}

const AnelloNcclTable& Communicator::table() const {
  return *state_->table;
}

}  // namespace anello::gpu
