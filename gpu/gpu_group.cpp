// Constructs a GpuGroup and chooses its backend. Its collectives are in gpu_collectives.cpp.
#include "gpu/gpu_group.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

#include "gpu/collective_check.hpp"
#include "gpu/or_abort.hpp"
#include "gpu/plugin_loader.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"
#include "ring/group/text_exchange.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello {
namespace {

using gpu::DeviceId;

// The facts about its GPU that a rank sends to the other ranks.
struct RankGpu {
  std::string uuid, bus_id;
  int nccl_version = 0;  // 0: this rank has no NCCL
  bool kernels = false;
  std::string no_nccl;  // why this rank has no NCCL
};

// Writes one field on each line. Only the last field may have several lines.
std::string encode(const RankGpu& gpu) {
  return text(gpu.uuid, '\n', gpu.bus_id, '\n', gpu.nccl_version, '\n', gpu.kernels, '\n', gpu.no_nccl);
}

RankGpu decode_rank_gpu(const std::string& encoded) {
  std::istringstream in(encoded);
  RankGpu gpu;
  std::getline(in, gpu.uuid);
  std::getline(in, gpu.bus_id);
  in >> gpu.nccl_version >> gpu.kernels;
  in.get();
  std::getline(in, gpu.no_nccl, '\0');
  return gpu;
}

gpu::Device find_device(const World& world, std::optional<int> wanted, const AnelloGpuTable& table) {
  const int count = gpu::device_count(table);
  const int number = wanted.value_or(world.local_rank() % count);
  if (number < 0 || number >= count)
    throw Error(ErrorCode::unsupported, text("GPU ", number, " was asked for; it must be one of 0 to ", count - 1));
  return {&table, DeviceId(number)};
}

// In an elastic job, the next world must not have a rank whose GPU cannot be used any more. An error of a kernel, such
// as an illegal address, stays until the process ends, and so does a communicator whose abort does not return.
void require_working(const gpu::Device& device) {
  constexpr int kMostLeftBehind = 8;
  const char* const remedy = "this process must be started again";
  if (const int left = gpu::NcclCommunicator::left_behind(); left >= kMostLeftBehind)
    throw Error(ErrorCode::device, text("GPU ", int(device.id), ": ", left, " communicators do not end; ", remedy));
  const gpu::DeviceGuard guard(device);
  const gpu::Stream stream = gpu::make_stream(device);
  const gpu::Event event = gpu::make_event(device);
  gpu::record(device, event, stream.get());
  const int status = device.table->event_query(event.get());
  if (status != ANELLO_GPU_NOT_READY) gpu::check(device, status, text("trying it out (", remedy, ")"));
}

const AnelloNcclTable* describe_self(const gpu::Device& device, RankGpu& mine) {
  AnelloGpuInfo info{};
  gpu::check(device, device.table->device_info(int(device.id), &info), "asking for its properties");
  mine.bus_id = info.bus_id;
  mine.uuid = info.uuid;
  const char* why_not = "";
  const AnelloNcclTable* const nccl = device.table->nccl(&why_not);
  if (nccl)
    nccl->version(&mine.nccl_version);
  else
    mine.no_nccl = why_not;
  return nccl;
}

// NCCL identifies GPUs by their bus id. So it refuses two instances of one GPU (MIG), although each instance has its
// own uuid.
bool shares(const RankGpu& a, const RankGpu& b, bool same_host) {
  return a.uuid == b.uuid || (same_host && a.bus_id == b.bus_id);
}

// Returns why NCCL cannot connect these ranks, with world ranks. Empty if NCCL can connect them.
std::string why_not_nccl(const World& world, std::span<const int> ranks, const std::vector<RankGpu>& all) {
  for (std::size_t i = 0; i < all.size(); i++) {
    const RankGpu& gpu = all[i];
    const int rank = ranks[i];
    if (gpu.nccl_version == 0) return text("rank ", rank, " has no NCCL: ", gpu.no_nccl);
    if (gpu.nccl_version != all[0].nccl_version)
      return text("rank ", ranks[0], " has NCCL ", gpu::nccl_version_text(all[0].nccl_version), ", rank ", rank, " ",
                  gpu::nccl_version_text(gpu.nccl_version));
    for (std::size_t before = 0; before < i; before++)
      if (shares(all[before], gpu, world.host(ranks[before]) == world.host(rank)))
        return text("ranks ", ranks[before], " and ", rank, " share GPU ", gpu.bus_id, " of ", world.host(rank));
  }
  return {};
}

}  // namespace

GpuGroup::Impl::Impl(const World& world, Group ranks, const Options& options, const FindTables& find_tables)
    : group_(std::move(ranks)), options_(options) {
  if (options.backend != "auto" && options.backend != "nccl" && options.backend != "staged")
    throw Error(ErrorCode::configuration,
                text("ANELLO_GPU_BACKEND must be one of auto, nccl, staged, not '", options.backend, "'"));
  // Memory may run out on only one rank, while the other ranks wait for it. So this error aborts the world.
  gpu::or_abort(group_, [&] { choose_backend(world, find_tables); });
}

void GpuGroup::Impl::choose_backend(const World& world, const FindTables& find_tables) {
  RankGpu mine;
  gpu::Nccl::Tables tables{};
  gpu::all_or_none(world, group_, [&] {
    const Tables loaded = find_tables();
    device_ = find_device(world, options_.device, *loaded.devices);
    gpu::or_abort(group_, [&] { require_working(device_); });
    tables = {describe_self(device_, mine), loaded.kernels};
    mine.kernels = loaded.kernels != nullptr;
  });
  std::vector<RankGpu> all;
  for (const std::string& each : group::gather_text(group_, encode(mine), {.name = "GPUs of all ranks"}))
    all.push_back(decode_rank_gpu(each));
  if (!std::ranges::all_of(all, &RankGpu::kernels)) tables.kernels = nullptr;
  kernels_ = tables.kernels;
  if (options_.backend == "staged")
    reason_ = "ANELLO_GPU_BACKEND=staged";
  else if (!take_single_rank())
    reason_ = options_.against_nccl.empty() ? why_not_nccl(world, group_.members(), all) : options_.against_nccl;
  if (options_.backend == "nccl" && !alone_ && !reason_.empty())
    throw Error(ErrorCode::configuration, text("ANELLO_GPU_BACKEND=nccl is not possible: ", reason_));
  if (reason_.empty()) reason_ = start_nccl(tables);
  if (reason_.empty()) reason_ = text("NCCL ", gpu::nccl_version_text(mine.nccl_version), ", and a GPU for each rank");
  log(Severity::info, text("GPU ", int(device_.id), ": ", backend(), ": ", reason_));
}

bool GpuGroup::Impl::take_single_rank() {
  if (group_.size() > 1 || options_.backend == "staged") return false;
  alone_ = std::make_unique<gpu::SingleRank>(group_, device_, kernels_);
  reason_ = "one rank, nothing travels";
  return true;
}

// If NCCL does not start on all ranks, returns the reason. With ANELLO_GPU_BACKEND=nccl, ends the world instead.
std::string GpuGroup::Impl::start_nccl(const gpu::Nccl::Tables& tables) {
  using gpu::NcclCommunicator;
  const bool strict = options_.backend == "nccl";
  std::string failure;
  try {
    nccl_ = std::make_unique<gpu::Nccl>(
        group_, device_, tables, options_.nccl, options_.compare,
        strict ? NcclCommunicator::StartFailure::ends_world : NcclCommunicator::StartFailure::is_thrown);
    if (strict) return {};
  } catch (const Error& error) {
    if (strict || group_.failure()) throw;
    failure = error.what();
  }
  const auto failures = group::gather_text(group_, failure, {.name = "whether NCCL has started"});
  for (int rank = 0; rank < group_.size(); rank++)
    if (const std::string& its = failures[std::size_t(rank)]; !its.empty()) {
      nccl_.reset();
      failure = text("NCCL does not start on rank ", group_.members()[std::size_t(rank)], ": ", its);
      log(Severity::warning, text("GPU ", int(device_.id), ": ", failure, "; tensors are staged through host memory"));
      return failure;
    }
  return {};
}

std::unique_ptr<GpuGroup::Impl> GpuGroup::Impl::split(int colour, int key) {
  std::unique_ptr<Impl> part(new Impl(group_.split(colour, key), *this));
  part->reason_ = reason_;
  part->take_single_rank();
  if (nccl_) part->nccl_ = nccl_->split(part->group_);
  return part;
}

std::unique_ptr<gpu::Staged> GpuGroup::Impl::another_staged() {
  return std::make_unique<gpu::Staged>(group_.split(0, group_.rank()), device_, options_.staged);
}

gpu::Collectives& GpuGroup::Impl::directly(GpuStream stream) {
  if (alone_) return *alone_;
  return nccl_ ? static_cast<gpu::Collectives&>(*nccl_) : staged(stream);
}

// cudaStreamPerThread is refused, because NCCL's own threads would then launch on their own default streams.
void GpuGroup::Impl::check_stream(std::string_view call, GpuStream stream) {
  constexpr std::uintptr_t kPerThread = 2;  // cudaStreamPerThread
  if (reinterpret_cast<std::uintptr_t>(stream) == kPerThread)
    group::refuse(call, "cudaStreamPerThread is another stream in each thread; give a stream that you made, or null");
}

gpu::Collectives& GpuGroup::Impl::staged(GpuStream stream) {
  gpu::Staged::check_stream(device_, stream);
  if (!staged_)
    gpu::or_abort(group_, [&] { staged_ = std::make_unique<gpu::Staged>(group_, device_, options_.staged); });
  return *staged_;
}

bool GpuGroup::Impl::in_host_memory(std::string_view verb, Tensors tensors) const {
  constexpr int kNowhere = -2, kHost = -1;
  int where = kNowhere;
  const void* asked = nullptr;
  // A tensor without elements may be anywhere, for example after the end of a buffer. So the place of such a tensor is
  // ignored, unless no tensor of the call has elements.
  const bool is_empty = std::ranges::all_of(tensors, [](const ConstTensor& tensor) { return tensor.count == 0; });
  for (const ConstTensor& tensor : tensors) {
    if (!tensor.data || tensor.data == asked || (tensor.count == 0 && !is_empty)) continue;
    asked = tensor.data;
    int device = kHost;
    if (const int status = device_.table->device_of(tensor.data, &device); status != 0)
      gpu::check(device_, status, text(verb, ": asking where a tensor is"));
    if (device != kHost && device != int(device_.id))
      group::refuse(verb, text("a tensor is on GPU ", device, ", but this rank's is GPU ", int(device_.id)));
    if (where != kNowhere && where != device)
      group::refuse(verb, "one tensor is in the GPU's memory, another in the host's; all must be in the same memory");
    where = device;
  }
  return where == kHost;
}

// In a list, the inputs are also the outputs. A call without a list allocates no memory here.
bool GpuGroup::Impl::in_host_memory(const group::Call& call) const {
  const std::string_view verb = name(call.kind);
  if (call.output.list().empty())
    return in_host_memory(verb, std::array<ConstTensor, 2>{gpu::tensor_of(call.input, call.dtype),
                                                           gpu::tensor_of(call.output, call.dtype)});
  const std::vector<Tensor> list = gpu::tensors_of(call.output, call.dtype);
  return in_host_memory(verb, std::vector<ConstTensor>(list.begin(), list.end()));
}

void GpuGroup::Impl::synchronize(GpuStream stream) {
  check_stream("synchronize", stream);
  const gpu::DeviceGuard guard(device_);
  gpu::refuse_capture(device_, stream, "synchronize");
  const gpu::Event done = gpu::make_event(device_);
  gpu::record(device_, done, stream);
  for (int look = 0;; look++) {
    const int status = device_.table->event_query(done.get());
    if (const auto failure = group_.failure()) throw *failure;
    if (status != ANELLO_GPU_NOT_READY) return gpu::check(device_, status, "synchronizing", stream);
    gpu::pause_between_looks(look);
  }
}

namespace {

GpuGroupAccess::Impl::Options options_of(World& world, const GpuOptions& options) {
  const Settings& settings = world::WorldMaker::settings(world);
  GpuGroupAccess::Impl::Options all;
  all.backend = settings.gpu_backend;
  if (settings.integrity != 0) all.against_nccl = "ANELLO_INTEGRITY=1, which NCCL cannot keep";
  if (settings.reproducible != 0) all.against_nccl = "ANELLO_REPRODUCIBLE=1, which NCCL cannot keep";
  all.staged.copy = settings.operation_limit;
  all.nccl.start = settings.start_timeout;
  all.nccl.operation = settings.operation_limit;
  all.compare = settings.gpu_check != 0;
  all.device = options.device;
  return all;
}

}  // namespace

GpuGroup GpuGroupAccess::make(World& world, const Group& ranks, const GpuOptions& options,
                              const std::string& against_nccl) {
  Impl::Options all = options_of(world, options);
  if (!against_nccl.empty()) all.against_nccl = against_nccl;
  GpuGroup made(std::make_unique<Impl>(world, ranks, all, [&] {
    const std::string& plugin = world::WorldMaker::settings(world).gpu_plugin;
    return Impl::Tables{&gpu::installed(plugin).table(), gpu::installed_kernels_if_any(plugin)};
  }));
  gpu::keep_out_of_host_calls(impl(made).device());
  return made;
}

GpuGroup::GpuGroup(World& world, const GpuOptions& options) : GpuGroup(world, world, options) {}
GpuGroup::GpuGroup(World& world, const Group& ranks, const GpuOptions& options)
    : GpuGroup(GpuGroupAccess::make(world, ranks, options, {})) {}
GpuGroup::GpuGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GpuGroup::GpuGroup(GpuGroup&&) noexcept = default;
GpuGroup& GpuGroup::operator=(GpuGroup&&) noexcept = default;
GpuGroup::~GpuGroup() = default;

int GpuGroup::device() const {
  return int(impl_->device().id);
}
std::string_view GpuGroup::backend() const {
  return impl_->backend();
}
const std::string& GpuGroup::reason() const {
  return impl_->reason();
}
const Group& GpuGroup::group() const {
  return impl_->group();
}
GpuGroup GpuGroup::split(int colour, int key) {
  return GpuGroup(impl_->split(colour, key));
}
void GpuGroup::synchronize(GpuStream stream) {
  impl_->synchronize(stream);
}
void GpuGroup::barrier(GpuStream stream, const Options& options) {
  impl_->synchronize(stream);
  impl_->group().barrier(options);
}
void GpuGroup::abort(std::string_view reason) {
  impl_->group().abort(reason);
}
std::optional<Error> GpuGroup::failure() const {
  return impl_->group().failure();
}

}  // namespace anello
