#include "gpu/named_calls.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/gpu_group.hpp"
#include "gpu/plugin_loader.hpp"
#include "gpu/serial_executor.hpp"
#include "ring/agenda/elements.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::gpu {

using agenda::ArrayView;
using agenda::Request;
using agenda::Verb;

// What the operations share.
struct NamedCalls::Lane {
  Lane(Group its_ranks, Makers its_makers) : ranks(std::move(its_ranks)), makers(std::move(its_makers)) {}

  Device checked(int number, std::string_view verb);
  void choose(const Device& its);
  GpuGroup& ready_group();
  std::byte* neutral_memory(std::size_t bytes);
  std::optional<Error> world_failure();
  void close();
  void close_device();

  Group ranks;
  const Makers makers;
  std::mutex mutex;  // guards the next members up to the empty line, and which operations have run
  std::condition_variable changed;
  std::optional<Device> device;
  std::unique_ptr<SerialExecutor<void>> executor = std::make_unique<SerialExecutor<void>>();  // null: closing
  bool closed = false;
  std::optional<Error> failure_at_close;

  // Used by the executor's thread, and by close() when that has ended.
  std::optional<GpuGroup> gpus;
  std::optional<Error> no_gpus;  // why it could not be made, on all ranks
  Stream stream;
  std::vector<DeviceMemory> neutral;  // to free some would wait for all of the device's work
  std::size_t neutral_bytes = 0;      // of the last
};

// All operations use one GPU: ranks cannot agree on an order of several.
Device NamedCalls::Lane::checked(int number, std::string_view verb) {
  const Device its{&makers.table(), DeviceId(number)};
  const std::lock_guard lock(mutex);
  if (device && device->id != its.id)
    group::refuse(verb, text("a tensor is on GPU ", number, ", but those before were on GPU ", int(device->id),
                             "; a rank's named operations use one GPU: copy the tensor there"));
  if (const int count = device ? 0 : device_count(*its.table); !device && (number < 0 || number >= count))
    group::refuse(verb, text("GPU ", number, " was asked for; it must be one of 0 to ", count - 1));
  return its;
}

void NamedCalls::Lane::choose(const Device& its) {
  const std::lock_guard lock(mutex);
  if (!device) device = its;
}

GpuGroup& NamedCalls::Lane::ready_group() {
  if (no_gpus) throw Error(*no_gpus);
  if (gpus) return *gpus;
  std::optional<int> number;
  {
    const std::lock_guard lock(mutex);
    if (device) number = int(device->id);
  }
  try {
    gpus.emplace(makers.gpus(number));
  } catch (const Error& error) {
    no_gpus = error;
    throw;
  }
  const Device& its = GpuGroupAccess::impl(*gpus).device();
  its.table->ignore_captures();
  stream = make_stream(its, Priority::urgent);
  const std::lock_guard lock(mutex);
  device = its;
  return *gpus;
}

std::byte* NamedCalls::Lane::neutral_memory(std::size_t bytes) {
  if (bytes > neutral_bytes) {
    neutral_bytes = std::max(bytes, 2 * neutral_bytes);
    neutral.push_back(make_memory(GpuGroupAccess::impl(*gpus).device(), neutral_bytes));
  }
  return neutral.empty() ? nullptr : static_cast<std::byte*>(neutral.back().get());
}

void NamedCalls::Lane::close() {
  std::unique_ptr<SerialExecutor<void>> last;
  {
    const std::lock_guard lock(mutex);
    last = std::move(executor);
  }
  if (!last) return;
  last.reset();
  {
    const std::lock_guard lock(mutex);
    closed = true;
    failure_at_close = ranks.failure();
  }
  changed.notify_all();
  gpus.reset();
  if (stream) close_device();
  GroupAccess::end(ranks, false);
}

// Once the group has ended, it says so itself.
std::optional<Error> NamedCalls::Lane::world_failure() {
  const std::lock_guard lock(mutex);
  return closed ? failure_at_close : ranks.failure();
}

// Memory that the device may still use is leaked: to free it could block for ever.
void NamedCalls::Lane::close_device() {
  try {
    const DeviceGuard guard(*device);
    const Event done = make_event(*device);
    record(*device, done, stream.get());
    gpu::wait(*device, done, kLastWait, "the last named operations");
  } catch (const Error&) {
    for (DeviceMemory& memory : neutral) memory.leak();
  }
}

class NamedCalls::Operation final : public agenda::DeviceOperation, public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<Lane> lane, const Request& request) : lane_(std::move(lane)), request_(request) {
    request_.name = {};
  }

  void wait_for_stream();
  void start(const std::string& key) override;
  bool done() override { return wait(Clock::now()); }
  bool wait(group::Until until) override;
  std::optional<Error> error() override {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void check_places(const Device& device) const;
  void run();
  void queue_calls();
  void queue(GpuGroup& gpus, const std::vector<std::size_t>& which);
  void make_neutral_tensors();
  bool has_ended();
  bool look();
  bool gives_up();
  void fail(Error why) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(why);
  }

  const std::shared_ptr<Lane> lane_;
  Request request_;
  std::string key_;  // from start() on
  Event made_, queued_;
  bool has_run_ = false;  // guarded by the lane's mutex
  std::mutex mutex_;      // guards the next members
  bool ended_ = false;
  std::optional<Error> error_;
  group::Until gives_up_at_;
};

// Records where the program's stream is now.
void NamedCalls::Operation::wait_for_stream() {
  const agenda::OnGpu& where = *request_.on_gpu;
  const std::string_view verb = agenda::name(request_.verb);
  GpuGroupAccess::Impl::check_stream(verb, where.stream);
  const Device device = lane_->checked(where.device, verb);
  const DeviceGuard guard(device);
  check_places(device);
  refuse_capture(device, where.stream, verb);
  made_ = make_event(device);
  record(device, made_, where.stream);
  lane_->choose(device);
}

void NamedCalls::Operation::check_places(const Device& device) const {
  for (const auto* const arrays : {&request_.inputs, &request_.outputs})
    for (const ArrayView& array : *arrays) {
      if (array.tensor().count == 0) continue;
      int place = -1;
      check(device, device.table->device_of(array.data, &place), "asking where a tensor is");
      if (place != int(device.id))
        group::refuse(agenda::name(request_.verb),
                      text("a tensor lies ", place < 0 ? "in host memory" : text("on GPU ", place),
                           ", but the call says that it lies on GPU ", int(device.id)));
    }
}

void NamedCalls::Operation::start(const std::string& key) {
  key_ = key;
  const std::lock_guard lock(lane_->mutex);
  if (lane_->executor) (void)lane_->executor->submit([self = shared_from_this()] { self->run(); });
}

bool NamedCalls::Operation::wait(group::Until until) {
  {
    std::unique_lock lock(lane_->mutex);
    const auto has_run = [this] { return has_run_ || lane_->closed; };
    if (!until)
      lane_->changed.wait(lock, has_run);
    else if (!lane_->changed.wait_until(lock, *until, has_run))
      return false;
  }
  for (int look = 0; !has_ended(); look++) {
    if (group::has_passed(until)) return false;
    pause_between_looks(look);
  }
  return true;
}

// By the executor's thread. What was queued before an error is waited for too. That a GpuGroup cannot be made is known
// to all ranks; another error only to this one.
void NamedCalls::Operation::run() {
  try {
    queue_calls();
  } catch (const std::exception& error) {
    if (!lane_->no_gpus && !lane_->ranks.failure()) lane_->ranks.abort(error.what());
    const auto* const known = dynamic_cast<const Error*>(&error);
    fail(known ? Error(*known) : Error(ErrorCode::aborted, error.what()));
  }
  try {
    if (lane_->stream) {
      const Device& device = GpuGroupAccess::impl(*lane_->gpus).device();
      const DeviceGuard guard(device);
      queued_ = make_event(device);
      record(device, queued_, lane_->stream.get());
    }
  } catch (const Error& error) {
    fail(error);
  }
  {
    const std::lock_guard lock(lane_->mutex);
    has_run_ = true;
  }
  lane_->changed.notify_all();
}

void NamedCalls::Operation::queue_calls() {
  if (const auto failure = lane_->ranks.failure()) throw Error(*failure);
  GpuGroup& gpus = lane_->ready_group();
  const Device& device = GpuGroupAccess::impl(gpus).device();
  const DeviceGuard guard(device);
  if (made_)
    follow(device, lane_->stream.get(), made_);
  else
    make_neutral_tensors();
  for (const std::vector<std::size_t>& which : agenda::by_dtype(request_.inputs)) queue(gpus, which);
}

// For a rank that has joined.
void NamedCalls::Operation::make_neutral_tensors() {
  constexpr std::size_t kAlignment = 256;
  std::vector<std::byte> host;
  std::vector<std::size_t> places;
  for (const ArrayView& array : request_.inputs) {
    places.push_back(host.size());
    const std::size_t bytes = array.tensor().bytes();
    host.resize(host.size() + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  std::byte* const memory = lane_->neutral_memory(host.size());
  for (std::size_t k = 0; k < places.size(); k++) {
    request_.inputs[k].data = host.data() + places[k];
    agenda::fill_neutral(request_.inputs[k].tensor(), request_.op);
    request_.inputs[k].data = memory + places[k];
  }
  copy(GpuGroupAccess::impl(*lane_->gpus).device(), memory, host.data(), host.size(), lane_->stream.get());
  GpuGroupAccess::impl(*lane_->gpus).synchronize(lane_->stream.get());  // `host` ends here
}

// All ranks take the same form of the call: outputs of a list are copies of the inputs, which are reduced in place.
void NamedCalls::Operation::queue(GpuGroup& gpus, const std::vector<std::size_t>& which) {
  const GpuStream stream = lane_->stream.get();
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

// An end that was seen stays: a later failure of the world does not change it.
bool NamedCalls::Operation::has_ended() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return true;
  }
  if (!look()) return false;
  const std::lock_guard lock(mutex_);
  return ended_ = true;
}

// The event of an operation whose communicator is aborted comes too, so the world's failure counts more than it.
bool NamedCalls::Operation::look() {
  if (const auto failure = lane_->world_failure()) fail(*failure);
  if (!queued_) {
    fail({ErrorCode::aborted, "the agenda, or this rank's world, has ended"});
    return true;
  }
  const Device& device = *lane_->device;  // which does not change once there is an event
  const int status = device.table->event_query(queued_.get());
  if (status == ANELLO_GPU_NOT_READY) return gives_up();
  if (status != 0 && !error()) {
    const std::string why = text("GPU ", int(device.id), ": ", key_, ": ", device.table->describe(status));
    lane_->ranks.abort(why);
    fail({ErrorCode::device, why});
  }
  return true;
}

// After a failure the device may still use the tensors, which the program may free: that is waited for, but not for
// ever.
bool NamedCalls::Operation::gives_up() {
  const std::lock_guard lock(mutex_);
  if (!error_) return false;
  if (!gives_up_at_) gives_up_at_ = Clock::now() + kLastWait;
  return group::has_passed(gives_up_at_);
}

NamedCalls::NamedCalls(Group ranks, Makers makers)
    : lane_(std::make_shared<Lane>(std::move(ranks), std::move(makers))) {}

NamedCalls::~NamedCalls() {
  close();
}

std::shared_ptr<agenda::DeviceOperation> NamedCalls::make(const Request& request) {
  auto operation = std::make_shared<Operation>(lane_, request);
  operation->wait_for_stream();
  return operation;
}

std::shared_ptr<agenda::DeviceOperation> NamedCalls::make_neutral(const Request& request) {
  return std::make_shared<Operation>(lane_, request);
}

void NamedCalls::choose(int device) {
  {
    const std::lock_guard lock(lane_->mutex);
    if (lane_->device) return;
  }
  lane_->choose(lane_->checked(device, "join"));
}

void NamedCalls::close() {
  lane_->close();
}

// Agendas decide independently, and NCCL's calls on a GPU must have one order on all ranks: so the agenda of all ranks
// uses it, and those of some ranks do not.
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
