#include "gpu/named_calls.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/named_calls_state.hpp"
#include "gpu/plugin_loader.hpp"
#include "ring/agenda/elements.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"
#include "ring/group/checks.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::gpu {

using agenda::ArrayView;
using agenda::NamedCall;
using agenda::Verb;

class NamedCalls::Operation final : public agenda::DeviceOperation, public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<State> state, const NamedCall& request) : state_(std::move(state)), request_(request) {
    request_.name = {};
  }

  void wait_for_stream();
  void start(const std::string& key) override;
  bool when_done(std::function<void()> callback) override;
  bool done() override { return wait(Clock::now()); }
  bool wait(group::Until until) override;
  std::optional<Error> error() override {
    const MutexLock lock(mutex_);
    return error_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void check_places(const Device& device) const;
  bool wait_until_run(group::Until until);
  void run();
  void queue_calls();
  void queue(GpuGroup& gpus, const std::vector<std::size_t>& which);
  void make_neutral_tensors();
  bool has_ended();
  bool look();
  bool gives_up();
  void fail(const std::exception& why) {
    const auto* const error = dynamic_cast<const Error*>(&why);
    const MutexLock lock(mutex_);
    if (!error_) error_ = error ? *error : Error(ErrorCode::aborted, why.what());
  }

  const std::shared_ptr<State> state_;
  NamedCall request_;
  std::string key_;  // set by start()
  Event made_, queued_;
  bool has_run_ ANELLO_GUARDED_BY(state_->mutex) = false;
  Mutex mutex_;
  bool ended_ ANELLO_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ ANELLO_GUARDED_BY(mutex_);
  group::Until gives_up_at_ ANELLO_GUARDED_BY(mutex_);
};

// Records an event at the current end of the program's stream.
void NamedCalls::Operation::wait_for_stream() {
  const agenda::OnGpu& where = *request_.on_gpu;
  const std::string_view verb = agenda::name(request_.verb);
  GpuGroupAccess::Impl::check_stream(verb, where.stream);
  const Device device = state_->checked(where.device, verb);
  const DeviceGuard guard(device);
  check_places(device);
  refuse_capture(device, where.stream, verb);
  made_ = make_event(device);
  record(device, made_, where.stream);
  state_->choose(device);
}

void NamedCalls::Operation::check_places(const Device& device) const {
  for (const auto* const arrays : {&request_.inputs, &request_.outputs})
    for (const ArrayView& array : *arrays) {
      if (array.tensor().count == 0) continue;
      int place = -1;
      check(device, device.table->device_of(array.data, &place), "asking where a tensor is");
      if (place != int(device.id))
        group::refuse(agenda::name(request_.verb),
                      text("a tensor is ", place < 0 ? "in host memory" : text("on GPU ", place),
                           ", but the call says that it is on GPU ", int(device.id)));
    }
}

void NamedCalls::Operation::start(const std::string& key) {
  key_ = key;
  const MutexLock lock(state_->mutex);
  if (state_->executor) (void)state_->executor->submit([self = shared_from_this()] { self->run(); });
}

bool NamedCalls::Operation::when_done(std::function<void()> callback) {
  {
    const MutexLock lock(state_->mutex);
    if (state_->closed) return false;
    state_->watched.push_back([self = shared_from_this(), callback = std::move(callback)] {
      self->wait_until_run(std::nullopt);
      self->state_->ignore_captures();
      self->wait(std::nullopt);
      callback();
    });
  }
  state_->changed.notify_all();
  return true;
}

bool NamedCalls::Operation::wait_until_run(group::Until until) {
  MutexLock lock(state_->mutex);
  const auto has_run = [this]() ANELLO_REQUIRES(state_->mutex) { return has_run_ || state_->closed; };
  if (until) return state_->changed.wait_until(lock, *until, has_run);
  state_->changed.wait(lock, has_run);
  return true;
}

bool NamedCalls::Operation::wait(group::Until until) {
  if (!wait_until_run(until)) return false;
  for (int look = 0; !has_ended(); look++) {
    if (group::has_passed(until)) return false;
    pause_between_looks(look);
  }
  return true;
}

// Runs on the executor's thread. If queueing fails, has_ended() still waits for the work that was already queued. If
// the GpuGroup cannot be made, all ranks get that error. Any other error occurs only on this rank, so it aborts the
// world.
void NamedCalls::Operation::run() {
  try {
    queue_calls();
  } catch (const std::exception& error) {
    if (!state_->no_gpus && !state_->ranks.failure()) state_->ranks.abort(error.what());
    fail(error);
  }
  try {
    if (state_->stream) {
      const Device& device = GpuGroupAccess::impl(*state_->gpus).device();
      const DeviceGuard guard(device);
      queued_ = make_event(device);
      record(device, queued_, state_->stream.get());
    }
  } catch (const std::exception& error) {
    fail(error);
  }
  {
    const MutexLock lock(state_->mutex);
    has_run_ = true;
  }
  state_->changed.notify_all();
}

void NamedCalls::Operation::queue_calls() {
  if (const auto failure = state_->ranks.failure(); failure && !state_->no_gpus) throw Error(*failure);
  GpuGroup& gpus = state_->ready_group();
  const Device& device = GpuGroupAccess::impl(gpus).device();
  const DeviceGuard guard(device);
  if (made_)
    follow(device, state_->stream.get(), made_);
  else
    make_neutral_tensors();
  for (const std::vector<std::size_t>& which : agenda::by_dtype(request_.inputs)) queue(gpus, which);
}

// Call for a rank that has joined. Makes tensors of neutral elements.
void NamedCalls::Operation::make_neutral_tensors() {
  constexpr std::size_t kAlignment = 256;
  std::vector<std::byte> host;
  std::vector<std::size_t> places;
  for (const ArrayView& array : request_.inputs) {
    places.push_back(host.size());
    const std::size_t bytes = array.tensor().bytes();
    host.resize(host.size() + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  std::byte* const memory = state_->neutral_memory(host.size());
  for (std::size_t k = 0; k < places.size(); k++) {
    request_.inputs[k].data = host.data() + places[k];
    agenda::fill_neutral(request_.inputs[k].tensor(), request_.op);
    request_.inputs[k].data = memory + places[k];
  }
  copy(GpuGroupAccess::impl(*state_->gpus).device(), memory, host.data(), host.size(), state_->stream.get());
  // Waits for the copy, which must end before `host` is destroyed.
  GpuGroupAccess::impl(*state_->gpus).synchronize(state_->stream.get());
}

// All ranks must call the same function, with or without a list. For a list, the inputs are copied to the outputs, and
// the outputs are reduced in place.
void NamedCalls::Operation::queue(GpuGroup& gpus, const std::vector<std::size_t>& which) {
  const GpuStream stream = state_->stream.get();
  const std::vector<Tensor> inputs = tensors_of(request_.inputs, which);
  if (request_.verb == Verb::broadcast) return gpus.broadcast(inputs, request_.root, stream, {.name = key_});
  const bool in_place = request_.outputs.empty();
  const std::vector<Tensor> outputs = in_place ? inputs : tensors_of(request_.outputs, which);
  const ReduceOptions options{
      .name = key_, .wire = request_.wire, .prescale = request_.prescale, .postscale = request_.postscale};
  if (which.size() == 1) return gpus.allreduce(inputs[0], outputs[0], stream, request_.op, options);
  for (std::size_t k = 0; k < inputs.size() && !in_place; k++)
    copy(GpuGroupAccess::impl(gpus).device(), outputs[k].data, inputs[k].data, inputs[k].bytes(), stream);
  gpus.allreduce(outputs, stream, request_.op, options);
}

// The end of an operation is final: a later failure of the world does not change it.
bool NamedCalls::Operation::has_ended() {
  {
    const MutexLock lock(mutex_);
    if (ended_) return true;
  }
  if (!look()) return false;
  const MutexLock lock(mutex_);
  return ended_ = true;
}

// Checks the world's failure first, because the event is also done if the operation's communicator was aborted.
bool NamedCalls::Operation::look() {
  if (const auto failure = state_->world_failure()) fail(*failure);
  if (!queued_) {
    fail(Error(ErrorCode::aborted, "the agenda was closed, or this rank's world ended, before the operation was done"));
    return true;
  }
  const Device device = state_->chosen();
  const int status = device.table->event_query(queued_.get());
  if (status == ANELLO_GPU_NOT_READY) return gives_up();
  if (status != 0 && !error()) {
    const std::string why = text("GPU ", int(device.id), ": ", key_, ": ", device.table->describe(status));
    state_->ranks.abort(why);
    fail(Error(ErrorCode::device, why));
  }
  return true;
}

// After a failure the device may still use the tensors, and the program may free them next. So the operation still
// waits, but only for a limited time.
bool NamedCalls::Operation::gives_up() {
  const MutexLock lock(mutex_);
  if (!error_) return false;
  if (!gives_up_at_) gives_up_at_ = Clock::now() + kLastWait;
  return group::has_passed(gives_up_at_);
}

NamedCalls::NamedCalls(Group ranks, Makers makers)
    : state_(std::make_shared<State>(std::move(ranks), std::move(makers))) {
  state_->watcher = quiet_thread("named operations on a GPU", [state = state_] { state->watch(); });
}

NamedCalls::~NamedCalls() {
  close();
}

std::shared_ptr<agenda::DeviceOperation> NamedCalls::make(const NamedCall& request) {
  auto operation = std::make_shared<Operation>(state_, request);
  operation->wait_for_stream();
  return operation;
}

std::shared_ptr<agenda::DeviceOperation> NamedCalls::make_neutral(const NamedCall& request) {
  return std::make_shared<Operation>(state_, request);
}

void NamedCalls::choose(int device) {
  {
    const MutexLock lock(state_->mutex);
    if (state_->device) return;
  }
  state_->choose(state_->checked(device, "join"));
}

void NamedCalls::close() {
  state_->close();
}

// Agendas of different groups decide independently of each other, but on a GPU all ranks must make NCCL's calls in one
// order. So only the agenda of all ranks uses NCCL.
std::unique_ptr<agenda::DeviceCarrier> named_calls(World& world, const Group& same_ranks) {
  std::vector<int> all(std::size_t(same_ranks.size()));
  std::iota(all.begin(), all.end(), 0);
  const Group ranks = same_ranks.group(all);
  const bool is_part = ranks.size() < world.size();
  const std::string against_nccl =
      is_part ? "named operations of some ranks have no common order with those of all" : "";
  const std::string plugin = world::WorldMaker::settings(world).gpu_plugin;
  const auto table = [plugin]() -> const AnelloGpuTable& { return installed(plugin).table(); };
  const auto gpus = [&world, ranks, against_nccl](std::optional<int> device) {
    return GpuGroupAccess::make(world, ranks, {.device = device}, against_nccl);
  };
  return std::make_unique<NamedCalls>(ranks, NamedCalls::Makers{table, gpus});
}

}  // namespace anello::gpu
