#include "gpu/named_calls.hpp"

#include <anello/error.hpp>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gpu/gpu_group.hpp"
#include "gpu/plugin_loader.hpp"
#include "gpu/serial_executor.hpp"
#include "ring/agenda/elements.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::gpu {

using agenda::Request;
using agenda::Verb;

// What the operations share. The executor's thread alone uses the GpuGroup and the stream.
struct NamedCalls::Lane {
  Lane(Group its_ranks, Makers its_makers) : ranks(std::move(its_ranks)), makers(std::move(its_makers)) {}

  Device device_of(const Request& request);
  GpuGroup& ready_group();
  void close();

  Group ranks;
  const Makers makers;
  std::mutex mutex;  // guards the next members, and which operations have been queued
  std::condition_variable changed;
  std::optional<Device> device;
  std::unique_ptr<SerialExecutor<void>> executor = std::make_unique<SerialExecutor<void>>();  // null: closing
  bool closed = false;

  std::optional<GpuGroup> gpus;
  std::optional<Error> no_gpus;  // why it could not be made, on all ranks
  Stream stream;
};

// All operations use one GPU: ranks cannot agree on an order of several.
Device NamedCalls::Lane::device_of(const Request& request) {
  const Device its{&makers.table(), DeviceId(request.on_gpu->device)};
  const std::lock_guard lock(mutex);
  if (!device) device = its;
  if (device->id != its.id)
    group::refuse(agenda::name(request.verb),
                  text("a tensor is on GPU ", int(its.id), ", but those before were on GPU ", int(device->id),
                       "; a rank's named operations use one GPU"));
  return its;
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
  const std::lock_guard lock(mutex);
  device = GpuGroupAccess::impl(*gpus).device();
  stream = make_stream(*device, Priority::urgent);
  return *gpus;
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
  }
  changed.notify_all();
  gpus.reset();
  GroupAccess::end(ranks, false);
}

class NamedCalls::Operation final : public agenda::DeviceOperation, public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<Lane> lane, const Request& request)
      : lane_(std::move(lane)), request_(request), name_(request.name) {
    request_.name = name_;
  }

  // Records where the program's stream is now.
  void wait_for_stream() {
    const OnGpu& where = *request_.on_gpu;
    const std::string_view verb = agenda::name(request_.verb);
    GpuGroupAccess::Impl::check_stream(verb, where.stream);
    const Device device = lane_->device_of(request_);
    const DeviceGuard guard(device);
    refuse_capture(device, where.stream, verb);
    made_ = make_event(device);
    record(device, made_, where.stream);
  }

  void start() override {
    const std::lock_guard lock(lane_->mutex);
    if (lane_->executor) (void)lane_->executor->submit([self = shared_from_this()] { self->run(); });
  }

  bool done() override { return wait(Clock::now()); }

  bool wait(group::Until until) override {
    {
      std::unique_lock lock(lane_->mutex);
      const auto is_queued = [this] { return has_run_ || lane_->closed; };
      if (!until)
        lane_->changed.wait(lock, is_queued);
      else if (!lane_->changed.wait_until(lock, *until, is_queued))
        return false;
    }
    for (int look = 0; !has_ended(); look++) {
      if (group::has_passed(until)) return false;
      if (look < kEagerLooks)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kNap);
    }
    return true;
  }

  std::optional<Error> error() override {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  using OnGpu = agenda::OnGpu;
  using Clock = std::chrono::steady_clock;
  static constexpr int kEagerLooks = 200;
  static constexpr std::chrono::microseconds kNap{20};

  void run();
  void try_to_queue();
  void queue(GpuGroup& gpus);
  void make_neutral_tensors(const Device& device);
  bool has_ended();
  void fail(Error why) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(why);
  }

  const std::shared_ptr<Lane> lane_;
  Request request_;
  const std::string name_;
  std::vector<DeviceMemory> neutral_;
  Event made_, queued_;
  bool has_run_ = false;  // guarded by the lane's mutex
  std::mutex mutex_;      // guards the next
  std::optional<Error> error_;
};

// By the executor's thread.
void NamedCalls::Operation::run() {
  try_to_queue();
  {
    const std::lock_guard lock(lane_->mutex);
    has_run_ = true;
  }
  lane_->changed.notify_all();
}

// That a GpuGroup cannot be made is known to all ranks; another error only to this one.
void NamedCalls::Operation::try_to_queue() {
  try {
    GpuGroup& gpus = lane_->ready_group();
    const Device& device = GpuGroupAccess::impl(gpus).device();
    const DeviceGuard guard(device);
    if (!request_.on_gpu) make_neutral_tensors(device);
    if (made_) follow(device, lane_->stream.get(), made_);
    queue(gpus);
    queued_ = make_event(device);
    record(device, queued_, lane_->stream.get());
  } catch (const Error& error) {
    if (!lane_->no_gpus && !lane_->ranks.failure()) lane_->ranks.abort(error.what());
    fail(error);
  } catch (const std::exception& error) {
    lane_->ranks.abort(error.what());
    fail({ErrorCode::aborted, error.what()});
  }
}

void NamedCalls::Operation::make_neutral_tensors(const Device& device) {
  for (agenda::ArrayView& array : request_.inputs) {
    std::vector<std::byte> host(array.tensor().bytes());
    array.data = host.data();
    agenda::fill_neutral(array.tensor(), request_.op);
    neutral_.push_back(make_memory(device, host.size()));
    array.data = neutral_.back().get();
    copy(device, array.data, host.data(), host.size(), lane_->stream.get());
    GpuGroupAccess::impl(*lane_->gpus).synchronize(lane_->stream.get());
  }
}

void NamedCalls::Operation::queue(GpuGroup& gpus) {
  const GpuStream stream = lane_->stream.get();
  const bool in_place = request_.outputs.empty();
  for (const std::vector<std::size_t>& which : agenda::by_dtype(request_.inputs)) {
    const std::vector<Tensor> inputs = tensors_of(request_.inputs, which);
    if (request_.verb == Verb::broadcast) {
      gpus.broadcast(inputs, request_.root, stream, {.name = name_});
      continue;
    }
    const std::vector<Tensor> outputs = in_place ? inputs : tensors_of(request_.outputs, which);
    for (std::size_t k = 0; k < inputs.size() && !in_place; k++)
      copy(GpuGroupAccess::impl(gpus).device(), outputs[k].data, inputs[k].data, inputs[k].bytes(), stream);
    gpus.allreduce(
        outputs, stream, request_.op,
        {.name = name_, .wire = request_.wire, .prescale = request_.prescale, .postscale = request_.postscale});
  }
}

// An operation that is aborted ends on the device too, so the world's failure counts more than the event.
bool NamedCalls::Operation::has_ended() {
  if (error()) return true;
  if (!queued_) {
    fail({ErrorCode::aborted, "the agenda, or this rank's world, has ended"});
    return true;
  }
  const Device& device = *lane_->device;
  const int status = device.table->event_query(queued_.get());
  if (const auto failure = lane_->ranks.failure())
    fail(*failure);
  else if (status == ANELLO_GPU_NOT_READY)
    return false;
  else if (status != 0)
    fail({ErrorCode::device, text("GPU ", int(device.id), ": ", name_, ": ", device.table->describe(status))});
  return true;
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
