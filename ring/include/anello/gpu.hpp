// Collectives on tensors in GPU memory: the verbs of Group, and a stream. NCCL carries them out where it can, that is,
// where each rank has a GPU of its own; where ranks share one, or there is no NCCL, they go through pinned host memory
// and the group's own algorithms ("staged"). Both are loaded when a GpuGroup is made: programs are built without CUDA,
// and without a GPU they are told what is missing.
//
// A stream is a cudaStream_t, or null for the default one. What was queued on it before a call is waited for, and what
// is queued after it finds the result; the host may look at one after synchronize(). Calls return when everything is
// queued: with NCCL that is soon, but for the first of a kind, which waits for the peers to connect, and for parts of
// unequal counts in alltoall, which ranks compare first; staged, it is when the result's last copy is queued. Tensors
// are all in the memory of this rank's GPU, on all ranks, or all in host memory: then the call is that of Group, once
// the stream has come to it. A null pointer is taken for the GPU's: a rank without elements in a call of host memory
// gives a pointer into that all the same. A call may leave this rank's GPU as the thread's current device.
//
// Ranks call the same in the same order, as in a Group. One thread at a time. Errors are those of Group, and
// Error{device} with call, device and stream. NCCL itself differs in this: f16 and bf16 are added as such, min and max
// ignore NaN, and results are the same from run to run only on the same hardware.
#pragma once
#include <anello/export.h>
#include <anello/world.hpp>
#include <memory>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

struct GpuOptions {
  int device =
      -1;  // which of those that the process sees; -1: this rank's number on its host, modulo how many there are
};

class GpuGroup {
 public:
  // All ranks of the world call. Blocks until all are there, ANELLO_START_TIMEOUT at most. Throws on all ranks
  // Error{unsupported}, which says what one of them lacks, and how to get it; Error{configuration} if
  // ANELLO_GPU_BACKEND asks for what cannot be. The world must outlive it.
  explicit GpuGroup(World& world, const GpuOptions& options = {});
  GpuGroup(GpuGroup&&) noexcept;
  GpuGroup& operator=(GpuGroup&&) noexcept;
  // What was queued and not waited for has five seconds to be done; then it is ended, and said so in the log.
  ~GpuGroup();

  int device() const;
  std::string_view backend() const;         // "nccl" or "staged"; single calls that NCCL has no kernels for are staged
  const std::string& reason() const;        // why that one
  const Group& group() const;               // the same ranks, for host memory
  GpuGroup split(int colour, int key = 0);  // as Group's

  void allreduce(Tensor inout, void* stream, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(std::span<const Tensor> list, void* stream, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(ConstTensor input, Tensor output, void* stream, Op op = Op::sum, const ReduceOptions& options = {});
  void reduce(Tensor inout, int root, void* stream, Op op = Op::sum, const ReduceOptions& options = {});
  void reduce(ConstTensor input, Tensor output, int root, void* stream, Op op = Op::sum,
              const ReduceOptions& options = {});
  void broadcast(Tensor tensor, int root, void* stream, const Options& options = {});
  void broadcast(std::span<const Tensor> list, int root, void* stream, const Options& options = {});
  void allgather(ConstTensor input, Tensor output, void* stream, const PartOptions& options = {});
  void gather(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options = {});
  void scatter(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options = {});
  void reduce_scatter(ConstTensor input, Tensor output, void* stream, Op op = Op::sum,
                      const ReduceOptions& options = {});
  void alltoall(ConstTensor input, Tensor output, void* stream, const Options& options = {});
  void alltoall(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                std::span<const std::uint64_t> recv_counts, void* stream, const Options& options = {});
  void send(ConstTensor tensor, int to, void* stream, const Options& options = {});
  void recv(Tensor tensor, int from, void* stream, const Options& options = {});

  // Blocks until everything that has been queued on the stream is done. Throws the world's failure, also while it
  // waits; what is in the tensors is worth nothing then.
  void synchronize(void* stream);

  class Impl;  // the library's own, as is this constructor
  explicit GpuGroup(std::unique_ptr<Impl> impl);

 private:
  friend class GpuGradients;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
