// Collectives on tensors in GPU memory: those of Group, with a stream. There are three backends. "nccl": every rank has
// its own GPU, and NCCL carries out the calls. "staged": tensors go through pinned host memory and the group's own
// algorithms, because ranks share a GPU, NCCL is missing or does not start, or a setting needs what NCCL does not do
// (ANELLO_REPRODUCIBLE, ANELLO_INTEGRITY). "single": the group has one rank, and calls are copies on the device. CUDA
// and NCCL are loaded when a GpuGroup is made: programs are built without CUDA, and on a machine without a GPU the
// error says what is missing.
//
// A stream is a cudaStream_t, or null for the legacy default stream of this rank's GPU, also in a program that is built
// with --default-stream per-thread; cudaStreamPerThread is refused. A call waits for the work that was queued on the
// stream before, and work that is queued later sees the result. The host may read a result after synchronize(). A call
// returns when everything is queued. With NCCL a call returns soon, with two exceptions: the first call of a kind waits
// until the peers have connected, and for alltoall with counts the ranks first compare the counts. Staged calls block
// until the result's last copy is queued.
//
// While a stream is captured into a CUDA graph, calls of "nccl" and "single" go into the graph. Such calls are neither
// recorded nor watched, and alltoall compares its counts only once, at the capture. During a capture, calls in which
// the host takes part are refused with Error{unsupported}, and the world goes on. These are synchronize(), calls on
// tensors in host memory, and staged calls, including calls that "nccl" and "single" stage because they cannot carry
// them out. With "nccl", these are refused as well: calls with `wire`; calls with `prescale`, if libanello_kernels.so
// is loaded; and all calls if ANELLO_OPERATION_LIMIT or ANELLO_GPU_CHECK is set.
//
// In one call either all ranks give tensors in the memory of their own GPU, or all give tensors in host memory. For
// host memory the call synchronizes the stream, and then does what Group does. A null pointer counts as GPU memory: in
// a call on host memory, a rank without elements must still give a pointer into host memory. A call may make this
// rank's GPU the thread's current device. A GpuGroup uses one GPU; a rank with several may make a GpuGroup for each.
//
// A Group refuses tensors in GPU memory. It asks CUDA only once for each 64 KiB of addresses. So if host memory has
// been unmapped, and GPU memory gets the same address later, the Group does not notice it.
//
// As in a Group, ranks must make the same calls in the same order. This also holds across several GpuGroups on one GPU,
// because a GPU carries out their calls in that order, on any streams. One thread at a time. No GpuGroup may be used in
// a child that fork() made. Errors are those of Group, and Error{device} with the CUDA call, the device and the stream.
// NCCL differs from Group: it adds f16 and bf16 in their own type (averages are divided in f32), its min and max ignore
// NaN, and results are the same from run to run only on the same hardware.
#pragma once
#include <anello/export.h>
#include <anello/world.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct CUstream_st;

ANELLO_API_BEGIN
namespace anello {

using GpuStream = CUstream_st*;  // the same type as cudaStream_t, without CUDA's headers

struct GpuOptions {
  // The number of the GPU among the GPUs that the process sees. Not given: this rank's number on its host, modulo the
  // number of GPUs.
  std::optional<int> device = {};
};

// Memory of this rank's GPU that is registered with NCCL: if all ranks pass such memory to a call, NCCL's kernels and
// the network can reach it directly, without copies in NCCL's own buffers. Move-only.
class GpuMemory {
 public:
  GpuMemory();  // an object that owns no memory
  GpuMemory(GpuMemory&&) noexcept;
  GpuMemory& operator=(GpuMemory&&) noexcept;
  // Ends the registration, and frees memory that allocate() made. No queued work may still use the memory. Call on the
  // thread that uses the GpuGroup. The GpuGroup may already have been destroyed, but not the world.
  ~GpuMemory();
  void* data() const;
  std::size_t bytes() const;

 private:
  friend class GpuGroup;
  struct Impl;
  explicit GpuMemory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class GpuGroup {
 public:
  // All ranks of the world call this. Blocks until all have called, for at most ANELLO_START_TIMEOUT. If a rank lacks
  // something, throws Error{unsupported} on all ranks, which names what is missing and how to get it. If
  // ANELLO_GPU_BACKEND asks for a backend that is not possible, throws Error{configuration} on all ranks. The world
  // must outlive the GpuGroup.
  explicit GpuGroup(World& world, const GpuOptions& options = {});
  // Makes a GpuGroup of some ranks of the world. All members of `ranks` must call this.
  GpuGroup(World& world, const Group& ranks, const GpuOptions& options = {});
  GpuGroup(GpuGroup&&) noexcept;
  GpuGroup& operator=(GpuGroup&&) noexcept;
  // Waits up to five seconds for queued work, then aborts it and logs a warning.
  ~GpuGroup();

  int device() const;                 // the number of this rank's GPU
  std::string_view backend() const;   // "single", "nccl" or "staged"; the first two stage calls that they cannot do
  const std::string& reason() const;  // why this backend was chosen
  const Group& group() const;         // the same ranks, for host memory
  [[nodiscard]] GpuGroup split(int colour, int key = 0);  // makes groups of parts of the ranks, like Group::split()

  // Like the functions of Group with the same names, but queued on a stream.
  void allreduce(Tensor inout, GpuStream stream, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(std::span<const Tensor> list, GpuStream stream, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op = Op::sum,
                 const ReduceOptions& options = {});
  void reduce(Tensor inout, int root, GpuStream stream, Op op = Op::sum, const ReduceOptions& options = {});
  void reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op = Op::sum,
              const ReduceOptions& options = {});
  void broadcast(Tensor tensor, int root, GpuStream stream, const Options& options = {});
  void broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options = {});
  void allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options = {});
  void gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options = {});
  void scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options = {});
  void reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op = Op::sum,
                      const ReduceOptions& options = {});
  void alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options = {});
  void alltoall(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                std::span<const std::uint64_t> recv_counts, GpuStream stream, const Options& options = {});
  void send(ConstTensor tensor, int to, GpuStream stream, const Options& options = {});
  void recv(Tensor tensor, int from, GpuStream stream, const Options& options = {});
  // Sends to peer `to` and at the same time receives from peer `from`, which may be a different rank. If two ranks both
  // call send() before recv(), they may wait for each other for ever; exchange() avoids this.
  void exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream, const Options& options = {});

  // allocate() returns memory that NCCL can reach best. register_memory() registers the program's own memory, for
  // example from cudaMalloc. In a group of one rank nothing is registered. Neither function communicates. Both throw
  // Error{device} if NCCL refuses; the world then goes on. In groups of several ranks, both throw Error{unsupported} if
  // the backend is not "nccl", or NCCL is older than 2.19.
  [[nodiscard]] GpuMemory allocate(std::size_t bytes);
  [[nodiscard]] GpuMemory register_memory(void* memory, std::size_t bytes);

  // Blocks until everything that was queued on the stream is done. If the world has failed, or fails during this call,
  // throws its failure; the contents of the tensors are then undefined.
  void synchronize(GpuStream stream);
  // Blocks until all work is done that any rank queued on its stream before this call.
  void barrier(GpuStream stream, const Options& options = {});
  // Like Group::abort() and Group::failure(), for the world.
  void abort(std::string_view reason);
  [[nodiscard]] std::optional<Error> failure() const;

 private:
  friend class GpuGroupAccess;  // for the engine's own rooms
  class Impl;
  explicit GpuGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
