// The state of a GpuGroup: its ranks, this rank's GPU, and the backends that move tensors on this GPU.
#pragma once
#include <anello/gpu.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/collectives.hpp"
#include "gpu/nccl.hpp"
#include "gpu/single_rank.hpp"
#include "gpu/staged.hpp"

namespace anello {

class GpuGroup::Impl {
 public:
  struct Options {
    std::string backend = "auto";  // a value of ANELLO_GPU_BACKEND
    std::string against_nccl;      // why NCCL must not be used, for error messages; empty: NCCL may be used
    gpu::Staged::Limits staged;
    gpu::NcclCommunicator::Limits nccl;
    bool compare = false;  // a value of ANELLO_GPU_CHECK
    std::optional<int> device = {};
  };
  struct Tables {
    const AnelloGpuTable* devices;
    const AnelloKernelTable* kernels = nullptr;  // null if the plugin for kernels is not loaded
  };
  using Tensors = std::span<const ConstTensor>;
  // Finds the plugins. If one is missing, throws Error{unsupported} that names it.
  using FindTables = std::function<Tables()>;

  // Collective: every rank of `ranks`, a group of ranks of `world`, calls this constructor. Throws like GpuGroup's
  // constructor.
  Impl(const World& world, Group ranks, const Options& options, const FindTables& find_tables);
  std::unique_ptr<Impl> split(int colour, int key);
  // Makes a staged backend with the same ranks, for another thread. Collective: all ranks call this.
  std::unique_ptr<gpu::Staged> another_staged();

  Group& group() { return group_; }
  const gpu::Device& device() const { return device_; }
  std::string_view backend() const { return alone_ ? "single" : nccl_ ? "nccl" : "staged"; }
  const std::string& reason() const { return reason_; }
  void synchronize(GpuStream stream);
  // Frees memory, or ends a registration.
  using End = std::function<void()>;
  std::pair<void*, End> allocate(std::size_t bytes);
  End register_memory(void* memory, std::size_t bytes);

  // If the tensors are in this rank's GPU memory, carries out the call there. If they are in host memory, synchronizes
  // the stream and carries out the call as Group does. Ignores null pointers. Throws Error{invalid_argument} if the
  // tensors are in different places, or if the stream cannot be used.
  void carry_out(const group::Call& call, GpuStream stream);
  // Chooses the memory of a transfer as carry_out() does. Calls on_gpu(backend) or on_host(group).
  template <class OnGpu, class OnHost>
  void transfer(std::string_view verb, Tensors tensors, GpuStream stream, OnGpu on_gpu, OnHost on_host) {
    check_stream(verb, stream);
    // Without this guard, a query about memory would initialize the thread's current device.
    const gpu::DeviceGuard guard(device_);
    if (!in_host_memory(verb, tensors)) return on_gpu(directly(stream));
    synchronize(stream);
    on_host(group_);
  }
  // True if this call needs no host memory. The result does not depend on the call's tensors, and is equal on all
  // ranks.
  bool can_directly(const group::Call& call) const { return alone_ ? alone_->can(call) : nccl_ && nccl_->can(call); }
  static void check_stream(std::string_view call, GpuStream stream);

 private:
  Impl(Group group, const Impl& parent)
      : group_(std::move(group)), options_(parent.options_), device_(parent.device_), kernels_(parent.kernels_) {}
  void choose_backend(const World& world, const FindTables& find_tables);
  bool take_single_rank();
  std::string start_nccl(const gpu::Nccl::Tables& tables);
  gpu::Collectives& directly(GpuStream stream);
  gpu::Collectives& staged(GpuStream stream);
  bool in_host_memory(std::string_view verb, Tensors tensors) const;
  bool in_host_memory(const group::Call& call) const;
  gpu::NcclCommunicator& registering();

  Group group_;
  Options options_;
  gpu::Device device_;
  const AnelloKernelTable* kernels_ = nullptr;  // null if any rank has no kernels
  std::string reason_;
  std::unique_ptr<gpu::SingleRank> alone_;  // set in a group of one rank
  std::unique_ptr<gpu::Nccl> nccl_;
  std::unique_ptr<gpu::Staged> staged_;  // made by the first call that needs it
};

// Members of GpuGroup that are for the engine's rooms and for tests, but not for users.
class GpuGroupAccess {
 public:
  using Impl = GpuGroup::Impl;
  static GpuGroup make(std::unique_ptr<Impl> impl) { return GpuGroup(std::move(impl)); }
  // Like the public constructor; `against_nccl`: see Impl::Options.
  static GpuGroup make(World& world, const Group& ranks, const GpuOptions& options, const std::string& against_nccl);
  static Impl& impl(GpuGroup& group) { return *group.impl_; }
};

}  // namespace anello
