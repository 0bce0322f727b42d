// Collectives on tensors in GPU memory: those of Group, with a stream. If every rank has a GPU of its own, NCCL carries
// them out. If ranks share a GPU, if NCCL is missing or does not start, or if a setting asks for what NCCL does not do
// (ANELLO_REPRODUCIBLE, ANELLO_INTEGRITY), tensors go through pinned host memory and the group's own algorithms
// ("staged"). In a group of one rank nothing travels: calls are copies on the device ("single"). CUDA and NCCL are
// loaded when a GpuGroup is made: programs are built without CUDA, and on a machine without a GPU the error says what
// is missing.
//
// A stream is a cudaStream_t, or null for the legacy default stream of this rank's GPU, also in a program that is built
// with --default-stream per-thread; cudaStreamPerThread is refused. A call waits for the work that was queued on it
// before, and work that is queued later sees the result. The host may look at a result after synchronize(). A call
// returns when everything is queued. With NCCL this is soon, except for the first call of a kind, which waits until the
// peers have connected, and for alltoall with counts, which ranks compare first. Staged calls block until the result's
// last copy is queued.
//
// While a stream is captured into a CUDA graph, calls of "nccl" and "single" go into the graph; such calls are neither
// recorded nor watched, and alltoall with counts compares them once, at the capture. Refused with Error{unsupported},
// after which the world goes on, is what the host takes part in: synchronize(), tensors in host memory, and calls that
// are staged, also single ones that "nccl" or "single" cannot make. With "nccl" these are refused as well: `wire`,
// `prescale` where libanello_kernels.so is loaded, and with ANELLO_OPERATION_LIMIT or ANELLO_GPU_CHECK all calls.
//
// In one call either all ranks give tensors in the memory of their own GPU, or all give tensors in host memory. For
// host memory the call synchronizes the stream, and then does what Group does. A null pointer counts as GPU memory: in
// a call on host memory, a rank without elements must still give a pointer into host memory. A call may make this
// rank's GPU the thread's current device. A GpuGroup uses one GPU; a rank with several may make a GpuGroup for each.
//
// A Group refuses GPU memory, except at an address where it was given host memory before that has been unmapped since:
// it asks CUDA once for each 64 KiB of addresses.
//
// Ranks make the same calls in the same order, as in a Group, also those of several GpuGroups on one GPU: GPUs carry
// them out in that order, on whatever stream. One thread at a time. Nothing of it may be used in a child that fork()
// made. Errors are those of Group, and Error{device} with the CUDA call, the device and the stream. NCCL differs from
// Group: it adds f16 and bf16 in their own type (averages are divided in f32), its min and max ignore NaN, and results
// are the same from run to run only on the same hardware.
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
  // The number of the GPU among those that the process sees. Not given: this rank's number on its host, modulo their
  // number.
  std::optional<int> device = {};
};

// Memory of this rank's GPU that NCCL has been told of: its kernels and the network may then reach it directly, without
// copies in NCCL's own buffers, if all ranks gave such memory to a call. Move-only.
class GpuMemory {
 public:
  GpuMemory();  // of nothing
  GpuMemory(GpuMemory&&) noexcept;
  GpuMemory& operator=(GpuMemory&&) noexcept;
  // Takes it back, and frees what allocate() made. Nothing that is queued may use it any more. In the thread that uses
  // the GpuGroup, which may have ended; the world must not have.
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
  // All ranks of the world call. Blocks until all have called, but not longer than ANELLO_START_TIMEOUT. Throws on all
  // ranks: Error{unsupported} if one of them lacks something, with what it lacks and how to get it;
  // Error{configuration} if ANELLO_GPU_BACKEND asks for a backend that is not possible. The world must outlive the
  // GpuGroup.
  explicit GpuGroup(World& world, const GpuOptions& options = {});
  // The same for some ranks of the world. All of those make the call.
  GpuGroup(World& world, const Group& ranks, const GpuOptions& options = {});
  GpuGroup(GpuGroup&&) noexcept;
  GpuGroup& operator=(GpuGroup&&) noexcept;
  // Waits up to five seconds for queued work, then aborts it and logs a warning.
  ~GpuGroup();

  int device() const;                 // the number of this rank's GPU
  std::string_view backend() const;   // "single", "nccl" or "staged"; the first two stage calls that they cannot make
  const std::string& reason() const;  // why this backend was chosen
  const Group& group() const;         // the same ranks, for host memory
  [[nodiscard]] GpuGroup split(int colour, int key = 0);  // as Group's

  // As those of Group, queued on a stream.
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
  // Sends to one peer and receives from one, which may be another, at the same time. Two ranks that both send() first
  // and recv() then may wait for each other; with exchange() they do not.
  void exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream, const Options& options = {});

  // Memory that NCCL makes so that it reaches it best, and memory of the program's, from cudaMalloc for example. In a
  // group of one rank there is nothing to tell. Neither communicates. Throw Error{unsupported} for other groups whose
  // backend is not "nccl", and with NCCL before 2.19; Error{device}, after which the world goes on, if NCCL refuses.
  [[nodiscard]] GpuMemory allocate(std::size_t bytes);
  [[nodiscard]] GpuMemory register_memory(void* memory, std::size_t bytes);

  // Blocks until everything that was queued on the stream is done. Throws the world's failure, also while it waits; the
  // contents of the tensors are then undefined.
  void synchronize(GpuStream stream);
  // Blocks until everything that the ranks queued on their streams before this call is done on all of them.
  void barrier(GpuStream stream, const Options& options = {});
  // As Group's: of the world.
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
