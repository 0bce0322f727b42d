// What a GpuGroup is made of: its ranks, this rank's GPU, and one or both ways of moving what is on it.
#pragma once
#include <anello/gpu.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/nccl.hpp"
#include "gpu/staged.hpp"

namespace anello {

class GpuGroup::Impl {
 public:
  struct Options {
    std::string backend = "auto";  // as ANELLO_GPU_BACKEND
    gpu::Staged::Limits staged;
    gpu::Communicator::Limits nccl;
    bool compare = false;
    int device = -1;
  };
  struct Tables {
    const AnelloGpuTable* devices;
    const AnelloKernelTable* kernels = nullptr;  // there may be none
  };
  // Finds them; throws Error{unsupported} that says what is missing.
  using Load = std::function<Tables()>;

  // All ranks of the world call. Throws as GpuGroup's constructor.
  Impl(World& world, const Options& options, const Load& load);
  std::unique_ptr<Impl> split(int colour, int key);
  // For the same ranks, and for another thread. All of them call.
  std::unique_ptr<gpu::Staged> another_staged();

  Group& group() { return group_; }
  const gpu::Device& device() const { return device_; }
  bool uses_nccl() const { return nccl_ != nullptr; }
  const std::string& reason() const { return reason_; }
  void synchronize(void* stream);

  // Where the tensors are: on this rank's GPU, or, if `on_host` is called, in host memory. Null ones are nowhere.
  // Throws Error{invalid_argument} if they are not together.
  using Tensors = std::vector<ConstTensor>;
  template <class OnGpu, class OnHost>
  void carry_out(std::string_view verb, const Tensors& tensors, bool by_nccl, void* stream, OnGpu on_gpu,
                 OnHost on_host) {
    if (in_host_memory(verb, tensors)) {
      synchronize(stream);
      on_host(group_);
    } else {
      on_gpu(nccl_ && by_nccl ? static_cast<gpu::Collectives&>(*nccl_) : staged());
    }
  }
  bool nccl_can(Kind kind, DType dtype, Op op, const ReduceOptions& options) const {
    return nccl_ && nccl_->can(kind, dtype, op, options);
  }

 private:
  Impl(Group group, const Impl& parent)
      : group_(std::move(group)), options_(parent.options_), device_(parent.device_) {}
  gpu::Collectives& staged();
  bool in_host_memory(std::string_view verb, const Tensors& tensors) const;

  Group group_;
  Options options_;
  gpu::Device device_;
  std::string reason_;
  std::unique_ptr<gpu::Nccl> nccl_;
  std::unique_ptr<gpu::Staged> staged_;  // from its first use on
};

}  // namespace anello
